"""A coordinator: one more agent, without rows, to which all sites are linked.

Some samplers need one place that hears all sites and answers them. That place is an agent like the
others: the hub, at the centre of a star. It has no rows. With S sites, N = S + 1 agents, and

    f_i(z) = - sum_{r in D_i} log p(r | z) - s_i log p(z)                                   (1)

the shares s_i of the prior are 1/S at the sites and 0 at the hub, whose potential is then zero; or,
for samplers that keep the prior in one place, 0 at the sites and 1 at the hub. The potentials sum
to the same posterior either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np

from starlings.errors import check_choice
from starlings.network import Network

if TYPE_CHECKING:
    from starlings.problem.problem import Problem

PRIORS = ("sites", "hub")
"""Who has the prior: all sites in equal shares, or the hub alone."""


@dataclass(frozen=True)
class Hub:
    """The agent without rows."""

    name: str
    has_prior: bool
    """Whether it has the whole prior, and the sites have none."""

    def prior_shares(self, sites: Sequence[str], num_agents: int) -> np.ndarray:
        """s_i of eq. (1) of some agents, given by their names, (agent,)."""
        is_hub = np.array([site == self.name for site in sites])
        if self.has_prior:
            return np.where(is_hub, 1.0, 0.0)
        return np.where(is_hub, 0.0, 1.0 / (num_agents - 1))


def with_hub(problem: Problem, name: str = "hub", prior: str = "sites") -> tuple[Problem, Network]:
    """A problem with a coordinator, and the network on which samplers that need one can run.

    The coordinator, or hub, is a further agent without rows, to which every site is linked. The
    posterior is the same.

    Args:
        problem: the model and the rows of every site.
        name: what the hub is called among the agents.
        prior: "sites", which have equal shares of the prior, or "hub", which then has all of it.

    >>> import starlings
    >>> problem = starlings.models.linear_regression([[1.0], [2.0]], [1.0, 2.0], ["a", "b"])
    >>> problem, network = with_hub(problem)
    >>> problem.sites, network.num_edges
    (['hub', 'a', 'b'], 2)
    """
    check_choice(PRIORS, prior=prior)
    graph: nx.Graph = nx.Graph()
    found = problem.with_hub(Hub(str(name), prior == "hub"))
    graph.add_nodes_from(found.sites)
    graph.add_edges_from((found.sites[0], site) for site in problem.sites)
    return found, Network(graph)
