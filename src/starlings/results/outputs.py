"""Where a run writes: what it may replace, how much room it needs, and nobody else meanwhile.

A run with an `output` keeps its draws in a folder, its `checkpoint`, until they are in that file.
A file that exists is not replaced, unless `overwrite` says so or it is the short one that the very
run that is resumed left there when it was interrupted.
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
from starlings.system.files import check_replaceable, check_writable, in_words
from starlings.system.locks import locked

NOT_RESULTS = (".csv", ".parquet", ".toml")
"""Endings of inputs, which no result has."""


@dataclass(frozen=True)
class Size:
    """What the draws of a run take, in bytes."""

    recorded: int
    """As they are kept while the run goes on: unconstrained positions and residuals."""
    result: int
    """As a result has them: named parameters, and the statistics of every draw."""

    @classmethod
    def of(cls, problem: Problem, draws: int, chains: int, precision: str) -> Size:
        """Of so many draws of every chain."""
        entries = problem.num_saved_values
        number, agents = np.dtype(precision).itemsize, problem.num_agents
        kept = draws * chains
        statistics = agents * (number + 2 * 8) + 8  # residual, messages, bytes; disagreement
        return cls(
            recorded=kept * agents * (problem.dim + 1) * number,
            result=kept * (agents * entries * 8 + statistics),
        )


@dataclass(frozen=True)
class Places:
    """Where a run writes, as `sample` is told."""

    output: str | Path | None = None
    """The netCDF file for the draws; None to return them in memory."""
    overwrite: bool = False
    """Whether a plain file that is there may be replaced."""
    checkpoint: str | Path | None = None
    """The folder that keeps the run; None for OUTPUT.run."""
    resume: bool = False
    """Whether to go on with the run that is in that folder."""

    def __post_init__(self) -> None:
        if self.resume and self.folder is None:
            raise ValueError(
                "`resume` needs the `checkpoint` or the `output` of the run to go on with."
            )

    @property
    def folder(self) -> Path | None:
        """The folder that keeps the run, or None."""
        if self.checkpoint is not None:
            return Path(self.checkpoint)
        return None if self.output is None else Path(f"{self.output}.run")

    def check(self, inputs: Iterable[Path] = ()) -> Path | None:
        """The path of the file to write, if there is to be one and no other file is lost by it.

        `inputs` are files that the run reads, which it must not replace.
        """
        if self.output is None or self.folder is None:
            return None
        kept_by = interrupted_run(Path(self.output))
        is_own = kept_by is not None and kept_by == identity(self.folder)
        if is_own and not self.resume and not self.overwrite:
            raise FileExistsError(
                f"output path {self.output} holds the draws of a run that was interrupted; add "
                "`--resume` (in Python `resume=True`) to go on with it. To start anew, remove "
                f"{self.folder} and add `--overwrite`."
            )
        target = check_replaceable(self.output, self.overwrite or is_own, [*inputs, self.folder])
        if target.suffix in NOT_RESULTS:
            raise ValueError(
                f"output path {self.output} is to hold netCDF; let its name end in .nc."
            )
        return target

    @contextmanager
    def claimed(self, is_first: bool) -> Iterator[None]:
        """A context in which no other run may write to these places.

        Of several processes the first one claims them for all.
        """
        with locked(*(self._claims() if is_first else [])):
            yield

    def _claims(self) -> list[Path]:
        places = [] if self.output is None else [check_writable(self.output)]
        if self.folder is not None:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            places.append(self.folder)
        return places

    def check_room(self, size: Size) -> None:
        """Refuse draws that fit neither into memory nor onto the disk where they are to be."""
        _check_room(size, self.check(), self.folder)


def _check_room(size: Size, output: Path | None, folder: Path | None) -> None:
    """Refuse a run whose draws fit neither into memory nor onto the disk where they are to be."""
    what = "the draws of this run (draws x chains x agents x entries)"
    less = "Take fewer `draws` or `chains`"
    memory = _physical_memory()
    if output is None and memory is not None and size.result > memory:
        raise ValueError(
            f"{what} take {in_words(size.result)} of memory, and this machine has "
            f"{in_words(memory)}. {less}, or have them written to a file with `output`."
        )
    needs: dict[Path, int] = {} if output is None else {output.parent: size.result}
    if folder is not None:
        there = sum(f.stat().st_size for f in folder.iterdir()) if folder.is_dir() else 0
        place = next(p for p in (folder, *folder.absolute().parents) if p.is_dir())
        same = next((p for p in needs if p.stat().st_dev == place.stat().st_dev), place)
        needs[same] = needs.get(same, 0) + max(size.recorded - there, 0)
    for place, needed in needs.items():
        free = shutil.disk_usage(place).free
        if needed > free:
            raise ValueError(
                f"{what} take {in_words(needed)} of disk, with what is kept until the end, and "
                f"{in_words(free)} are free in {place.absolute()}. {less}, or write elsewhere."
            )


def check_rounds(schedule: Schedule) -> None:
    """Refuse more rounds than can be counted."""
    if schedule.num_rounds > MOST_ROUNDS:
        raise ValueError(
            f"`burn_in` + `draws` x `thin` is {schedule.num_rounds:,} rounds, and a run can have "
            f"{MOST_ROUNDS:,} at most. Take fewer `draws`, or a smaller `thin`, in more `chains`."
        )


def _physical_memory() -> int | None:
    """Of this machine, in bytes, where it can be known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
