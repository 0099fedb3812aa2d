"""The rows of the RAND health insurance experiment, counted at six sites, and the model.

Each row is a person in a year, at one of six sites. Whether they saw a doctor that year is a
logistic regression on eight covariates, with rows taken as independent:

    visit ~ Bernoulli(1 / (1 + exp(-x'beta))),      beta ~ N(0, 10 I)                   (1)

The covariates take few values, so that every site replaces its thousands of rows by one line for
each combination of values: the number of persons and the number of them with a visit. These counts
are sufficient: the posterior is that of (1), and a round is ten times cheaper. One beta for all
sites is a simplification: their answers differ by more than chance, as the figure shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from starlings.models.priors.normal import NormalPrior
from starlings.problem import Problem
from starlings.problem.parameters import Parameter
from starlings.research.packaged_data import read_packaged

PRIOR_STD = 10**0.5
"""The prior standard deviation of a coefficient, in eq. (1)."""
EXTRA = "demo"
"""The extra of the package that installs what the demo needs."""


class Covariate(NamedTuple):
    """A column of the design: its value less a centre, and the scale of its coefficient.

    Centres and scales are rough means and standard deviations, as round numbers fixed here: nobody
    in the network has all the rows to compute better ones from.
    """

    label: str
    value: Callable[[pd.DataFrame], Any]
    centre: float
    scale: float


COVARIATES = (
    Covariate("intercept", lambda t: np.ones(len(t)), 0.0, 1.0),
    # log(1 + coinsurance in %): 0 for free care, 1 for 95 %, the most that a plan asked
    Covariate("95 % coinsurance", lambda t: t["logc"] / np.log(96), 0.5, 0.5),
    Covariate("woman", lambda t: t["female"], 0.5, 0.5),
    Covariate("under 6 years", lambda t: t["xage"] < 6, 0.1, 0.4),
    Covariate("45 or older", lambda t: t["xage"] >= 45, 0.2, 0.4),
    # a fraction between 0 and 1 in 5 % of the rows
    Covariate("physical limitation", lambda t: t["physlm"] > 0.5, 0.1, 0.4),
    Covariate("fair or poor health", lambda t: t["hlthf"] + t["hlthp"] > 0.5, 0.1, 0.4),
    Covariate("many chronic diseases", lambda t: t["disea"] >= 15, 0.2, 0.4),
    Covariate("income, +$10,000", lambda t: (t["income"] / 1e4).round().clip(0, 2), 1.0, 0.6),
)
"""The columns of the design, in the order of beta."""


@dataclass(frozen=True)
class Units:
    """beta = z / scale: the sampler moves in z, where all directions are about equally curved."""

    scales: tuple[float, ...]

    def __call__(self, z):
        """Map z to beta."""
        return z / jnp.asarray(self.scales, z.dtype)

    def _inverse(self, theta):
        return theta * jnp.asarray(self.scales)

    def log_abs_det_jacobian(self, z, theta):
        """Minus the logarithm of each scale."""
        return -jnp.log(jnp.asarray(self.scales, z.dtype))


def load_rows() -> pd.DataFrame:
    """The table of the experiment, which is in the public domain, from the package statsmodels."""
    return read_packaged("statsmodels", "datasets/randhie/src/randhie.csv", extra=EXTRA)


def build_problem(rows: pd.DataFrame) -> Problem:
    """Eq. (1) with the rows of each site counted at that site."""
    by_site = rows.groupby("site")
    return counted_problem({f"site {site:.0f}": count_rows(part) for site, part in by_site})


def counted_problem(shards: dict[str, dict[str, np.ndarray]]) -> Problem:
    """Eq. (1) for shards of counts."""
    labels = tuple(covariate.label for covariate in COVARIATES)
    units = Units(tuple(covariate.scale for covariate in COVARIATES))
    beta = Parameter((len(labels),), labels=labels, transform=units)
    return Problem(binomial, NormalPrior(PRIOR_STD), {"beta": beta}, shards)


def count_rows(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Count persons, and persons with a visit, for every combination of covariates."""
    columns = [np.asarray(c.value(rows), float) - c.centre for c in COVARIATES]
    return merge(np.column_stack(columns), np.ones(len(rows)), rows["mdvis"].gt(0).to_numpy())


def merge(x: np.ndarray, persons: np.ndarray, visitors: np.ndarray) -> dict[str, np.ndarray]:
    """Add up the lines with the same combination of covariates."""
    combinations, line = np.unique(x, axis=0, return_inverse=True)
    persons, visitors = (np.bincount(line.ravel(), weights=c) for c in (persons, visitors))
    return {"x": combinations, "persons": persons, "visitors": visitors}


def binomial(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """The log-likelihood of all persons of one combination under eq. (1)."""
    log_odds = row["x"] @ p["beta"]
    return row["visitors"] * log_odds - row["persons"] * jax.nn.softplus(log_odds)
