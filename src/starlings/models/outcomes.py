"""Outcomes and priors of the regressions: densities from which values can also be drawn.

Per row x with outcome y and linear predictor eta = x'beta,

    Normal      y ~ N(eta, noise_std^2)                                                         (1)
    Bernoulli   y ~ Bernoulli(1 / (1 + exp(-eta)))                                              (2)
    Poisson     y ~ Poisson(exp(eta))                                                           (3)
    StudentT    (y - eta) / scale ~ t(degrees_of_freedom)                                       (4)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from starlings.models._logistic import sigmoid, softplus
from starlings.problem.likelihood import LinearPredictorModel
from starlings.problem.parameters import Parameters

LARGEST_LOG_MEAN = 40.0
"""Largest natural logarithm of the mean of a simulated Poisson outcome: a count must fit into 64
bits."""


@dataclass(frozen=True)
class NormalPrior:
    """Coefficients beta ~ N(0, std^2 I) and, if there is a scale, scale ~ |N(0, scale_std^2)|."""

    std: float
    """Standard deviation of every coefficient, in units of the coefficients."""
    scale_name: str | None = None
    """Name of the scale parameter; None for a model without one."""
    scale_std: float = 1.0
    """Standard deviation of the normal variable whose absolute value is the scale."""

    def __call__(self, p: dict[str, Any]) -> jax.Array:
        """Log-density of the parameters, normalised."""
        size = p["beta"].size
        density = -0.5 * jnp.sum((p["beta"] / self.std) ** 2)
        density -= size * (jnp.log(self.std) + 0.5 * jnp.log(2 * jnp.pi))
        if self.scale_name is not None:
            density += half_normal(p[self.scale_name], self.scale_std)
        return density

    def draw(self, rng: np.random.Generator, parameters: Parameters) -> dict[str, Any]:
        """Parameters by name, drawn from this prior."""
        shape = parameters.blocks["beta"].shape
        drawn: dict[str, Any] = {"beta": rng.normal(0.0, self.std, shape)}
        if self.scale_name is not None:
            drawn[self.scale_name] = abs(rng.normal(0.0, self.scale_std))
        return drawn


class Outcome(ABC):
    """The distribution of the outcome of one row, given the parameters and the covariates."""

    @abstractmethod
    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-density, or log-probability, of the outcome of one row."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """One outcome for every row of the covariates x (row, column), drawn at random."""


@dataclass(frozen=True)
class Normal(Outcome):
    """Normal outcomes, eq. (1), with a known standard deviation or the parameter `sigma`."""

    noise_std: float | None = None
    """Standard deviation of an outcome, in its units; None if it is the parameter `sigma`."""

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-density of the outcome of one row."""
        sigma = self._sigma(p)
        z = (row["y"] - row["x"] @ p["beta"]) / sigma
        return -0.5 * z**2 - jnp.log(sigma) - 0.5 * jnp.log(2 * jnp.pi)

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """One outcome for every row of the covariates x."""
        return rng.normal(x @ p["beta"], self._sigma(p))

    def _sigma(self, p: dict[str, Any]) -> Any:
        """The standard deviation of an outcome, known or a parameter."""
        return p["sigma"] if self.noise_std is None else self.noise_std


@dataclass(frozen=True)
class Bernoulli(LinearPredictorModel, Outcome):
    """Outcomes 0 or 1 with a logistic link, eq. (2)."""

    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """y eta - log(1 + exp(eta)) and its two derivatives by eta."""
        probability = sigmoid(eta)
        value = row["y"] * eta - softplus(eta)
        return value, row["y"] - probability, -probability * (1 - probability)

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """One outcome, 0 or 1, for every row of the covariates x."""
        return (rng.logistic(size=len(x)) < x @ p["beta"]).astype(float)


@dataclass(frozen=True)
class Poisson(LinearPredictorModel, Outcome):
    """Counts with a logarithmic link, eq. (3)."""

    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """y eta - exp(eta) - log y! and its two derivatives by eta."""
        mean = jnp.exp(eta)
        return row["y"] * eta - mean - gammaln(row["y"] + 1), row["y"] - mean, -mean

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """One count for every row of the covariates x."""
        eta = x @ p["beta"]
        if eta.max() > LARGEST_LOG_MEAN:
            raise ValueError(
                f"the prior allows a Poisson mean of exp({eta.max():.0f}), too large for a count "
                "of 64 bits; take a smaller `prior_std`, or scale the covariates."
            )
        return rng.poisson(np.exp(eta)).astype(float)


@dataclass(frozen=True)
class StudentT(Outcome):
    """Outcomes with the heavy tails of Student's t, eq. (4), and the parameter `scale`."""

    degrees_of_freedom: float
    """The degrees of freedom of the t distribution, a number without unit; fewer, heavier tails."""

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-density of the outcome of one row."""
        nu, scale = self.degrees_of_freedom, p["scale"]
        z = (row["y"] - row["x"] @ p["beta"]) / scale
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * jnp.pi)
        return constant - jnp.log(scale) - 0.5 * (nu + 1) * jnp.log1p(z**2 / nu)

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """One outcome for every row of the covariates x."""
        return x @ p["beta"] + p["scale"] * rng.standard_t(self.degrees_of_freedom, len(x))


def half_normal(value: jax.Array, std: float) -> jax.Array:
    """Log-density of |N(0, std^2)| at a positive value."""
    return -0.5 * (value / std) ** 2 + 0.5 * jnp.log(2 / jnp.pi) - jnp.log(std)
