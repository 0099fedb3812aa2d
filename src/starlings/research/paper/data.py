"""The paper's data and networks, with the numbers its authors drew.

The data come from NumPy's legacy generator seeded with 10, in the order of the released code. Both
regressions begin with the true coefficients x. Linear regression in d dimensions, then each agent's
rows z and outcomes y:

    x ~ N(0, 10 I),     z_l ~ N(0, I),     y_l = x'z_l + 4 e_l,     e_l ~ N(0, 1)            (1)

Logistic regression in three dimensions, then for each agent its 50 rows z and after them its 50
uniform numbers u:

    x ~ N(0, 10 I),   z_l ~ N(0, 20 I),   y_l = 1 if u_l <= 1 / (1 + exp(-x'z_l)) else 0     (2)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from starlings.errors import DisconnectedNetworkWarning
from starlings.models import linear_regression, logistic_regression
from starlings.network import Network
from starlings.problem import Problem

DATA_SEED = 10
"""The seed of the generator in the released code."""
NOISE_STD = 4.0
"""The standard deviation of an outcome in eq. (1)."""
PRIOR_STD = 10**0.5
"""The prior standard deviation of a coefficient, in both regressions."""
LOGISTIC_DIM, LOGISTIC_ROWS, FEATURE_STD = 3, 50, 20**0.5
"""The number of coefficients, the number of rows of each agent, and the standard deviation of a
covariate, in eq. (2)."""

TOPOLOGIES: dict[str, Callable[[int], Network]] = {
    "complete": Network.complete,
    "ring": Network.ring,
    "no edges": Network.no_edges,
}
"""The three networks of the paper, by the names that they have in the tables."""


def linear_problem(num_agents: int, rows_each: int, dim: int = 2) -> Problem:
    """Eq. (1) in `dim` dimensions, with `rows_each` rows at each of the agents 0, 1, ...

    >>> _, covariance = linear_problem(5, 50).exact_posterior()
    >>> float(np.sqrt(np.trace(covariance)).round(4))
    0.3805
    """
    random = np.random.RandomState(DATA_SEED)
    truth = random.multivariate_normal(np.zeros(dim), PRIOR_STD**2 * np.eye(dim))
    rows, outcomes = [], []
    for _ in range(num_agents):
        z = random.multivariate_normal(np.zeros(dim), np.eye(dim), size=(rows_each,))
        rows.append(z)
        outcomes.append(z @ truth + random.normal(0, NOISE_STD, size=rows_each))
    sites = [agent for agent in range(num_agents) for _ in range(rows_each)]
    return linear_regression(
        np.concatenate(rows),
        np.concatenate(outcomes),
        sites,
        noise_std=NOISE_STD,
        prior_std=PRIOR_STD,
        intercept=False,
    )


def logistic_problem(num_agents: int) -> Problem:
    """Eq. (2), with 50 rows at each of the agents 0, 1, ...

    >>> logistic_problem(5)
    Problem(sites=5, rows=250, dim=3)
    """
    origin, unit = np.zeros(LOGISTIC_DIM), np.eye(LOGISTIC_DIM)
    random = np.random.RandomState(DATA_SEED)
    truth = random.multivariate_normal(origin, PRIOR_STD**2 * unit)
    rows, labels = [], []
    for _ in range(num_agents):
        z = random.multivariate_normal(origin, FEATURE_STD**2 * unit, size=LOGISTIC_ROWS)
        rows.append(z)
        labels.append(random.uniform(size=LOGISTIC_ROWS) <= 1 / (1 + np.exp(-z @ truth)))
    sites = [agent for agent in range(num_agents) for _ in range(LOGISTIC_ROWS)]
    return logistic_regression(
        np.concatenate(rows),
        np.concatenate(labels),
        sites,
        prior_std=PRIOR_STD,
        intercept=False,
    )


def topology(name: str, num_agents: int) -> Network:
    """One of `TOPOLOGIES`, without the warning that agents without edges never agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedNetworkWarning)
        return TOPOLOGIES[name](num_agents)
