"""A run that is over: its draws, wherever they are, and how they come together.

The draws of each agent are with the process that held it. They become one `Result` in memory, or
one file that is written slab by slab, so that no process ever has more than a slab of all draws.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlings.diagnostics import warn_if_untrustworthy
from starlings.network import Network
from starlings.problem import Problem
from starlings.results import Result, assembled, check_writable, opened, write_slabs
from starlings.runtimes.alone import others
from starlings.runtimes.recording import Record, Recording, Schedule
from starlings.samplers import CADMM

FEWEST_CHAINS, FEWEST_DRAWS = 4, 500
"""A shorter run of a chosen sampler is a trial, not worth a warning."""
SLAB_BYTES = 64 * 2**20
CHECKED_BYTES = 2**30
"""Of draws that are looked at in memory; beyond it those of some agents stand for all."""


@dataclass
class Run:
    """What was run, and the draws of the agents that this process held."""

    problem: Problem
    network: Network
    sampler: Any
    schedule: Schedule
    seed: int
    precision: str
    recording: Recording
    notes: dict[str, Any] = field(default_factory=dict)
    """What else belongs to the attributes of a result."""

    def result(self) -> Result | None:
        """All draws in memory, at the first process; None at the others."""
        record = self._gathered(self.recording.joined())
        return None if record is None else self._result_of(record, first=0)

    def saved(self, path: str | Path) -> Result | None:
        """All draws in one netCDF file, and no more than a slab of them in memory.

        Every process has to call it; the first one gets them back as they are read from there.
        """
        slabs = (None if s is None else self._result_of(s, first) for first, s in self._slabs())
        if not self.is_first:
            deque(slabs, maxlen=0)  # hands its share of every slab to the first
            return None
        target = check_writable(path)
        write_slabs((slab for slab in slabs if slab is not None), target)
        return opened(target)

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that has results."""
        return others(self.network).rank == 0

    def warn_of(self, result: Result) -> None:
        """A warning if the draws should not be trusted, unless the run was only a trial."""
        sizes = result.posterior.sizes
        is_trial = sizes["chain"] < FEWEST_CHAINS or sizes["draw"] < FEWEST_DRAWS
        if "tuning" not in self.notes and is_trial:
            return
        if not isinstance(self.sampler, CADMM):  # which draws nothing
            warn_if_untrustworthy(result.within(CHECKED_BYTES), stacklevel=4)

    def _slabs(self) -> Iterator[tuple[int, Record | None]]:
        one = self.recording.parts[0].position[:1]
        size = max(1, SLAB_BYTES // (one.nbytes // one.shape[2] * self.network.size))
        for first in range(0, self.recording.count, size):
            last = min(first + size, self.recording.count)
            yield first, self._gathered(self.recording.between(first, last))

    def _gathered(self, record: Record) -> Record | None:
        """The draws of all agents, at the first process."""
        columns = [others(self.network).gather(column, axis=2) for column in record]
        return Record(*columns) if self.is_first else None

    def _result_of(self, record: Record, first: int) -> Result:
        """Some draws with their names; `first` is the number of the first of them."""
        described = (self.network, self.sampler, self.schedule, self.seed, self.precision)
        result = assembled(self.problem, *described, record, first)
        for name, value in self.notes.items():
            result.note(name, value)
        return result
