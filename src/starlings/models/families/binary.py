"""Families of outcomes that happen or not, with a logistic link.

Logistic    y ~ Bernoulli(1 / (1 + exp(-eta)))                                          (1)
Binomial    y ~ Binomial(trials, 1 / (1 + exp(-eta)))                                   (2)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.scipy.special import gammaln
from scipy.special import expit

from starlings.models._logistic import sigmoid, softplus
from starlings.models.families.checks import check_counts, check_rows, check_zero_or_one
from starlings.models.families.family import Columns, PredictorFamily, outcome


@dataclass(frozen=True)
class Logistic(PredictorFamily):
    """Outcomes 0 or 1 with a logistic link, eq. (1).

    y ~ Bernoulli(p) with p = 1 / (1 + exp(-eta)), so that exp of a coefficient is an odds ratio.
    """

    name = "logistic"
    title = "logistic (Bernoulli)"
    link = "eta is the logarithm of the odds"
    ratio = "odds ratio"
    levels_of_outcome = 2

    def _check(self, columns: Mapping[str, np.ndarray], called: Mapping[str, str]) -> None:
        check_zero_or_one(columns["y"], called["y"])

    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """y eta - log(1 + exp(eta)) and its two derivatives by eta."""
        y, probability = outcome(row, eta), sigmoid(eta)
        return y * eta - softplus(eta), y - probability, -probability * (1 - probability)

    def _mean(self, p: Mapping[str, Any], eta: np.ndarray, columns: Columns) -> np.ndarray:
        return expit(eta)

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        return (rng.logistic(size=eta.shape) < eta).astype(float)


@dataclass(frozen=True)
class Binomial(PredictorFamily):
    """Successes among known numbers of trials, eq. (2); the column `trials` has these numbers.

    y ~ Binomial(trials, p) with p = 1 / (1 + exp(-eta)), so that exp of a coefficient is an odds
    ratio. The expected outcome is a number of successes, trials p.
    """

    name = "binomial"
    title = "binomial"
    link = "eta is the logarithm of the odds of a success"
    ratio = "odds ratio"
    row_columns = ("trials",)

    def _check(self, columns: Mapping[str, np.ndarray], called: Mapping[str, str]) -> None:
        y, trials = columns["y"], columns["trials"]
        check_counts(y, called["y"])
        check_counts(trials, called["trials"])
        within = f"at least the successes in `{called['y']}`; are the columns swapped?"
        check_rows(trials, trials >= y, called["trials"], within)

    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """log C(n, y) + y eta - n log(1 + exp(eta)), n trials, and its two derivatives by eta."""
        y, n, probability = outcome(row, eta), outcome(row, eta, "trials"), sigmoid(eta)
        ways = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
        slope, curvature = y - n * probability, -n * probability * (1 - probability)
        return ways + y * eta - n * softplus(eta), slope, curvature

    def _mean(self, p: Mapping[str, Any], eta: np.ndarray, columns: Columns) -> np.ndarray:
        return np.asarray(columns["trials"]) * expit(eta)

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        return rng.binomial(np.asarray(columns["trials"], int), expit(eta)).astype(float)
