"""What is timed: the paper's two regressions, Gaussian targets, and graphs with a hub."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np

import starlings as st
from starlings.research.paper.data import (
    NOISE_STD,
    PRIOR_STD,
    linear_problem,
    logistic_problem,
)

RHO = 5.0
"""The paper's penalty."""
ROWS_EACH = 50
"""Rows of each agent."""
FAMILIES = ("linear", "logistic")
"""The two regressions."""


@dataclass(frozen=True)
class Regression:
    """The paper's linear (d = 2) or logistic (d = 3) regression, 50 rows at each agent."""

    family: str
    problem: st.Problem
    x: np.ndarray
    """Covariates, (agent, row, dim)."""
    y: np.ndarray
    """Outcomes, (agent, row)."""

    @classmethod
    def of(cls, family: str, agents: int) -> Regression:
        """One of `FAMILIES`, with the rows divided among so many agents."""
        linear = family == "linear"
        problem = linear_problem(agents, ROWS_EACH) if linear else logistic_problem(agents)
        x, y = (np.stack([shard[c] for shard in problem.shards.values()]) for c in "xy")
        return cls(family, problem, x, y)

    @property
    def prior_curvature(self) -> float:
        """The curvature of one agent's share of the prior: its share of 1 / variance."""
        return 1 / (PRIOR_STD**2 * len(self.x))

    @property
    def noise_variance(self) -> float:
        """The variance of an outcome, given its row, in the linear regression."""
        return NOISE_STD**2


def gaussian(agents: int, dim: int, seed: int = 0) -> st.Problem:
    """Quadratic potentials with curvatures from 1 up, different at every agent."""
    random = np.random.default_rng(seed)
    directions, linear = random.normal(size=(2, agents, dim))
    hessians = np.eye(dim) + directions[:, :, None] * directions[:, None, :] / dim
    return st.models.gaussian(hessians, linear)


def with_hub(agents: int, degree: int, seed: int = 0) -> st.Network:
    """A power-law graph (preferential attachment), and agent 0 with `degree` neighbours in it."""
    graph = nx.barabasi_albert_graph(agents - 1, 2, seed=seed)
    graph = nx.relabel_nodes(graph, lambda node: node + 1)
    neighbours = np.random.default_rng(seed).choice(agents - 1, size=degree, replace=False) + 1
    ordered = nx.Graph()
    ordered.add_nodes_from(range(agents))
    ordered.add_edges_from(graph.edges)
    ordered.add_edges_from((0, int(neighbour)) for neighbour in neighbours)
    return st.Network(ordered)
