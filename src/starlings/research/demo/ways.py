"""Two ways in which the network draws from one posterior, and what each of them costs.

The first is what `sample` chooses by itself; the second is D-ADMMS, with settings that the agents
find and many short chains. All chains of a round travel in one message, and everything is counted:
tuning, pilot runs, burn-in, draws and their examination.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from starlings.diagnostics.statistics import least_effective_draws
from starlings.methods import METHODS_ON_SUMS
from starlings.network import Network
from starlings.problem import Problem
from starlings.results.result import Result
from starlings.sampling import sample

METHODS = ("auto", "dadmms")
"""The ways, as values of the argument `method` of `sample`; the first one is the default."""
TITLES = {"weights": "importance weights", "hmc": "lock-step HMC", "half-noise": "D-ADMMS"}
"""What a method is called in tables and in the figure."""
ROUND_SECONDS = 0.03
"""Time of a network round between sites that reach each other over the internet."""


class Way(NamedTuple):
    """What one way found, and what it took."""

    title: str
    draws: np.ndarray
    """Draws of beta, (site, chain, draw, parameter)."""
    rounds: int
    """Network rounds."""
    messages: int
    """Messages of the busiest site, or a number that they are not above."""
    size: int
    """Bytes that all sites together sent."""

    @property
    def seconds(self) -> float:
        """Time of all network rounds, without computing."""
        return ROUND_SECONDS * self.rounds

    @property
    def effective_draws(self) -> float:
        """Effective draws of the worst site and parameter."""
        return min(least_effective_draws(draws) for draws in self.draws)


def draw_by(
    method: str, problem: Problem, network: Network, draws: int, seed: int, progress: bool | None
) -> tuple[Way, Result]:
    """Draw by one of `METHODS`; the result has 4 x `draws` effective draws, about."""
    result = sample(problem, network, method=method, draws=draws, seed=seed, progress=progress)
    attrs = result.attrs
    way = Way(
        TITLES.get(attrs["method"], attrs["method"]),
        np.moveaxis(result.posterior["beta"].to_numpy(), 2, 0),
        int(attrs["network_rounds"]),
        messages_of_a_site(result, network),
        int(attrs["bytes_sent"]),
    )
    return way, result


def messages_of_a_site(result: Result, network: Network) -> int:
    """Messages of the busiest site, all chains in one.

    Methods on sums record them. Of other methods it is known that no site sends more than one
    message to each neighbour in a round.
    """
    if result.attrs["method"] in METHODS_ON_SUMS:
        return int(result.sample_stats["messages_sent"].isel(chain=0, draw=-1).max())
    return int(result.attrs["network_rounds"] * network.degrees.max())
