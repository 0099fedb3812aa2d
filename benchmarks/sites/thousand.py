"""A thousand sites, by a model of discrete events: rounds per second, and the load of the relay.

Site i sends its message of round k to all neighbours as soon as it has made the round, and makes
round k + 1 when those of all its neighbours are there. With t_i(k) the end of round k at site i,
c the seconds that a round takes at a site, and l_ji(k) the latency of a message, drawn anew for
each,

    t_i(k + 1) = c + max( t_i(k), max_j t_j(k) + l_ji(k) )                                  (1)

With C chains in flight a site has C such rounds to make, one at a time; it makes the one that
became ready first:

    s = max(ready, when the site is free),   t = s + c                                      (2)

In every round each site sends d_i messages over the relay, which passes on

    rounds per second x sum_i d_i messages per second, in and out                           (3)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx
import numpy as np

from starlings.runtime.peers.communicator import STAMP
from starlings.runtime.peers.frames import HEAD

COMPUTE = 0.001
"""c: seconds that a round takes at a site."""
LATENCY, SPREAD = 0.015, 0.5
"""Mean latency of a message in seconds, and the standard deviation of its logarithm."""
ROUNDS = 60
"""Rounds of each chain that are made; those in the middle third of the time are counted."""
OVERHEAD = 22 + 4 + HEAD.size + STAMP.size + 8
"""Bytes around the numbers of a message: the record of TLS with its tag, the length, the head of a
frame, the stamp of a call, and the head of a frame of the websocket; without TCP."""


def latencies(random: np.random.Generator) -> Callable[[], float]:
    """Lognormal latencies with the mean `LATENCY`, one at a time."""
    centre = np.log(LATENCY) - SPREAD**2 / 2
    return lambda: float(random.lognormal(centre, SPREAD))


def round_rate(
    graph: nx.Graph,
    chains: int = 1,
    compute: float = COMPUTE,
    latency: Callable[[], float] | None = None,
    rounds: int = ROUNDS,
) -> float:
    """Chain-rounds per second of a site, by a simulation of eqs. (1) and (2).

    Args:
        graph: who talks to whom; nodes are 0..N-1.
        chains: chains in flight.
        compute: seconds that a round of one chain takes at a site.
        latency: makes the latency of a message; by default one of `latencies`.
        rounds: rounds of each chain.
    """
    latency = latency or latencies(np.random.default_rng(0))
    neighbours = [list(graph.neighbors(i)) for i in range(len(graph))]
    free = [0.0] * len(graph)
    missing: dict[tuple[int, int, int], int] = {}
    ready: dict[tuple[int, int, int], float] = {}
    events = [(0.0, i, c, 0) for i in range(len(graph)) for c in range(chains)]
    heapq.heapify(events)
    ends = []
    while events:
        when, site, chain, number = heapq.heappop(events)  # the round can be made
        end = max(when, free[site]) + compute  # (2)
        free[site] = end
        ends.append(end)
        if number + 1 == rounds:
            continue
        for other in (site, *neighbours[site]):
            key = (other, chain, number + 1)
            arrival = end if other == site else end + latency()
            ready[key] = max(ready.get(key, 0.0), arrival)  # (1)
            missing[key] = missing.get(key, len(neighbours[other]) + 1) - 1
            if not missing[key]:
                heapq.heappush(events, (ready.pop(key), other, chain, number + 1))
                del missing[key]
    third = max(ends) / 3
    counted = np.count_nonzero((np.array(ends) > third) & (np.array(ends) <= 2 * third))
    return float(counted / third / len(graph))


@dataclass(frozen=True)
class Load:
    """What a network asks of its relay."""

    name: str
    sites: int
    links: int
    rate: float
    """Chain-rounds per second of a site."""
    floats: int

    @property
    def messages(self) -> float:
        """Messages per second through the relay, eq. (3)."""
        return self.rate * 2 * self.links

    @property
    def megabytes(self) -> float:
        """Megabytes per second into the relay, and as many out of it."""
        return self.messages * (8 * self.floats + OVERHEAD) / 1e6


def graphs(sites: int) -> dict[str, nx.Graph]:
    """Networks of so many sites."""
    regular = nx.random_regular_graph(6, sites, seed=0)
    found = {"ring": nx.cycle_graph(sites), "random, 6 neighbours": regular}
    if sites <= 100:
        found["complete"] = nx.complete_graph(sites)
    return found


def table(sizes: tuple[int, ...] = (10, 100, 1000), floats: int = 10) -> list[str]:
    """Rates and loads of networks of several sizes, one chain at a time, in lines."""
    loads = [
        Load(name, sites, graph.number_of_edges(), round_rate(graph), floats)
        for sites in sizes
        for name, graph in graphs(sites).items()
    ]
    return [
        f"{load.sites:,} sites, {load.name}: {load.links:,} links, {load.rate:.1f} rounds/s, "
        f"{load.messages:,.0f} messages/s and {load.megabytes:,.2f} MB/s through the relay"
        for load in loads
    ]
