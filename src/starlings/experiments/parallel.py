"""The pieces of an experiment side by side: half of their time goes to compilers, one core each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlings.experiments.base import Report
from starlings.network import DisconnectedNetworkWarning

THREADS = 2

Piece = TypeVar("Piece")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Piece], Result], pieces: Sequence[Piece], report: Report
) -> Iterator[Result]:
    """The work on each piece, in order, with a report as each arrives.

    Threads share the filters of warnings, so the one to be expected is silenced for all of them.
    """
    report(0, len(pieces))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedNetworkWarning)
        with ThreadPoolExecutor(THREADS) as pool:
            for done, result in enumerate(pool.map(work, pieces), start=1):
                report(done, len(pieces))
                yield result
