"""Families of continuous outcomes.

    Gaussian    y ~ N(eta, sigma^2)                                                         (1)
    StudentT    (y - eta) / scale ~ t(degrees_of_freedom)                                   (2)
    Gamma       y ~ Gamma(shape, rate = shape / mu),   mu = exp(eta)                        (3)

With d = log y - eta, the log-density of eq. (3) is

    shape (d - exp(d) + 1) + [shape log shape - shape - log Gamma(shape)] - log y           (4)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from starlings.errors import check_positive
from starlings.models.families._extremes import bounded_expm1, log_gamma_remainder
from starlings.models.families.checks import check_rows
from starlings.models.families.family import Columns, Family, outcome
from starlings.problem.parameters import Parameter


class _OnItsScale(Family):
    """A family whose eta has the unit of the outcome: defaults of priors follow its scale."""

    def predictor_scale(self, outcome_scale: float) -> float:
        """The standard deviation of the outcomes; 1 if they are all the same."""
        return outcome_scale if outcome_scale > 0 else 1.0

    def predictor_centre(self, outcome_mean: float) -> float:
        """The mean of the outcomes."""
        return outcome_mean

    def _check(self, columns: Mapping[str, np.ndarray], called: Mapping[str, str]) -> None:
        """Any finite number can be an outcome."""

    def _mean(self, p: Mapping[str, Any], eta: np.ndarray, columns: Columns) -> np.ndarray:
        return eta


@dataclass(frozen=True)
class Gaussian(_OnItsScale):
    """Normal outcomes, eq. (1), with a known standard deviation or the parameter `sigma`.

    y ~ N(eta, sigma^2), so that a coefficient is the difference of means for one unit more.
    """

    name = "gaussian"
    title = "Gaussian"
    link = "eta is the mean"
    noise_std: float | None = None
    """sigma, in units of the outcome, if it is known; None if it is the parameter `sigma`."""

    def __post_init__(self) -> None:
        if self.noise_std is not None:
            check_positive(noise_std=self.noise_std)

    def parameters(self) -> dict[str, Parameter]:
        """`sigma`, unless it is known."""
        return {} if self.noise_std is not None else {"sigma": Parameter((), "positive")}

    def default_priors(self, outcome_mean: float, outcome_scale: float) -> dict[str, str]:
        """sigma with the standard deviation of the outcomes as its mean."""
        rate = 1 / self.predictor_scale(outcome_scale)
        return {} if self.noise_std is not None else {"sigma": f"exponential({rate:.3g})"}

    def log_density(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """Eq. (1)."""
        sigma = self._sigma(p)
        z = (outcome(row, eta) - eta) / sigma
        return -0.5 * z**2 - jnp.log(sigma) - 0.5 * jnp.log(2 * jnp.pi)

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        return rng.normal(eta, self._sigma(p))

    def _sigma(self, p: Mapping[str, Any]) -> Any:
        """The standard deviation of an outcome, known or a parameter."""
        return p["sigma"] if self.noise_std is None else self.noise_std


@dataclass(frozen=True)
class StudentT(_OnItsScale):
    """Outcomes with heavy tails, eq. (2), for data with outliers, and the parameter `scale`.

    (y - eta) / scale ~ t(degrees_of_freedom). The standard deviation of y is larger than `scale`.
    """

    name = "student_t"
    title = "Student's t"
    link = "eta is the median, and the mean if there is one"
    degrees_of_freedom: float = 4.0
    """The degrees of freedom of the t distribution, a number without unit; fewer, heavier tails."""

    def __post_init__(self) -> None:
        check_positive(degrees_of_freedom=self.degrees_of_freedom)

    def parameters(self) -> dict[str, Parameter]:
        """`scale`."""
        return {"scale": Parameter((), "positive")}

    def default_priors(self, outcome_mean: float, outcome_scale: float) -> dict[str, str]:
        """Scale with the standard deviation of the outcomes as its mean."""
        return {"scale": f"exponential({1 / self.predictor_scale(outcome_scale):.3g})"}

    def log_density(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """Eq. (2)."""
        nu, scale = self.degrees_of_freedom, p["scale"]
        z = (outcome(row, eta) - eta) / scale
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * jnp.pi)
        return constant - jnp.log(scale) - 0.5 * (nu + 1) * jnp.log1p(z**2 / nu)

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        return eta + p["scale"] * rng.standard_t(self.degrees_of_freedom, eta.shape)


@dataclass(frozen=True)
class Gamma(Family):
    """Positive outcomes such as costs and lengths of stay, eq. (3), and the parameter `shape`.

    y ~ Gamma(shape, rate = shape / mu) with mu = exp(eta). The standard deviation of y is
    mu / sqrt(shape): the larger `shape`, the closer outcomes are to their mean.
    """

    name = "gamma"
    title = "gamma"
    link = "eta is the logarithm of the mean"
    ratio = "ratio of means"

    def parameters(self) -> dict[str, Parameter]:
        """`shape`."""
        return {"shape": Parameter((), "positive")}

    def default_priors(self, outcome_mean: float, outcome_scale: float) -> dict[str, str]:
        """Standard deviations from a fifth of the mean to many times the mean."""
        return {"shape": "half_student_t(3, 5)"}

    def predictor_centre(self, outcome_mean: float) -> float:
        """The logarithm of the mean of the outcomes."""
        return float(np.log(outcome_mean))

    def _check(self, columns: Mapping[str, np.ndarray], called: Mapping[str, str]) -> None:
        remedy = "model zeros apart, or take another family"
        check_rows(columns["y"], columns["y"] > 0, called["y"], f"positive; {remedy}")

    def log_density(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """Eq. (4)."""
        log_y = jnp.log(outcome(row, eta))
        excess = log_y - eta
        form = p["shape"] * (excess - bounded_expm1(excess))
        return form + log_gamma_remainder(jnp.asarray(p["shape"])) - log_y  # (4)

    def _mean(self, p: Mapping[str, Any], eta: np.ndarray, columns: Columns) -> np.ndarray:
        return np.exp(eta)

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        shape = np.broadcast_to(p["shape"], eta.shape)
        return np.exp(eta) * rng.gamma(shape) / shape
