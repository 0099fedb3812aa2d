"""A run that is over: its draws, gathered from all processes into one result.

Each process has the draws of its local agents. They become one `Result` in memory, or one file that
is written slab by slab, so that no process ever has more than a slab of all draws in memory. Where
a runtime does not collect draws, each process has a result of its own, with its local agents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import xarray as xr

from starlings.diagnostics.checking import warn_if_untrustworthy
from starlings.network import Network
from starlings.network.communicator import has_result
from starlings.problem import Problem
from starlings.results.datasets import Drawer, RunSettings, Traffic, labelled
from starlings.results.groups import MAX_CHECKED_BYTES, Groups, as_attribute
from starlings.results.netcdf import INTERRUPTED_RUN, file_bytes, write_slabs
from starlings.results.outputs import DrawBytes
from starlings.results.result import Result, open_result
from starlings.runtime.checkpoint_folder import identity
from starlings.runtime.recording import Record, Recording, Schedule
from starlings.system.files import atomic_write, reserve_space

SLAB_BYTES = 4 * 2**20
"""Bytes of the draws of all agents that are gathered and written at once."""


@dataclass
class Run:
    """What was run, and the draws of the local agents of this process."""

    problem: Problem
    network: Network
    sampler: Drawer
    schedule: Schedule
    seed: int
    precision: str
    recording: Recording
    chains: int
    traffic: Traffic
    """What the agents have sent when a draw is made."""
    folder: Path | None = None
    """The folder of the checkpoint; None if there is none."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Further attributes of the result, such as what tuning found."""
    statistics: dict[str, np.ndarray] = field(default_factory=dict)
    """Further statistics of every draw by name, (draw, chain)."""

    def result(self) -> Result | None:
        """Gather all draws into memory; return None at a process that gets no result."""
        record = self._gathered(self.recording.joined())
        return None if record is None else Result(xr.DataTree.from_dict(self._named(record, 0)))

    def saved(self, path: Path, check: Callable[[], object]) -> Result | None:
        """Write all draws to one netCDF file, with no more than a slab of them in memory.

        Every process has to call this; one that has a result gets one that reads from the file.

        Args:
            path: the file to write.
            check: called before the file is complete; it may raise to prevent that.
        """
        if not self.has_result:
            deque(self._slabs(), maxlen=0)  # sends its part of every slab to the first process
            return None
        size = DrawBytes.estimate(self.problem, self.recording.count, self.chains, self.precision)
        needs = file_bytes(
            size.result + min(size.result, 2 * SLAB_BYTES)
        )  # HDF5 stores whole slabs
        with atomic_write(path, needs, self._advice, self._allowed(check)) as partial:
            reserve_space(partial, needs)
            write_slabs((self._named(s, i) for i, s in self._slabs() if s is not None), partial)
        return open_result(path)

    def _allowed(self, check: Callable[[], object]) -> Callable[[], None]:
        """Return `check` with an error message that says how to go on with the saved draws."""

        def asked() -> None:
            try:
                check()
            except OSError as error:
                raise type(error)(f"{error} {self._advice}") from None

        return asked

    @property
    def _advice(self) -> str:
        """What to do if the file cannot be written."""
        return (
            f"All draws so far are saved in {self.folder}: remove the cause, and go on with the "
            "same command and `--resume` (in Python `resume=True`)."
        )

    @property
    def has_result(self) -> bool:
        """Whether this process gets a result: process 0, or every one with its own agents."""
        return has_result(self.network.communicator)

    @property
    def _agents(self) -> np.ndarray:
        """The numbers of the agents in the result of this process."""
        network = self.network
        return np.arange(network.size) if network.communicator.collects else network.local

    def warn_if_untrustworthy(self, result: Result, stacklevel: int) -> None:
        """Warn if the draws should not be trusted; `stacklevel` is that of `warnings.warn`."""
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
        """Gather the draws for the result of this process; return None if it gets none."""
        gathered = jax.tree.map(partial(self.network.communicator.gather, axis=2), record)
        return gathered if self.has_result else None

    def _named(self, record: Record, first: int) -> Groups:
        """Return labelled draws with all attributes; `first` is the number of the first draw."""
        settings = RunSettings(
            self.network,
            self._agents,
            self.sampler,
            self.schedule,
            self.seed,
            self.precision,
            self.traffic,
            self.statistics,
        )
        groups = labelled(self.problem, settings, record, first)
        attributes = {name: as_attribute(value) for name, value in self.attributes.items()}
        return {name: dataset.assign_attrs(attributes) for name, dataset in groups.items()}

    @property
    def interrupted(self) -> str | None:
        """How far an interrupted run came; None if it was not interrupted."""
        count, wanted = self.recording.count, self.schedule.draws
        return None if count == wanted else f"after {count} of {wanted} draws"

    def is_complete(self, stored: int) -> bool:
        """Return whether the result has all draws, those asked for and the `stored` ones."""
        return self.interrupted is None and stored <= self.schedule.draws

    def add_attributes(self, **attributes: Any) -> None:
        """Record the model, where an interrupted run stopped, and further attributes."""
        is_masked = self.network.secrecy is not None  # then nobody learns the counts of one site
        model = self.problem.provenance(with_rows=not is_masked)
        self.attributes |= {"model": model, **self.problem.about(), **attributes}
        if self.interrupted is None:
            return
        self.attributes["interrupted"] = self.interrupted
        if self.folder is not None and self.has_result:
            self.attributes[INTERRUPTED_RUN] = identity(self.folder)
