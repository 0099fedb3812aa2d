"""All families with parameters, rows and the distributions of SciPy that they should be."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.stats
from scipy.special import expit

from starlings.models.families import Family, family_of

CUTS = (1.0, 2.5)
LEVELS = ("none", "mild", "severe", "worst")
ETA = np.array([-2.0, -0.3, 0.0, 0.4, 1.5])


class Case(NamedTuple):
    """A family at given parameters."""

    family: Family
    own: dict[str, Any]
    """The parameters beside beta."""
    columns: dict[str, np.ndarray]
    """Columns for the rows of `ETA`, with outcomes `y`."""
    law: Any
    """eta -> the distribution of SciPy of outcomes; None if SciPy has none."""


def negative_binomial(eta: Any, dispersion: float) -> Any:
    return scipy.stats.nbinom(1 / dispersion, 1 / (1 + dispersion * np.exp(eta)))


COUNTS = np.array([0.0, 1.0, 2.0, 0.0, 7.0])
NUMBERS = np.array([-1.0, 0.5, 3.0, -20.0, 2.0])
TIMES = np.array([0.3, 0.7, 1.0, 2.0, 4.0])
EVENTS = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
CUTPOINTS = np.array([-1.0, 0.2, 1.4])
TRIALS = np.array([5.0, 1.0, 8.0, 3.0, 9.0])
LOG_HAZARD = np.array([-0.5, 0.3, -1.0])


def ordinal_law(eta: Any) -> Any:
    bounds = np.append(expit(CUTPOINTS - np.asarray(eta)[..., None]), 1.0)
    return scipy.stats.rv_discrete(values=(np.arange(4), np.diff(bounds, prepend=0.0)))


CASES = {
    "gaussian": Case(
        family_of("gaussian"),
        {"sigma": 1.3},
        {"y": NUMBERS},
        lambda eta: scipy.stats.norm(eta, 1.3),
    ),
    "student_t": Case(
        family_of("student_t", degrees_of_freedom=5.0),
        {"scale": 0.8},
        {"y": NUMBERS},
        lambda eta: scipy.stats.t(5.0, eta, 0.8),
    ),
    "logistic": Case(
        family_of("bernoulli"),
        {},
        {"y": np.array([0, 1, 1, 0, 1])},
        lambda eta: scipy.stats.bernoulli(expit(eta)),
    ),
    "binomial": Case(
        family_of("binomial"),
        {},
        {"y": np.array([5, 0, 3, 2, 9], np.uint8), "trials": TRIALS.astype(np.uint8)},
        lambda eta: scipy.stats.binom(TRIALS if np.ndim(eta) else 5, expit(eta)),
    ),
    "poisson": Case(
        family_of("poisson"), {}, {"y": COUNTS}, lambda eta: scipy.stats.poisson(np.exp(eta))
    ),
    "negative_binomial": Case(
        family_of("negative_binomial"),
        {"dispersion": 0.6},
        {"y": COUNTS},
        lambda eta: negative_binomial(eta, 0.6),
    ),
    "nearly poisson": Case(
        family_of("negative_binomial"),
        {"dispersion": 0.003},
        {"y": COUNTS},
        lambda eta: negative_binomial(eta, 0.003),
    ),
    "gamma": Case(
        family_of("gamma"),
        {"shape": 2.3},
        {"y": TIMES},
        lambda eta: scipy.stats.gamma(2.3, scale=np.exp(eta) / 2.3),
    ),
    "large shape": Case(
        family_of("gamma"),
        {"shape": 40.0},
        {"y": TIMES},
        lambda eta: scipy.stats.gamma(40.0, scale=np.exp(eta) / 40.0),
    ),
    "weibull": Case(
        family_of("weibull"),
        {"shape": 1.7},
        {"y": TIMES, "event": EVENTS},
        lambda eta: scipy.stats.weibull_min(1.7, scale=np.exp(eta)),
    ),
    "piecewise_exponential": Case(
        family_of("piecewise_exponential", cuts=CUTS),
        {"log_hazard": LOG_HAZARD},
        {"y": TIMES, "event": EVENTS},
        None,
    ),
    "ordinal": Case(
        family_of("ordinal", levels=LEVELS),
        {"cutpoints": CUTPOINTS},
        {"y": np.array([0.0, 1.0, 2.0, 3.0, 3.0])},
        None,
    ),
}
