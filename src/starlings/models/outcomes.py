"""Outcomes and priors of the regressions: densities that can also be drawn from.

Per row x with outcome y and predictor eta = x'beta,

    Normal      y ~ N(eta, noise_std^2)                                                         (1)
    Bernoulli   y ~ Bernoulli(1 / (1 + exp(-eta)))                                              (2)
    Poisson     y ~ Poisson(exp(eta))                                                           (3)
    StudentT    (y - eta) / scale ~ t(degrees_of_freedom)                                       (4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from starlings.models._logistic import sigmoid, softplus
from starlings.problem.parameters import Parameters

LARGEST_LOG_MEAN = 40.0
"""Largest log-mean of a Poisson outcome that is simulated: a count has to fit into 64 bits."""


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


@dataclass(frozen=True)
class Normal:
    """Eq. (1), with sigma among the parameters unless the noise is known."""

    noise_std: float | None = None

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-density of one outcome."""
        sigma = self._sigma(p)
        z = (row["y"] - row["x"] @ p["beta"]) / sigma
        return -0.5 * z**2 - jnp.log(sigma) - 0.5 * jnp.log(2 * jnp.pi)

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """An outcome for every row of x."""
        return rng.normal(x @ p["beta"], self._sigma(p))

    def _sigma(self, p: dict[str, Any]) -> Any:
        return p["sigma"] if self.noise_std is None else self.noise_std


@dataclass(frozen=True)
class Bernoulli:
    """Eq. (2)."""

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-probability of one outcome."""
        return self.of_predictor(row["x"] @ p["beta"], row)[0]

    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """y eta - log(1 + exp(eta)) and its derivatives."""
        probability = sigmoid(eta)
        value = row["y"] * eta - softplus(eta)
        return value, row["y"] - probability, -probability * (1 - probability)

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """An outcome for every row of x."""
        return (rng.logistic(size=len(x)) < x @ p["beta"]).astype(float)


@dataclass(frozen=True)
class Poisson:
    """Eq. (3)."""

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """Log-probability of one outcome."""
        return self.of_predictor(row["x"] @ p["beta"], row)[0]

    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """y eta - exp(eta) - log y! and its derivatives."""
        mean = jnp.exp(eta)
        return row["y"] * eta - mean - gammaln(row["y"] + 1), row["y"] - mean, -mean

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """An outcome for every row of x."""
        eta = x @ p["beta"]
        if eta.max() > LARGEST_LOG_MEAN:
            raise ValueError(
                f"the prior allows a Poisson mean of exp({eta.max():.0f}), which is no count; take "
                "a smaller `prior_std`, or scale the covariates."
            )
        return rng.poisson(np.exp(eta)).astype(float)


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

    def draw(self, rng: np.random.Generator, p: dict[str, Any], x: np.ndarray) -> np.ndarray:
        """An outcome for every row of x."""
        return x @ p["beta"] + p["scale"] * rng.standard_t(self.degrees_of_freedom, len(x))


def half_normal(value: jax.Array, std: float) -> jax.Array:
    """Log-density of |N(0, std^2)|."""
    return -0.5 * (value / std) ** 2 + 0.5 * jnp.log(2 / jnp.pi) - jnp.log(std)
