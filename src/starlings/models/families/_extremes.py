"""Functions that stay finite far out, with their derivatives, in float32 too.

exp(eta) overflows at eta = 89 in float32. A gradient then is infinite, and times a covariate that
is 0 it is not a number. Beyond a limit T, where densities are 0 for any purpose, exp is continued
by its tangent,

    E(eta) = exp(eta)                        for eta <= T
             exp(T) (1 + eta - T)            beyond                                          (1)

Differences of log-gamma functions of large numbers lose all their digits. With Stirling's series

    log Gamma(k) = (k - 1/2) log k - k + log(2 pi) / 2 + c(k)                                (2)
    c(k) = 1/(12 k) - 1/(360 k^3) + 1/(1260 k^5) - 1/(1680 k^7) + 1/(1188 k^9) - ...

the large terms cancel on paper. Small numbers are shifted up by n = `FROM_SERIES` first,

    Gamma(k) = Gamma(k + n) / (k (k + 1) ... (k + n - 1))                                    (3)

so that there is one formula for all k, with simple derivatives.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FROM_SERIES = 10
"""Smallest k for eq. (2), without unit: what is left out is then below 2e-14."""
SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
"""The coefficients of c(k) in eq. (2)."""


def largest_exponent(dtype: Any) -> float:
    """T of eq. (1): the square of exp(T) is the largest number of this type."""
    return float(np.log(jnp.finfo(dtype).max) / 2)


def bounded_exp(eta: jax.Array) -> jax.Array:
    """E(eta) of eq. (1)."""
    limit = largest_exponent(eta.dtype)
    return jnp.exp(jnp.minimum(eta, limit)) * (1 + jnp.maximum(eta - limit, 0))  # (1)


def bounded_expm1(eta: jax.Array) -> jax.Array:
    """E(eta) - 1, with all digits where eta is near 0."""
    limit = largest_exponent(eta.dtype)
    beyond = jnp.maximum(eta - limit, 0)
    return jnp.expm1(jnp.minimum(eta, limit)) + np.exp(limit) * beyond


def series(k: jax.Array) -> jax.Array:
    """c(k) of eq. (2), for k of at least `FROM_SERIES`."""
    inverse, value = 1 / k, jnp.zeros_like(k)
    for coefficient in reversed(SERIES):
        value = value * inverse**2 + coefficient
    return value * inverse


def log_gamma_remainder(k: jax.Array) -> jax.Array:
    """k log k - k - log Gamma(k), for positive k."""
    is_small, below = k < FROM_SERIES, jnp.minimum(k, FROM_SERIES)
    large = jnp.where(is_small, below + FROM_SERIES, k)
    by_series = 0.5 * jnp.log(large) - 0.5 * np.log(2 * np.pi) - series(large)  # (2)
    shift = jnp.sum(jnp.log(_shifted(below) / large[..., None]), -1) + FROM_SERIES  # (3)
    shift += below * jnp.log(below / large)
    return by_series + jnp.where(is_small, shift, 0.0)


def log_rising(k: jax.Array, y: jax.Array) -> jax.Array:
    """log Gamma(k + y) - log Gamma(k) - y log k, for positive k and y of at least 0."""
    is_small, below = k < FROM_SERIES, jnp.minimum(k, FROM_SERIES)
    large = jnp.where(is_small, below + FROM_SERIES, k)
    by_series = (large + y - 0.5) * jnp.log1p(y / large) - y + series(large + y) - series(large)
    factors = jnp.log1p(y[..., None] / _shifted(below))
    shift = y * jnp.log(large / below) - jnp.sum(factors, -1)  # (3)
    return by_series + jnp.where(is_small, shift, 0.0)


def _shifted(k: jax.Array) -> jax.Array:
    """k, k + 1, ..., k + n - 1 of eq. (3), along a last axis."""
    return k[..., None] + jnp.arange(FROM_SERIES, dtype=k.dtype)
