"""A run that is over: its draws, wherever they are, and how they come together.

The draws of each agent are with the process that held it. They become one `Result` in memory, or
one file that is written slab by slab, so that no process ever has more than a slab of all draws.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from starlings.diagnostics.checking import warn_if_untrustworthy
from starlings.network import Network
from starlings.problem import Problem
from starlings.results.datasets import Groups, RunSettings, as_attribute, labelled
from starlings.results.netcdf import INTERRUPTED_RUN, file_bytes, write_slabs
from starlings.results.outputs import Size
from starlings.results.result import MAX_CHECKED_BYTES, Result, open_result
from starlings.runtime.checkpoint_folder import identity
from starlings.runtime.recording import Record, Recording, Schedule
from starlings.samplers import Sampler
from starlings.system.files import reserve, written
from starlings.tuning import Tuning

SLAB_BYTES = 4 * 2**20


@dataclass
class Run:
    """What was run, and the draws of the agents that this process held."""

    problem: Problem
    network: Network
    sampler: Sampler
    schedule: Schedule
    seed: int
    precision: str
    recording: Recording
    chains: int
    folder: Path | None = None
    """What keeps the draws until they are in a file."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What else belongs to the attributes of a result."""

    def result(self) -> Result | None:
        """All draws in memory, at the first process; None at the others."""
        record = self._gathered(self.recording.joined())
        return None if record is None else Result(xr.DataTree.from_dict(self._named(record, 0)))

    def saved(self, path: Path, check: Callable[[], object]) -> Result | None:
        """All draws in one netCDF file, and no more than a slab of them in memory.

        Every process has to call it; the first one gets them back as they are read from there.
        `check` is asked before the file takes its place.
        """
        if not self.is_first:
            deque(self._slabs(), maxlen=0)  # hands its share of every slab to the first
            return None
        size = Size.of(self.problem, self.recording.count, self.chains, self.precision)
        needs = file_bytes(size.result + min(size.result, 2 * SLAB_BYTES))  # slabs are filled up
        with written(path, needs, self._advice, self._allowed(check)) as partial:
            reserve(partial, needs)
            write_slabs((self._named(s, i) for i, s in self._slabs() if s is not None), partial)
        return open_result(path)

    def _allowed(self, check: Callable[[], object]) -> Callable[[], None]:
        """The same question, whose refusal says that no draw is lost."""

        def asked() -> None:
            try:
                check()
            except OSError as error:
                raise type(error)(f"{error} {self._advice}") from None

        return asked

    @property
    def _advice(self) -> str:
        """What to do where the file cannot be written."""
        return (
            f"All draws so far are kept in {self.folder}: see to it, and go on with the same "
            "command and `--resume` (in Python `resume=True`)."
        )

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that has results."""
        return self.network.communicator.rank == 0

    def warn_of(self, result: Result, stacklevel: int) -> None:
        """A warning if the draws should not be trusted, said of the caller at `stacklevel`."""
        if not self.sampler.draws_nothing:
            warn_if_untrustworthy(
                result.subset_of_agents(MAX_CHECKED_BYTES), stacklevel=stacklevel + 1
            )

    def _slabs(self) -> Iterator[tuple[int, Record | None]]:
        numbers = self.chains * self.network.size * self.problem.dim
        size, first = max(1, SLAB_BYTES // (numbers * np.dtype(self.precision).itemsize)), 0
        for slab in self.recording.slabs(size):
            yield first, self._gathered(slab)
            first += size

    def _gathered(self, record: Record) -> Record | None:
        """The draws of all agents, at the first process."""
        columns = [self.network.communicator.gather(column, axis=2) for column in record]
        return Record(*columns) if self.is_first else None

    def _named(self, record: Record, first: int) -> Groups:
        """Some draws with their names; `first` is the number of the first of them."""
        settings = RunSettings(self.network, self.sampler, self.schedule, self.seed, self.precision)
        groups = labelled(self.problem, settings, record, first)
        notes = {name: as_attribute(value) for name, value in self.notes.items()}
        return {name: dataset.assign_attrs(notes) for name, dataset in groups.items()}

    @property
    def interrupted(self) -> str | None:
        """How far a run has come that was ended early; None if it was not."""
        count, wanted = self.recording.count, self.schedule.draws
        return None if count == wanted else f"after {count} of {wanted} draws"

    def is_complete(self, stored: int) -> bool:
        """Whether all draws that were asked for, and all that a store has, are in the result."""
        return self.interrupted is None and stored <= self.schedule.draws

    def note(self, problem: Problem, tuning: Tuning | None) -> None:
        """Keep what the result says besides: the model, what was tuned, where it was ended."""
        self.notes["model"] = problem.provenance()
        if tuning is not None:
            self.notes["tuning"] = tuning.record()
        if self.interrupted is None:
            return
        self.notes["interrupted"] = self.interrupted
        if self.folder is not None and self.is_first:
            self.notes[INTERRUPTED_RUN] = identity(self.folder)
