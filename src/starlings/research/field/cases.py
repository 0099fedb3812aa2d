"""The posteriors on which all samplers are compared, each with its network.

1. The linear regression of Tzikas et al. (2024), see `research.paper.data`, on five graphs. The
   posterior is Gaussian, and most samplers have exact laws.

2. A logistic regression of 400 rows at six sites of 20 to 140 rows, in a ring,

       z_l ~ N(0, I),     P(y_l = 1) = 1 / (1 + exp(-x'z_l)),     x = (1, -0.7, 0.4)            (1)

   whose rows are divided at random, or in the order of the first covariate, so that every site has
   seen another part of its range.

3. Two data sets of `research.accuracy`: who sees a doctor, at six sites of the RAND experiment,
   and survival with lung cancer, at eighteen institutions of the NCCTG trial.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from starlings.errors import nearest
from starlings.models import logistic_regression
from starlings.network import Network
from starlings.problem import Problem
from starlings.research.accuracy.data import lung_case, rand_case
from starlings.research.paper.data import linear_problem

SIZES = (20, 30, 50, 60, 100, 140)
"""Rows of the six sites of the logistic regression."""
TRUTH = np.array([1.0, -0.7, 0.4])
"""x of eq. (1)."""
LOGISTIC_SEED = 4
"""The seed of its rows."""
ROWS_EACH = 50
"""Rows of each agent of the linear regression."""


@dataclass(frozen=True)
class Case:
    """A posterior and a network."""

    name: str
    title: str
    make: Callable[[], tuple[Problem, Network]]
    simulated_rounds: int = 1_000
    """Rounds of chains, where no law is known."""
    posterior: str | None = None
    """A name that cases with the same rows and model have in common; None if no other has them."""


def linear(graph: Callable[[int], Network], agents: int) -> tuple[Problem, Network]:
    """The paper's linear regression on a graph."""
    return linear_problem(agents, ROWS_EACH), graph(agents)


def logistic(division: str) -> tuple[Problem, Network]:
    """Eq. (1), with rows divided at "random" or "sorted" by their first covariate."""
    random = np.random.default_rng(LOGISTIC_SEED)
    X = random.normal(size=(sum(SIZES), len(TRUTH)))
    y = (random.logistic(size=len(X)) < X @ TRUTH).astype(float)  # (1)
    order = np.argsort(X[:, 0]) if division == "sorted" else np.arange(len(X))
    sites: Any = np.repeat(np.arange(len(SIZES)), SIZES)
    problem = logistic_regression(X[order], y[order], sites, prior_std=2.0, intercept=False)
    return problem, Network.ring(len(SIZES))


def real(make: Callable[[], Any]) -> tuple[Problem, Network]:
    """A real data set, with its sites in a ring."""
    problem = make().problem
    return problem, Network.ring(problem.num_agents)


_GRAPHS: dict[str, tuple[Callable[[int], Network], int]] = {
    "ring-5": (Network.ring, 5),
    "complete-5": (Network.complete, 5),
    "ring-20": (Network.ring, 20),
    "complete-20": (Network.complete, 20),
    "star-20": (Network.star, 20),
}
_SHAPES = {"ring": "ring", "complete": "complete graph", "star": "star"}
CASES = [
    *(
        Case(
            f"linear-{name}",
            f"Linear regression, {_SHAPES[name.split('-')[0]]} of {agents} agents",
            partial(linear, graph, agents),
            posterior=f"linear-{agents}",
        )
        for name, (graph, agents) in _GRAPHS.items()
    ),
    *(
        Case(
            f"logistic-{division}",
            f"Logistic regression, unequal sites, rows divided {words}",
            partial(logistic, division),
        )
        for division, words in {"random": "at random", "sorted": "in order"}.items()
    ),
    Case("rand", "RAND health insurance, six sites", partial(real, rand_case), 200),
    Case("lung", "NCCTG lung cancer, eighteen institutions", partial(real, lung_case), 300),
]
"""All cases, in the order of the page."""


def chosen(names: Sequence[str] | None) -> list[Case]:
    """The cases with these names; all without names."""
    known = {case.name: case for case in CASES}
    for name in names or ():
        if name not in known:
            raise ValueError(
                f"there is no case {name!r}.{nearest(name, known)} The names are "
                f"{', '.join(known)}."
            )
    return [known[name] for name in dict.fromkeys(names)] if names else CASES
