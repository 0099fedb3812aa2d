"""The distributions that a prior can be, by name: normalised densities and quantiles.

With z = (value - location) / scale,

    normal        exp(-z^2 / 2) / (scale sqrt(2 pi))                                        (1)
    student_t     (1 + z^2 / nu)^(-(nu + 1) / 2) Gamma((nu + 1) / 2)
                  / (Gamma(nu / 2) sqrt(nu pi) scale),   nu degrees of freedom              (2)
    cauchy        1 / (pi scale (1 + z^2))                                                  (3)
    laplace       exp(-|z|) / (2 scale)                                                     (4)
    half_...      twice the density of (1), (2) or (3) with location 0, for positive values (5)
    exponential   rate exp(-rate value)                                                     (6)
    gamma         rate^shape value^(shape - 1) exp(-rate value) / Gamma(shape)              (7)
    beta          value^(a - 1) (1 - value)^(b - 1) / B(a, b)                               (8)
    uniform       1 / (upper - lower)                                                       (9)
    flat          1, which is no distribution: no evidence, and no draws
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special as special
from jax.scipy.special import betaln, gammaln

LogDensity = Callable[..., jax.Array]
"""(value, *numbers) -> log-density, entry by entry."""
LOCATIONS = ("location", "lower", "upper")
"""Numbers of a distribution that may be negative or 0; all others are positive."""


@dataclass(frozen=True, eq=False)
class Kind:
    """A family of distributions with some numbers, such as a location and a scale."""

    arguments: tuple[str, ...]
    """What its numbers are, in order."""
    support: str
    """Where values can be: "real", "positive", "unit_interval" or "interval"."""
    log_density: LogDensity
    """The logarithm of the density; minus infinity outside the support."""
    quantile: Callable[..., Any]
    """(probability, *numbers) -> value, in NumPy."""
    std: Callable[..., Any]
    """The standard deviation from the numbers; infinite if there is none."""


def _normal(value: Any, location: Any, scale: Any) -> jax.Array:
    """Eq. (1)."""
    return -0.5 * ((value - location) / scale) ** 2 - jnp.log(scale) - 0.5 * np.log(2 * np.pi)


def _student_t(value: Any, nu: Any, location: Any, scale: Any) -> jax.Array:
    """Eq. (2)."""
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * np.pi)
    z = (value - location) / scale
    return constant - jnp.log(scale) - 0.5 * (nu + 1) * jnp.log1p(z**2 / nu)


def _cauchy(value: Any, location: Any, scale: Any) -> jax.Array:
    """Eq. (3)."""
    return -jnp.log(np.pi * scale) - jnp.log1p(((value - location) / scale) ** 2)


def _laplace(value: Any, location: Any, scale: Any) -> jax.Array:
    """Eq. (4)."""
    return -jnp.abs(value - location) / scale - jnp.log(2 * scale)


def _exponential(value: Any, rate: Any) -> jax.Array:
    """Eq. (6)."""
    return jnp.where(value >= 0, jnp.log(rate) - rate * value, -jnp.inf)


def _gamma(value: Any, shape: Any, rate: Any) -> jax.Array:
    """Eq. (7)."""
    inside = jnp.where(value > 0, value, 1.0)
    density = shape * jnp.log(rate) + (shape - 1) * jnp.log(inside) - rate * inside - gammaln(shape)
    return jnp.where(value > 0, density, -jnp.inf)


def _beta(value: Any, a: Any, b: Any) -> jax.Array:
    """Eq. (8)."""
    is_inside = (value > 0) & (value < 1)
    inside = jnp.where(is_inside, value, 0.5)
    density = (a - 1) * jnp.log(inside) + (b - 1) * jnp.log1p(-inside) - betaln(a, b)
    return jnp.where(is_inside, density, -jnp.inf)


def _uniform(value: Any, lower: Any, upper: Any) -> jax.Array:
    """Eq. (9)."""
    is_inside = (value >= lower) & (value <= upper)
    return jnp.where(is_inside, -jnp.log(upper - lower), -jnp.inf)


def _half(density: LogDensity, place: int) -> LogDensity:
    """Eq. (5), where the location is the number at this place of the whole distribution."""

    def halved(value: Any, *numbers: Any) -> jax.Array:
        whole = density(value, *numbers[:place], 0.0, *numbers[place:])
        return jnp.where(value >= 0, whole + np.log(2), -jnp.inf)

    return halved


def _student_t_std(nu: Any, location: Any, scale: Any) -> Any:
    return scale * np.sqrt(nu / (nu - 2)) if nu > 2 else np.inf


def _half_student_t_std(nu: Any, scale: Any) -> Any:
    if nu <= 2:
        return np.inf
    ratio = np.exp(special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2))
    mean = 2 * np.sqrt(nu / np.pi) / (nu - 1) * ratio
    return scale * np.sqrt(nu / (nu - 2) - mean**2)


def _laplace_quantile(q: Any, location: Any, scale: Any) -> Any:
    side = np.asarray(q) - 0.5
    return location - scale * np.sign(side) * np.log1p(-2 * np.abs(side))


KINDS = {
    "normal": Kind(
        ("location", "standard deviation"),
        "real",
        _normal,
        lambda q, location, scale: location + scale * special.ndtri(q),
        lambda location, scale: scale,
    ),
    "student_t": Kind(
        ("degrees of freedom", "location", "scale"),
        "real",
        _student_t,
        lambda q, nu, location, scale: location + scale * special.stdtrit(nu, q),
        _student_t_std,
    ),
    "cauchy": Kind(
        ("location", "scale"),
        "real",
        _cauchy,
        lambda q, location, scale: location + scale * np.tan(np.pi * (np.asarray(q) - 0.5)),
        lambda location, scale: np.inf,
    ),
    "laplace": Kind(
        ("location", "scale"),
        "real",
        _laplace,
        _laplace_quantile,
        lambda location, scale: np.sqrt(2) * scale,
    ),
    "half_normal": Kind(
        ("scale",),
        "positive",
        _half(_normal, 0),
        lambda q, scale: scale * special.ndtri((1 + np.asarray(q)) / 2),
        lambda scale: scale * np.sqrt(1 - 2 / np.pi),
    ),
    "half_student_t": Kind(
        ("degrees of freedom", "scale"),
        "positive",
        _half(_student_t, 1),
        lambda q, nu, scale: scale * special.stdtrit(nu, (1 + np.asarray(q)) / 2),
        _half_student_t_std,
    ),
    "half_cauchy": Kind(
        ("scale",),
        "positive",
        _half(_cauchy, 0),
        lambda q, scale: scale * np.tan(np.pi * np.asarray(q) / 2),
        lambda scale: np.inf,
    ),
    "exponential": Kind(
        ("rate",),
        "positive",
        _exponential,
        lambda q, rate: -np.log1p(-np.asarray(q)) / rate,
        lambda rate: 1 / rate,
    ),
    "gamma": Kind(
        ("shape", "rate"),
        "positive",
        _gamma,
        lambda q, shape, rate: special.gammaincinv(shape, q) / rate,
        lambda shape, rate: np.sqrt(shape) / rate,
    ),
    "beta": Kind(
        ("a", "b"),
        "unit_interval",
        _beta,
        lambda q, a, b: special.betaincinv(a, b, q),
        lambda a, b: np.sqrt(a * b / (a + b + 1)) / (a + b),
    ),
    "uniform": Kind(
        ("lower", "upper"),
        "interval",
        _uniform,
        lambda q, lower, upper: lower + (upper - lower) * np.asarray(q),
        lambda lower, upper: (upper - lower) / np.sqrt(12),
    ),
    "flat": Kind(
        (),
        "real",
        lambda value: jnp.zeros_like(value),
        lambda q: np.full(np.shape(q), np.nan),
        lambda: np.inf,
    ),
}
"""All distributions by name."""
