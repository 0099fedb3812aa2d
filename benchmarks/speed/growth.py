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
"""The target: the largest ratio of eq. (4)."""
HUB_AGENTS, QUICK_HUB_AGENTS = 20_000, 300
"""The agents of a graph with a hub, in a full and in a quick run."""
TEXT = f"""\
The time of a round divided by the work in it, in nanoseconds per unit of work, as one size grows.
There are five ranges of sizes. The unit of work is an agent or a message along an edge, so that a
round has chains x (agents + 2 edges) units; on complete graphs it is an agent, since one total
serves all of them; as the dimension d grows it is an entry of the agents' d x d matrices. `rise` is
the largest time per unit divided by the least, counted from the size of the least on, because
smaller sizes do not fill the machine. Target: a rise of at most {LARGEST_RISE:g}. `bytes per agent`
counts the agents' arrays and the states of all chains. `a pass` is the time, per unit of work, of
adding one to all entries of an array that makes the memory move as many bytes as a round on a ring
has to: it shows what leaving the caches costs. `hubs` are power-law graphs of {HUB_AGENTS:,}
agents, of whom one has as many neighbours as the column `size` says. Noise and output are the
library's default."""


@dataclass(frozen=True)
class Setup:
    """What is run at one size of a range, and how many units of work a round of it has."""

    problem: st.Problem
    network: st.Network
    chains: int
    units: int

    @classmethod
    def of_messages(cls, problem: st.Problem, network: st.Network, chains: int) -> Setup:
        """A setup with the unit of work of eq. (1)."""
        units = chains * (network.size + 2 * network.num_edges)
        return cls(problem, network, chains, units)


def ring(agents: int) -> Setup:
    """One chain on a ring, in two dimensions."""
    return Setup.of_messages(gaussian(agents, 2), st.Network.ring(agents), 1)


def replicas(chains: int) -> Setup:
    """Several chains on a ring of 20 agents, in two dimensions."""
    return Setup.of_messages(gaussian(20, 2), st.Network.ring(20), chains)


def hub(degree: int, agents: int = HUB_AGENTS) -> Setup:
    """One chain on a power-law graph with a hub of a given degree, in two dimensions."""
    return Setup.of_messages(gaussian(agents, 2), with_hub(agents, degree), 1)


def small_hub(degree: int) -> Setup:
    """A hub in a small graph, for a quick run."""
    return hub(degree, QUICK_HUB_AGENTS)


def complete(agents: int) -> Setup:
    """Ten chains on a complete graph, in two dimensions, with the unit of eq. (2)."""
    return Setup(gaussian(agents, 2), st.Network.complete(agents), 10, 10 * agents)


def dimension(dim: int) -> Setup:
    """Ten chains of a linear regression on a ring of 10 agents with 200 rows, unit of eq. (3)."""
    return Setup(linear_problem(10, 200, dim), st.Network.ring(10), 10, 10 * 10 * dim**2)


Range = tuple[Callable[[int], Setup], Sequence[int]]
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
    """Measure all sizes of all ranges."""
    ranges = QUICK_RANGES if settings.quick else RANGES
    return [row for name in ranges for row in along(name, *ranges[name], settings)]


def along(
    name: str, build: Callable[[int], Setup], sizes: Sequence[int], settings: Settings
) -> list[dict[str, Any]]:
    """The rows of one range; the last of them has the rise, eq. (4)."""
    rows = [row(name, size, build(size), settings) for size in sizes]
    rows[-1]["rise"] = rise([each["nanoseconds_per_unit"] for each in rows])
    rows[-1]["targets"] = {"rise": [None, LARGEST_RISE]}
    return rows


def row(name: str, size: int, setup: Setup, settings: Settings) -> dict[str, Any]:
    """Measure one size."""
    network = setup.network
    run = LibraryRun(setup.problem, network, st.DADMMS(RHO), setup.chains)
    moved = bytes_of_a_round(network.size, setup.chains, setup.problem.dim, itemsize=8)
    passes = Passes(moved / 2)  # which it reads and writes
    laps = alternated({"ours": run, "pass": passes}, settings)
    seconds, passed = (typical(laps[each]).wall for each in ("ours", "pass"))
    shape = {"agents": network.size, "edges": network.num_edges, "dim": setup.problem.dim}
    cells = {"range": name, "size": size, "chains": setup.chains, "units": setup.units}
    figures = {
        "seconds_per_round": seconds,
        "nanoseconds_per_unit": 1e9 * seconds / setup.units,
        "pass_nanoseconds_per_unit": 1e9 * passed / setup.units,
        "bytes_per_agent": run.bytes_per_agent,
        "compile_seconds": run.compile_seconds,
    }
    return cells | shape | figures


def rise(costs: Sequence[float]) -> float:
    """How much the time per unit of work grows from its least on, eq. (4)."""
    least = int(np.argmin(costs))
    return max(costs[least:]) / costs[least]
