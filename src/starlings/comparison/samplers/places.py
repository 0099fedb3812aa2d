"""The network on which a sampler runs, by what its class says that it needs.

A sampler that needs a coordinator has the class attribute `needs_hub`, and runs on a star around a
hub that has no rows. One that needs all rows at one place has `needs_one_place`. All others run on
the network that was given, which may have a hub already. The posterior is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.hub import with_hub
from starlings.samplers import Sampler

AS_GIVEN, HUB, ONE_PLACE = "as given", "hub", "one place"
"""The names of the places in tables."""


@dataclass(frozen=True, eq=False)
class Place:
    """A problem on a network, and the agents that count."""

    name: str
    """One of the names above."""
    problem: Problem
    network: Network
    """In the order of the problem's sites."""
    counted: np.ndarray
    """The numbers of the agents whose draws are judged: all but a hub."""


class Places:
    """The places of one problem, each made when a sampler first needs it."""

    def __init__(self, problem: Problem, network: Network) -> None:
        self.problem, self.network = problem, network.matched_to(problem.sites)
        self._made: dict[tuple[str, str], Place] = {}

    def of(self, sampler: type[Sampler]) -> Place:
        """Where samplers of a class run."""
        name, prior = place_name(sampler), getattr(sampler, "prior_at", "sites")
        key = (name, prior if name == HUB else "")
        if key not in self._made:
            self._made[key] = self._make(name, prior)
        return self._made[key]

    def _make(self, name: str, prior: str) -> Place:
        problem, network = self.problem, self.network
        if name == HUB and problem.hub is None:
            problem, network = with_hub(problem, _free_name(problem.sites), prior)
            network = network.matched_to(problem.sites)
        elif name == ONE_PLACE:
            problem = problem.pooled()
            network = Network.path(1).matched_to(problem.sites)
        hub = None if problem.hub is None else problem.hub.name
        counted = [i for i, site in enumerate(problem.sites) if site != hub]
        return Place(name, problem, network, np.array(counted))


def place_name(sampler: type[Sampler]) -> str:
    """The name of the place that a class of samplers needs."""
    if sampler.needs_one_place:
        return ONE_PLACE
    return HUB if sampler.needs_hub else AS_GIVEN


def _free_name(sites: Sequence[str]) -> str:
    """A name for a hub that none of the sites has."""
    name = "hub"
    while name in sites:
        name += "'"
    return name
