"""The paper's data and networks, with the numbers its authors drew.

Linear regression in d dimensions, from NumPy's legacy generator seeded with 10 as in the released
code: first the true coefficients, then each agent's rows.

    x ~ N(0, 10 I),     z_l ~ N(0, I),     y_l = x'z_l + 4 e_l,     e_l ~ N(0, 1)          (1)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from starlings.errors import DisconnectedNetworkWarning
from starlings.models import linear_regression
from starlings.network import Network
from starlings.problem import Problem

DATA_SEED = 10
NOISE_STD = 4.0
PRIOR_VAR = 10.0

TOPOLOGIES: dict[str, Callable[[int], Network]] = {
    "complete": Network.complete,
    "ring": Network.ring,
    "no edges": Network.no_edges,
}
"""The paper's three, by the name they have in the tables."""


def linear_problem(num_agents: int, rows_each: int, dim: int = 2) -> Problem:
    """Eq. (1), divided among agents 0, 1, ... of `rows_each` rows.

    >>> _, covariance = linear_problem(5, 50).exact_posterior()
    >>> float(np.sqrt(np.trace(covariance)).round(4))
    0.3805
    """
    random = np.random.RandomState(DATA_SEED)
    truth = random.multivariate_normal(np.zeros(dim), PRIOR_VAR * np.eye(dim))
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
        prior_std=PRIOR_VAR**0.5,
        intercept=False,
    )


def topology(name: str, num_agents: int) -> Network:
    """One of `TOPOLOGIES`; the warning that agents without edges never agree is expected here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedNetworkWarning)
        return TOPOLOGIES[name](num_agents)
