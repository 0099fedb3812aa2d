"""Families of counts, with a logarithmic link.

    Poisson             y ~ Poisson(mu),   mu = exp(eta)                                    (1)
    NegativeBinomial    y ~ Poisson(mu g),   g ~ Gamma of mean 1 and variance dispersion    (2)

With k = 1 / dispersion, the log-probability of eq. (2) is

    log Gamma(k + y) - log Gamma(k) - log y! + y log(mu / k) - (k + y) log(1 + mu / k)      (3)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from starlings.models._logistic import softplus
from starlings.models.families._extremes import bounded_exp, largest_exponent, log_rising
from starlings.models.families.checks import check_counts
from starlings.models.families.family import Columns, Family, PredictorFamily, outcome
from starlings.problem.parameters import Parameter

LARGEST_LOG_MEAN = 40.0
"""Largest natural logarithm of the mean of a simulated count, which must fit into 64 bits."""


class _Counts(Family):
    """What all families of counts share."""

    link = "eta is the logarithm of the mean"
    ratio = "rate ratio"

    def predictor_centre(self, outcome_mean: float) -> float:
        """The logarithm of the mean count; 0 if all counts are 0."""
        return float(np.log(outcome_mean)) if outcome_mean > 0 else 0.0

    def _check(self, columns: Mapping[str, np.ndarray], called: Mapping[str, str]) -> None:
        check_counts(columns["y"], called["y"])

    def _mean(self, p: Mapping[str, Any], eta: np.ndarray, columns: Columns) -> np.ndarray:
        return np.exp(eta)


@dataclass(frozen=True)
class Poisson(PredictorFamily, _Counts):
    """Counts whose variance is their mean, eq. (1).

    y ~ Poisson(exp(eta)), so that exp of a coefficient is a rate ratio. With the logarithm of the
    time at risk as `offset`, exp(eta) without it is a rate.
    """

    name = "poisson"
    title = "Poisson"

    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """y eta - exp(eta) - log y! and its two derivatives by eta.

        Beyond the largest exponent, where exp goes on as a straight line, the second derivative
        stays that at the limit, with which Newton's steps come back.
        """
        y = outcome(row, eta)
        slope = jnp.exp(jnp.minimum(eta, largest_exponent(eta.dtype)))
        return y * eta - bounded_exp(eta) - gammaln(y + 1), y - slope, -slope

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        return drawn_counts(rng, eta)


@dataclass(frozen=True)
class NegativeBinomial(_Counts):
    """Counts that vary more than Poisson ones, eq. (2), and the parameter `dispersion`.

    The variance is mu + dispersion mu^2 with mu = exp(eta), known as NB2: the larger `dispersion`,
    the more counts of equal covariates differ; towards 0 they become Poisson. Other programs
    have its inverse, as `shape`, `size`, `phi` or `theta`.
    """

    name = "negative_binomial"
    title = "negative binomial"

    def parameters(self) -> dict[str, Parameter]:
        """`dispersion`."""
        return {"dispersion": Parameter((), "positive")}

    def default_priors(self, outcome_mean: float, outcome_scale: float) -> dict[str, str]:
        """Rather near to Poisson."""
        return {"dispersion": "exponential(1)"}

    def log_density(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """Eq. (3), where terms that are large if k is have been cancelled."""
        y, dispersion = outcome(row, eta), jnp.asarray(p["dispersion"])
        smallest = float(jnp.finfo(dispersion.dtype).eps) ** 2  # Poisson for any purpose
        k = 1 / jnp.maximum(dispersion, smallest)
        ratio = eta - jnp.log(k)  # log(mu / k)
        return log_rising(k, y) - gammaln(y + 1) + y * eta - (k + y) * softplus(ratio)  # (3)

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        k = 1 / np.broadcast_to(p["dispersion"], eta.shape)
        return drawn_counts(rng, eta + np.log(rng.gamma(k) / k))


def drawn_counts(rng: np.random.Generator, log_mean: np.ndarray) -> np.ndarray:
    """Poisson counts with these logarithms of their means."""
    if log_mean.max() > LARGEST_LOG_MEAN:
        raise ValueError(
            f"a Poisson mean of exp({log_mean.max():.0f}) is too large for a count of 64 bits; "
            "take a narrower prior (a smaller `prior_std`), or scale the covariates."
        )
    return rng.poisson(np.exp(log_mean)).astype(float)
