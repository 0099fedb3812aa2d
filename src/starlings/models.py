"""Ready-made regressions: rows with a label of their site in, a `Problem` out.

Every model has coefficients beta ~ N(0, prior_var I) on the columns of X and, per row x with
outcome y and eta = x'beta,

    linear      y ~ N(eta, noise_std^2)                        quadratic if noise_std is known  (1)
    logistic    y ~ Bernoulli(1 / (1 + exp(-eta)))                                              (2)
    Poisson     y ~ Poisson(exp(eta))                                                           (3)
    Student-t   (y - eta) / scale ~ t(degrees_of_freedom)                                       (4)

An unknown noise_std or scale is positive with a half-normal prior. There is no intercept unless X
has a column of ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from starlings.errors import check_positive
from starlings.parameters import Parameter
from starlings.problem import Problem
from starlings.shards import divide_by_site


def linear_regression(
    X: Any,
    y: Any,
    sites: Sequence[Any],
    *,
    noise_std: float | None = None,
    prior_var: float = 10.0,
    noise_prior_std: float = 10.0,
) -> Problem:
    """Linear regression, eq. (1), with known noise or, if `noise_std` is None, unknown `sigma`."""
    rows, labels = _design(X, y)
    if noise_std is None:
        check_positive(prior_var=prior_var, noise_prior_std=noise_prior_std)
        parameters = {"beta": _coefficients(rows, labels), "sigma": Parameter((), "positive")}
        prior = NormalPrior(prior_var, "sigma", noise_prior_std)
        return Problem(normal, prior, parameters, divide_by_site(rows, sites))
    check_positive(prior_var=prior_var, noise_std=noise_std)
    parameters = {"beta": _coefficients(rows, labels)}
    shards = divide_by_site(rows, sites)
    return Problem(KnownNoise(noise_std), NormalPrior(prior_var), parameters, shards, True)


def logistic_regression(
    X: Any, y: Any, sites: Sequence[Any], *, prior_var: float = 10.0
) -> Problem:
    """Logistic regression, eq. (2); outcomes are 0 or 1."""
    check_positive(prior_var=prior_var)
    rows, labels = _design(X, y)
    _check_outcome(rows["y"], np.isin(rows["y"], (0, 1)), "0 or 1")
    parameters = {"beta": _coefficients(rows, labels)}
    return Problem(bernoulli, NormalPrior(prior_var), parameters, divide_by_site(rows, sites))


def poisson_regression(X: Any, y: Any, sites: Sequence[Any], *, prior_var: float = 10.0) -> Problem:
    """Poisson regression, eq. (3); outcomes are counts."""
    check_positive(prior_var=prior_var)
    rows, labels = _design(X, y)
    counts = (rows["y"] >= 0) & (rows["y"] == np.round(rows["y"]))
    _check_outcome(rows["y"], counts, "a count (0, 1, 2, ...)")
    parameters = {"beta": _coefficients(rows, labels)}
    return Problem(poisson, NormalPrior(prior_var), parameters, divide_by_site(rows, sites))


def student_t_regression(
    X: Any,
    y: Any,
    sites: Sequence[Any],
    *,
    degrees_of_freedom: float = 4.0,
    prior_var: float = 10.0,
    noise_prior_std: float = 10.0,
) -> Problem:
    """Robust regression, eq. (4), with unknown `scale`."""
    check_positive(
        degrees_of_freedom=degrees_of_freedom, prior_var=prior_var, noise_prior_std=noise_prior_std
    )
    rows, labels = _design(X, y)
    parameters = {"beta": _coefficients(rows, labels), "scale": Parameter((), "positive")}
    prior = NormalPrior(prior_var, "scale", noise_prior_std)
    shards = divide_by_site(rows, sites)
    return Problem(StudentT(degrees_of_freedom), prior, parameters, shards)


def gaussian(hessians: Any, linear: Any = None) -> Problem:
    """A Gaussian target by its local potentials f_i(x) = x'H_i x / 2 - b_i'x, for theory and tests.

    >>> problem = gaussian([[[2.0]], [[3.0]]])
    >>> problem.potential([1.0])
    2.5
    """
    stack = np.asarray(hessians, float)
    if stack.ndim != 3 or stack.shape[1] != stack.shape[2]:
        raise ValueError(f"`hessians` must have shape (agents, dim, dim), got {stack.shape}.")
    vectors = np.zeros(stack.shape[:2]) if linear is None else np.asarray(linear, float)
    if vectors.shape != stack.shape[:2]:
        raise ValueError(f"`linear` must have shape {stack.shape[:2]}, got {vectors.shape}.")
    shards = [{"hessian": H[None], "linear": b[None]} for H, b in zip(stack, vectors, strict=True)]
    return Problem(local_quadratic, flat_prior, {"x": (stack.shape[1],)}, shards, quadratic=True)


@dataclass(frozen=True)
class NormalPrior:
    """beta ~ N(0, variance I) and, where there is one, a half-normal scale."""

    variance: float
    scale_name: str | None = None
    scale_std: float = 1.0

    def __call__(self, p: dict[str, Any]) -> jax.Array:
        """Log-density up to a constant in the variance."""
        size = p["beta"].size
        density = -0.5 * jnp.sum(p["beta"] ** 2) / self.variance
        density -= 0.5 * size * jnp.log(2 * jnp.pi * self.variance)
        if self.scale_name is not None:
            density += half_normal(p[self.scale_name], self.scale_std)
        return density


@dataclass(frozen=True)
class KnownNoise:
    """Eq. (1) with a known standard deviation."""

    noise_std: float

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-density of one outcome."""
        return normal({"beta": p["beta"], "sigma": self.noise_std}, row)


