"""The files that a run writes: what it may replace, how much space it needs, and their locks.

A run with an `output` saves its draws in a folder, its `checkpoint`, until they are in that file. A
file that exists is replaced only with `overwrite`, or if it is the incomplete file of the same run,
which was interrupted and is now resumed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from starlings.problem import Problem
from starlings.results.netcdf import interrupted_run
from starlings.runtime.checkpoint_folder import identity
from starlings.runtime.divergence import MOST_ROUNDS
from starlings.runtime.recording import Schedule
from starlings.system.files import check_replaceable, check_writable, format_bytes
from starlings.system.locks import locked

INPUT_SUFFIXES = (".csv", ".parquet", ".toml")
"""Endings of input files, which an output must not have."""


CANDIDATE_NUMBERS = 4
"""Numbers of a weighted candidate beside its coordinates: potential, log-density, two weights."""


@dataclass(frozen=True)
class DrawBytes:
    """Number of bytes that the draws of a run take."""

    recorded: int
    """Bytes in the checkpoint: unconstrained positions and residuals."""
    result: int
    """Bytes in the result: named parameters, and the statistics of every draw."""
    candidates: int = 0
    """Bytes of weighted candidates, which are in memory at once, and in the checkpoint."""

    @classmethod
    def estimate(
        cls, problem: Problem, draws: int, chains: int, precision: str, candidates: int = 0
    ) -> DrawBytes:
        """Compute the bytes of `draws` draws of each of `chains` chains.

        Args:
            problem: the model, and all sites.
            draws: draws of each chain.
            chains: the number of chains.
            precision: "float64" or "float32".
            candidates: the number of weighted candidates; 0 for methods that have none.
        """
        entries = problem.num_saved_values
        number, agents = np.dtype(precision).itemsize, problem.num_agents
        total = draws * chains
        statistics = agents * (number + 2 * 8) + 8  # residual, messages, bytes; disagreement
        return cls(
            recorded=total * agents * (problem.dim + 1) * number,
            result=total * (agents * entries * 8 + statistics),
            candidates=candidates * 8 * (problem.dim + CANDIDATE_NUMBERS),
        )


@dataclass(frozen=True)
class RunFiles:
    """The files that a run writes, as arguments of `sample`."""

    output: str | Path | None = None
    """The netCDF file for the draws; None to return them in memory."""
    overwrite: bool = False
    """Whether a plain file that exists may be replaced."""
    checkpoint: str | Path | None = None
    """The folder of the checkpoint; None for OUTPUT.run, or for no checkpoint without an output."""
    resume: bool = False
    """Whether to resume the run that is in that folder."""

    def __post_init__(self) -> None:
        if self.resume and self.folder is None:
            raise ValueError(
                "`resume=True` needs `output` or `checkpoint`, the file or folder of the "
                "interrupted run."
            )

    @property
    def folder(self) -> Path | None:
        """The folder of the checkpoint, or None."""
        if self.checkpoint is not None:
            return Path(self.checkpoint)
        return None if self.output is None else Path(f"{self.output}.run")

    def check(self, inputs: Iterable[Path] = ()) -> Path | None:
        """Return the path of the output, if any; raise if it would replace another file.

        Args:
            inputs: files that the run reads, which it must not replace.
        """
        if self.output is None or self.folder is None:
            return None
        owner = interrupted_run(Path(self.output))
        is_own = owner is not None and owner == identity(self.folder)
        if is_own and not self.resume and not self.overwrite:
            raise FileExistsError(
                f"output path {self.output} holds the draws of a run that was interrupted; add "
                "`--resume` (in Python `resume=True`) to go on with it. To start anew, remove "
                f"{self.folder} and add `--overwrite`."
            )
        target = check_replaceable(self.output, self.overwrite or is_own, [*inputs, self.folder])
        if target.suffix in INPUT_SUFFIXES:
            raise ValueError(
                f"`output` is a netCDF file, whose name must end in .nc, got {self.output}."
            )
        return target

    @contextmanager
    def locked(self, is_writing: bool) -> Iterator[None]:
        """Lock the output and the checkpoint for the duration of a context.

        Args:
            is_writing: whether this process writes them; process 0 may lock them for all.
        """
        with locked(*(self._paths_to_lock() if is_writing else [])):
            yield

    def _paths_to_lock(self) -> list[Path]:
        paths = [] if self.output is None else [check_writable(self.output)]
        if self.folder is not None:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            paths.append(self.folder)
        return paths

    def check_space(self, size: DrawBytes) -> None:
        """Raise if the draws do not fit into memory, or onto the disk they are written to."""
        _check_space(size, self.check(), self.folder)


def _check_space(size: DrawBytes, output: Path | None, folder: Path | None) -> None:
    """Raise if the draws do not fit into memory, or onto the disk they are written to."""
    what = "the draws of this run (draws x chains x agents x entries)"
    less = "Take fewer `draws` or `chains`"
    memory = _physical_memory()
    at_once = size.candidates + (size.result if output is None else 0)
    if memory is not None and at_once > memory:
        elsewhere = "" if output is not None else ", or have them written to a file with `output`"
        held = ", with the candidates that they are taken from," if size.candidates else ""
        raise ValueError(
            f"{what}{held} take {format_bytes(at_once)} of memory, and this machine has "
            f"{format_bytes(memory)}. {less}{elsewhere}."
        )
    needs: dict[Path, int] = {} if output is None else {output.parent: size.result}
    if folder is not None:
        there = sum(f.stat().st_size for f in folder.iterdir()) if folder.is_dir() else 0
        place = next(p for p in (folder, *folder.absolute().parents) if p.is_dir())
        same = next((p for p in needs if p.stat().st_dev == place.stat().st_dev), place)
        needs[same] = needs.get(same, 0) + max(size.recorded + size.candidates - there, 0)
    for place, needed in needs.items():
        free = shutil.disk_usage(place).free
        if needed > free:
            raise ValueError(
                f"{what} take {format_bytes(needed)} of disk, with what is kept until the end, and "
                f"{format_bytes(free)} are free in {place.absolute()}. {less}, or write elsewhere."
            )


def check_rounds(schedule: Schedule) -> None:
    """Raise if there are more rounds than can be counted."""
    if schedule.num_rounds > MOST_ROUNDS:
        raise ValueError(
            f"`burn_in` + `draws` x `thin` is {schedule.num_rounds:,} rounds, and a run can have "
            f"{MOST_ROUNDS:,} at most. Take fewer `draws`, or a smaller `thin`, in more `chains`."
        )


def _physical_memory() -> int | None:
    """Return the memory of this machine in bytes; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
