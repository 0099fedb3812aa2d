"""Three posteriors of real rows with their natural sites, from tables inside PyPI wheels.

1. RAND health insurance experiment, six sites (statsmodels): the model of `research.demo`.

2. NCCTG lung cancer trial, eighteen institutions (lifelines): survival in years t, observed
   (d = 1) or censored (d = 0), is Weibull with proportional hazards,

       hazard(t) = k t^(k-1) exp(x'beta),   beta ~ N(0, 2.5^2 I),   k ~ |N(0, 2^2)|

       log-likelihood of a row = d (log k + (k-1) log t + x'beta) - t^k exp(x'beta)             (1)

   Most institutions have too few patients to fit this alone.

3. Smoking and lung cancer in eight Chinese cities (statsmodels), a case-control study: a cell of
   city j counts the persons with smoking s and cancer y (0 or 1), with one log odds ratio b for
   all and an intercept a_j that only the persons of city j say anything about,

       logit P(y = 1) = a_j + b s,    a_j ~ N(m, sigma^2)                                       (2)
       b ~ N(0, 2.5^2),    m ~ N(0, 2.5^2),    sigma ~ |N(0, 1)|

   Centred coordinates (b, m, log sigma, a) have no mode, for the density grows without bound as
   sigma -> 0. Non-centred ones, with (a_j - m) / sigma, have one, but cities with thousands of
   persons make them a narrow curved ridge. Half-way between, the samplers move in

       (b, m, log sigma, e)   with   a_j = w m + sigma sqrt(w) e_j,   w = s^2 / (sigma^2 + s^2) (3)

   which is non-centred where sigma is far below s and centred where it is far above. s = 0.1 is the
   rough standard error of a log odds from some hundred cases. The posterior is that of (2) in all
   of these coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from starlings.models.priors.normal import NormalPrior, half_normal
from starlings.problem import Problem
from starlings.problem.parameters import Parameter
from starlings.research.demo.data import build_problem, load_rows
from starlings.research.packaged_data import read_packaged

EXTRA = "accuracy"
"""The extra of the package that installs what the comparison needs."""
DAYS_PER_YEAR = 365.25
"""Days of a year: survival is recorded in days, and modelled in years."""
LUNG_COLUMNS = ["inst", "time", "status", "age", "sex", "ph.ecog"]
LUNG_LABELS = ("intercept", "age, +10 years", "woman", "ECOG score, +1")
PRIOR_SD = 2.5
"""The prior standard deviation of a coefficient, in (1) and (2)."""
STANDARD_ERROR = 0.1
"""The number s of eq. (3), on the scale of log odds."""
CELLS = {
    "smoking_yes_cancer_yes": (1, 1),
    "smoking_yes_cancer_no": (1, 0),
    "smoking_no_cancer_yes": (0, 1),
    "smoking_no_cancer_no": (0, 0),
}
"""The columns of the table, with smoking and cancer (s, y) of eq. (2)."""


@dataclass(frozen=True)
class Case:
    """One data set: its posterior, and a description of its rows."""

    name: str
    sites: str
    """What a site is, in the plural, such as "cities"."""
    rows: int
    """Persons, or persons in a year; a problem may hold them as counts."""
    model: str
    problem: Problem
    note: str = ""


def all_cases() -> list[Case]:
    """The three data sets of the table."""
    return [rand_case(), lung_case(), smoking_case()]


def rand_case() -> Case:
    """Who sees a doctor in a year, at six sites."""
    rows = load_rows()
    return Case(
        "RAND health insurance",
        "sites",
        len(rows),
        "logistic regression",
        build_problem(rows),
    )


def lung_case() -> Case:
    """Survival with advanced lung cancer, eq. (1)."""
    table = read_packaged("lifelines", "datasets/lung.csv", extra=EXTRA)[LUNG_COLUMNS]
    complete = table.dropna()
    lost = len(table) - len(complete)
    return Case(
        "NCCTG lung cancer",
        "institutions",
        len(complete),
        "Weibull survival, censored",
        lung_problem(complete),
        f"{lost} of {len(table)} rows lack the institution or the ECOG score and are left out",
    )


def lung_problem(rows: pd.DataFrame) -> Problem:
    """Eq. (1) for complete rows, with the institutions in order of their numbers."""
    parameters = {
        "beta": Parameter((len(LUNG_LABELS),), labels=LUNG_LABELS),
        "shape": Parameter(constraint="positive"),
    }
    prior = NormalPrior(PRIOR_SD, "shape", 2.0)
    by_site = rows.groupby("inst")
    shards = {f"institution {number:.0f}": patients(part) for number, part in by_site}
    return Problem(weibull, prior, parameters, shards)


def patients(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """The columns that eq. (1) needs."""
    woman = (rows["sex"] == 2).astype(float)
    covariates = (np.ones(len(rows)), (rows["age"] - 60) / 10, woman, rows["ph.ecog"])
    return {
        "x": np.column_stack([np.asarray(column, float) for column in covariates]),
        "years": rows["time"].to_numpy(float) / DAYS_PER_YEAR,
        "died": rows["status"].to_numpy(float),
    }


def weibull(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """The log-likelihood of one patient, eq. (1)."""
    log_years, log_risk = jnp.log(row["years"]), row["x"] @ p["beta"]
    log_hazard = jnp.log(p["shape"]) + (p["shape"] - 1) * log_years + log_risk
    return row["died"] * log_hazard - jnp.exp(p["shape"] * log_years + log_risk)


def smoking_case() -> Case:
    """Smoking and lung cancer, eq. (2)."""
    table = read_packaged("statsmodels", "datasets/china_smoking/china_smoking.csv", extra=EXTRA)
    table = table.replace({"Location": {"Nanjng": "Nanjing"}})
    return Case(
        "Smoking in China",
        "cities",
        int(table[list(CELLS)].to_numpy().sum()),
        "hierarchical logistic regression",
        smoking_problem(table),
        "the cities' intercepts are half-centred, which was chosen for these data; the same "
        "posterior in non-centred coordinates takes several times the rounds",
    )


def smoking_problem(table: pd.DataFrame) -> Problem:
    """Eq. (2), with four counted cells for every city."""
    smoking, cancer = np.array(list(CELLS.values()), float).T
    cities = list(table["Location"])
    counts = table[list(CELLS)].to_numpy(float)
    shards = {
        name: {"city": np.full(4, j), "smoking": smoking, "cancer": cancer, "persons": counts[j]}
        for j, name in enumerate(cities)
    }
    labels = ("log odds ratio", "mean of cities", "sd of cities", *cities)
    theta = Parameter((len(labels),), labels=labels, transform=HalfCentred(STANDARD_ERROR))
    return Problem(counted_cell, smoking_prior, {"theta": theta}, shards)


@dataclass(frozen=True)
class HalfCentred:
    """(b, m, log sigma, e) -> (b, m, sigma, a), eq. (3)."""

    standard_error: float

    def __call__(self, z):
        """Map z to theta."""
        sigma = jnp.exp(z[2])
        weight = self._weight(sigma)
        intercepts = weight * z[1] + sigma * jnp.sqrt(weight) * z[3:]  # (3)
        return jnp.concatenate([z[:2], sigma[None], intercepts])

    def _inverse(self, theta):
        sigma, weight = theta[2], self._weight(theta[2])
        effects = (theta[3:] - weight * theta[1]) / (sigma * jnp.sqrt(weight))
        return jnp.concatenate([theta[:2], jnp.log(sigma)[None], effects])

    def log_abs_det_jacobian(self, z, theta):
        """log sigma for its own logarithm, and log(sigma sqrt(w)) for every effect."""
        return z[2] + (z.size - 3) * (z[2] + 0.5 * jnp.log(self._weight(theta[2])))

    def _weight(self, sigma):
        return 1 / (1 + (sigma / self.standard_error) ** 2)


def counted_cell(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """The log-likelihood of all persons of one cell, eq. (2)."""
    log_odds = p["theta"][3 + row["city"]] + p["theta"][0] * row["smoking"]
    return row["persons"] * (row["cancer"] * log_odds - jax.nn.softplus(log_odds))


def smoking_prior(p: dict[str, Any]) -> jax.Array:
    """The log-density of the priors of eq. (2)."""
    ratio, mean, spread = p["theta"][:3]
    normal = jax.scipy.stats.norm.logpdf
    common = normal(ratio, 0.0, PRIOR_SD) + normal(mean, 0.0, PRIOR_SD)
    return common + half_normal(spread, 1.0) + jnp.sum(normal(p["theta"][3:], mean, spread))
