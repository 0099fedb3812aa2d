"""Growth: the time of a round over the work in it, along five ranges.

With agents N, edges E, chains C and dimension d, the unit of work is

    rings, chains, hubs   C (N + 2 E)      an agent, and a message each way along an edge      (1)
    complete graphs       C N              a total serves everybody                            (2)
    dimension             C N d^2          the product with the matrix of the proximal map     (3)

A range is full from where the time per unit is least, and from there it may not rise by more than
`LARGEST_RISE`:

    rise = max over sizes from the argmin on of (time per unit) / min (time per unit)           (4)

Beside it is the time of a plain pass over an array that moves as many bytes as a round has to, eq.
(1) of `device`: what leaves the caches takes longer, whatever is done with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import starlings as st
from starlings.research.paper.data import linear_problem

from .device import bytes_of_a_round
from .problems import RHO, gaussian, with_hub
from .timing import LibraryRun, Passes, Settings, alternated, typical

TITLE = "Growth"
COLUMNS = {
    "range": ("range", "s"),
    "size": ("size", ",d"),
    "agents": ("agents", ",d"),
    "edges": ("edges", ",d"),
    "chains": ("chains", ",d"),
    "dim": ("dim", "d"),
    "seconds_per_round": ("round, s", ".2e"),
    "nanoseconds_per_unit": ("ns per unit", ".3g"),
    "pass_nanoseconds_per_unit": ("a pass, ns per unit", ".3g"),
    "rise": ("rise", ".2f"),
    "bytes_per_agent": ("bytes per agent", ",.0f"),
    "compile_seconds": ("compile s", ".1f"),
}
LARGEST_RISE = 1.5
HUB_AGENTS, QUICK_HUB_AGENTS = 20_000, 300
TEXT = f"""\
The time of a round divided by the work in it, along five ranges. The unit of work is an agent or
a message along an edge (chains x (agents + 2 edges)); on complete graphs an agent, since one
total serves everybody; along the dimension an entry of the agents' d x d matrices. `rise` is the
largest time per unit over the least, from the size of the least on: smaller sizes do not fill
the machine. Target: a rise of at most {LARGEST_RISE:g}. Bytes per agent are those of the agents'
arrays and of the states of all chains. `a pass` is the time, by the same unit, in which adding one
to all entries of an array moves as many bytes as a round on a ring has to, in the same run: what
leaving the caches costs. Hubs: {HUB_AGENTS:,} agents in a power-law graph, of whom one has so
many neighbours. Noise and output are the library's default."""


@dataclass(frozen=True)
class Place:
    """One size of a range: what is run there, and its unit of work."""

    problem: st.Problem
    network: st.Network
    chains: int
    units: int

    @classmethod
    def of_messages(cls, problem: st.Problem, network: st.Network, chains: int) -> Place:
        """With the unit of eq. (1)."""
        units = chains * (network.size + 2 * network.num_edges)
        return cls(problem, network, chains, units)


def ring(agents: int) -> Place:
    """One chain of a ring in two dimensions."""
    return Place.of_messages(gaussian(agents, 2), st.Network.ring(agents), 1)


def replicas(chains: int) -> Place:
    """Chains of a ring of 20 in two dimensions."""
    return Place.of_messages(gaussian(20, 2), st.Network.ring(20), chains)


def hub(degree: int, agents: int = HUB_AGENTS) -> Place:
    """One chain of a power-law graph in two dimensions, with a hub."""
    return Place.of_messages(gaussian(agents, 2), with_hub(agents, degree), 1)


def small_hub(degree: int) -> Place:
    """The same in a small graph, for a trial."""
    return hub(degree, QUICK_HUB_AGENTS)


def complete(agents: int) -> Place:
    """Ten chains of a complete graph in two dimensions, eq. (2)."""
    return Place(gaussian(agents, 2), st.Network.complete(agents), 10, 10 * agents)


def dimension(dim: int) -> Place:
    """Ten chains of a linear regression, 200 rows at each agent of a ring of 10, eq. (3)."""
    return Place(linear_problem(10, 200, dim), st.Network.ring(10), 10, 10 * 10 * dim**2)


Range = tuple[Callable[[int], Place], Sequence[int]]
RANGES: dict[str, Range] = {
    "rings": (ring, (100, 1000, 10_000, 100_000, 1_000_000)),
    "dimension": (dimension, (2, 5, 10, 20, 50, 100, 200, 500)),
    "chains": (replicas, (1, 10, 100, 1000, 10_000)),
    "complete graphs": (complete, (10, 50, 100, 200, 500, 1000, 2000)),
    "hubs": (hub, (300, 1000, 3000, 10_000)),
}
QUICK_RANGES: dict[str, Range] = {
    "rings": (ring, (100, 300)),
    "dimension": (dimension, (2, 8)),
    "chains": (replicas, (1, 10)),
    "complete graphs": (complete, (10, 20)),
    "hubs": (small_hub, (50, 200)),
}


def measure(settings: Settings) -> list[dict[str, Any]]:
    """All sizes of all ranges."""
    ranges = QUICK_RANGES if settings.quick else RANGES
    return [row for name in ranges for row in along(name, *ranges[name], settings)]


def along(
    name: str, build: Callable[[int], Place], sizes: Sequence[int], settings: Settings
) -> list[dict[str, Any]]:
    """The rows of one range; the last has the rise."""
    rows = [row(name, size, build(size), settings) for size in sizes]
    rows[-1]["rise"] = rise([each["nanoseconds_per_unit"] for each in rows])
    rows[-1]["targets"] = {"rise": [None, LARGEST_RISE]}
    return rows


def row(name: str, size: int, place: Place, settings: Settings) -> dict[str, Any]:
    """One size."""
    network = place.network
    run = LibraryRun(place.problem, network, st.DADMMS(RHO), place.chains)
    moved = bytes_of_a_round(network.size, place.chains, place.problem.dim, itemsize=8)
    passes = Passes(moved / 2)  # which it reads and writes
    laps = alternated({"ours": run, "pass": passes}, settings)
    seconds, passed = (typical(laps[each]).wall for each in ("ours", "pass"))
    shape = {"agents": network.size, "edges": network.num_edges, "dim": place.problem.dim}
    cells = {"range": name, "size": size, "chains": place.chains, "units": place.units}
    figures = {
        "seconds_per_round": seconds,
        "nanoseconds_per_unit": 1e9 * seconds / place.units,
        "pass_nanoseconds_per_unit": 1e9 * passed / place.units,
        "bytes_per_agent": run.bytes_per_agent,
        "compile_seconds": run.compile_seconds,
    }
    return cells | shape | figures


def rise(costs: Sequence[float]) -> float:
    """Eq. (4)."""
    least = int(np.argmin(costs))
    return max(costs[least:]) / costs[least]