@dataclass(frozen=True)
class StudentT:
    """Eq. (4)."""

    degrees_of_freedom: float

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-density of one outcome."""
        nu, scale = self.degrees_of_freedom, p["scale"]
        z = (row["y"] - row["x"] @ p["beta"]) / scale
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * jnp.pi)
        return constant - jnp.log(scale) - 0.5 * (nu + 1) * jnp.log1p(z**2 / nu)


def normal(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """Eq. (1) with sigma among the parameters."""
    z = (row["y"] - row["x"] @ p["beta"]) / p["sigma"]
    return -0.5 * z**2 - jnp.log(p["sigma"]) - 0.5 * jnp.log(2 * jnp.pi)


def bernoulli(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """Eq. (2)."""
    eta = row["x"] @ p["beta"]
    return row["y"] * eta - jax.nn.softplus(eta)


def poisson(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """Eq. (3)."""
    eta = row["x"] @ p["beta"]
    return row["y"] * eta - jnp.exp(eta) - gammaln(row["y"] + 1)


def half_normal(value: jax.Array, std: float) -> jax.Array:
    """Log-density of |N(0, std^2)|."""
    return -0.5 * (value / std) ** 2 + 0.5 * jnp.log(2 / jnp.pi) - jnp.log(std)


def local_quadratic(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """Minus x'Hx/2 - b'x: a potential kept as one row."""
    x = p["x"]
    return -0.5 * x @ row["hessian"] @ x + row["linear"] @ x


def flat_prior(p: dict[str, Any]) -> float:
    """Log-density zero."""
    return 0.0


def _design(X: Any, y: Any) -> tuple[dict[str, np.ndarray], tuple[str, ...] | None]:
    """X and y as float rows, and the names of the columns where X is a table."""
    labels = tuple(str(column) for column in X.columns) if hasattr(X, "columns") else None
    try:
        x, outcome = np.asarray(X, float), np.asarray(y, float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`X` and `y` must be numeric: {error}.") from None
    if x.ndim != 2:
        raise ValueError(f"`X` must be a table of rows and columns, got shape {x.shape}.")
    if x.shape[1] == 0:
        raise ValueError("`X` has no columns; a regression needs at least one.")
    if outcome.shape != (len(x),):
        raise ValueError(
            f"`y` must have one outcome for each of the {len(x)} rows of `X`, "
            f"got shape {outcome.shape}."
        )
    for index, column in enumerate(x.T):
        _check_finite(labels[index] if labels else f"X[:, {index}]", column)
    _check_finite("y", outcome)
    return {"x": x, "y": outcome}, labels


def _check_finite(name: str, column: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(column))
    if len(bad):
        raise ValueError(
            f"column {name!r} is {column[bad[0]]} in row {bad[0]} ({len(bad)} such rows); "
            "drop or impute them."
        )


def _check_outcome(y: np.ndarray, valid: np.ndarray, wanted: str) -> None:
    if not valid.all():
        row = int(np.argmin(valid))
        raise ValueError(f"`y` must be {wanted}, got {y[row]:g} in row {row}.")


def _coefficients(rows: dict[str, np.ndarray], labels: tuple[str, ...] | None) -> Parameter:
    return Parameter((rows["x"].shape[1],), labels=labels)
