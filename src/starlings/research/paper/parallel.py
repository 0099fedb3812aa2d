"""The parts of an experiment, two at a time: half of their time is compiling, on one core."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from starlings.errors import DisconnectedNetworkWarning
from starlings.network import Network
from starlings.research.paper.data import TOPOLOGIES, topology
from starlings.research.paper.experiment import Report

THREADS = 2
"""Parts that are computed at the same time."""

Result = TypeVar("Result")


class Piece(NamedTuple):
    """One method on one network, to be computed."""

    graph: str
    method: str
    network: Network
    sampler: Any
    seed: int


def pieces(
    num_agents: int, methods: Callable[[str, Network], Mapping[str, Any]], seed: int
) -> list[Piece]:
    """All methods on all topologies, with a seed for each."""
    networks = {name: topology(name, num_agents) for name in TOPOLOGIES}
    found = [(n, m, net, s) for n, net in networks.items() for m, s in methods(n, net).items()]
    return [Piece(*piece, seed * len(found) + i) for i, piece in enumerate(found)]


def in_threads(
    work: Callable[[Piece], Result], todo: Sequence[Piece], report: Report
) -> Iterator[Result]:
    """The work on each piece, in order, with a report as each arrives.

    Threads share the filters of warnings, so the one to be expected is silenced for all of them.
    """
    report(0, len(todo))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedNetworkWarning)
        with ThreadPoolExecutor(THREADS) as pool:
            for done, result in enumerate(pool.map(work, todo), start=1):
                report(done, len(todo))
                yield result
