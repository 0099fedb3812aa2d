"""Where a run writes: what it may replace, how much room it needs, and nobody else meanwhile.

A run with an `output` keeps its draws in a folder, its `checkpoint`, until they are in that file.
A file that exists is not replaced, unless `overwrite` says so or it is the short one that the very
run that is resumed left there when it was interrupted.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from starlings.files import check_replaceable, check_writable, in_words
from starlings.locks import locked
from starlings.problem import Problem
from starlings.results import interrupted_run
from starlings.runtimes.checkpoint import identity
from starlings.runtimes.recording import Schedule
from starlings.runtimes.trouble import MOST_ROUNDS

NOT_RESULTS = (".csv", ".parquet", ".toml")
"""Endings of inputs, which no result has."""

Run = TypeVar("Run", bound=Callable[..., Any])


def folder_of(output: str | Path | None, checkpoint: str | Path | None) -> Path | None:
    """The folder that keeps a run: the one that is named, or OUTPUT.run, or none."""
    if checkpoint is not None:
        return Path(checkpoint)
    return None if output is None else Path(f"{output}.run")


def check_output(
    output: str | Path | None,
    overwrite: bool = False,
    resume: bool = False,
    checkpoint: str | Path | None = None,
    inputs: Iterable[Path] = (),
) -> Path | None:
    """The path of a file to write, if there is to be one and no other file is lost by it."""
    folder = folder_of(output, checkpoint)
    if output is None or folder is None:
        return None
    kept_by = interrupted_run(Path(output))
    is_own = kept_by is not None and kept_by == identity(folder)
    if is_own and not resume and not overwrite:
        raise FileExistsError(
            f"output path {output} holds the draws of a run that was interrupted; add `--resume` "
            f"(in Python `resume=True`) to go on with it. To start anew, remove {folder} and add "
            "`--overwrite`."
        )
    target = check_replaceable(output, overwrite or is_own, [*inputs, folder])
    if target.suffix in NOT_RESULTS:
        raise ValueError(f"output path {output} is to hold netCDF; let its name end in .nc.")
    return target


def claiming(run: Run) -> Run:
    """Make a function of `network`, `output` and `checkpoint` hold both places while it runs.

    On a network that is placed on several processes the first one holds them for all.
    """

    @functools.wraps(run)
    def alone(*arguments: Any, **how: Any) -> Any:
        network = how.get("network", arguments[1] if len(arguments) > 1 else None)
        is_first = getattr(getattr(network, "exchange", None), "rank", 0) == 0
        places = _places(how.get("output"), how.get("checkpoint")) if is_first else []
        with locked(*places):
            return run(*arguments, **how)

    return alone  # type: ignore[return-value]


def _places(output: str | Path | None, checkpoint: str | Path | None) -> list[Path]:
    """What no other run may write meanwhile."""
    places = [] if output is None else [check_writable(output)]
    folder = folder_of(output, checkpoint)
    if folder is not None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        places.append(folder)
    return places


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
        entries = problem.num_reported
        number, agents = np.dtype(precision).itemsize, problem.num_agents
        kept = draws * chains
        statistics = agents * (number + 2 * 8) + 8  # residual, messages, bytes; disagreement
        return cls(
            recorded=kept * agents * (problem.dim + 1) * number,
            result=kept * (agents * entries * 8 + statistics),
        )


def check_room(size: Size, output: Path | None, folder: Path | None) -> None:
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
