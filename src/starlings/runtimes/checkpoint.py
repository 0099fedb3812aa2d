"""A run that can go on where it was: states and draws on disk, agent by agent.

A folder holds, of every process p of n,

    state-ROUND-p-of-n.npz          all that the next round needs, of the agents that p holds    (1)
    draws-FIRST-LAST-p-of-n.npz     the draws FIRST to LAST (excluded) of those agents           (2)
    tuning-p-of-n.npz               what tuning found, with the tilts of those agents            (3)

and `run.json`, which says what run it is. Each file is written under another name and then renamed,
so that it is whole or not there. A checkpoint counts when all n files (1) of its round are there;
the newest such is the one that is gone on from, by any number of processes: each looks up its own
agents.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from starlings.network import Network
from starlings.runtimes.alone import others
from starlings.runtimes.recording import Record, Recording

STATE = re.compile(r"state-(\d+)-(\d+)-of-(\d+)\.npz")
DRAWS = re.compile(r"draws-(\d+)-(\d+)-(\d+)-of-(\d+)\.npz")
TUNING = re.compile(r"tuning-(\d+)-of-(\d+)\.npz")
RUN, PARTIAL = re.compile(r"run\.json"), re.compile(r".*-of-\d+\.npz\.partial")
DIGITS = 12
UNNOTICED = 1e-6
"""A relative change of a digest that is rounding."""


class CheckpointError(ValueError):
    """A checkpoint is of another run, or incomplete."""


@dataclass
class Checkpoint:
    """Where a run is kept, as one process sees it.

    Args:
        folder: made if it is not there.
        every: rounds from one checkpoint to the next.
        network: which agents this process holds.
        digests: numbers for each of those, (agent, numbers), that say what its rows and its model
            are, and must not change but for rounding.
    """

    folder: Path
    every: int
    network: Network
    digests: np.ndarray

    def __post_init__(self) -> None:
        rest = others(self.network)
        self.rank: int = rest.rank
        self.size: int = rest.size
        self.wait: Callable[[], None] = rest.barrier
        self.saved_draws = 0

    def begin(self, run: Mapping[str, Any], resume: bool) -> None:
        """Make the folder for a new run, or see that the run to be resumed is the same."""
        described, file = json.loads(json.dumps(run)), self.folder / "run.json"
        is_begun = file.is_file() and self._newest() is not None
        if is_begun and not resume:
            raise CheckpointError(
                f"{self.folder} holds a run; resume it, or remove the folder to start anew."
            )
        kept = json.loads(file.read_text("utf-8")) if is_begun else {}
        for name in {**kept, **described} if kept else ():
            before, now = kept.get(name), described.get(name)
            if before != now:
                raise CheckpointError(
                    f"{self.folder} holds another run: its `{name}` is {_short(before)}, not "
                    f"{_short(now)}."
                )
        self.wait()
        if self.rank == 0 and not is_begun:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._clear()
            self._write(file, lambda partial: partial.write_text(json.dumps(described), "utf-8"))
        self.wait()

    def save(self, flock: Any, recording: Recording) -> None:
        """Add (1) and (2) for this moment, and remove what it makes superfluous."""
        count, round = recording.count, int(flock.round)
        if count > self.saved_draws:
            record = recording.between(self.saved_draws, count)
            span = f"{self.saved_draws:0{DIGITS}d}-{count:0{DIGITS}d}"
            self._save_arrays(f"draws-{span}", position=record.position, residual=record.residual)
            self.saved_draws = count
        leaves = {f"leaf_{i}": leaf for i, leaf in enumerate(jax.tree.leaves(flock.states))}
        whole = {"trouble": flock.trouble, "digests": self.digests, **leaves}
        self._save_arrays(f"state-{round:0{DIGITS}d}", count=np.array(count), **whole)
        self.wait()  # all have saved this round: no older one is needed
        if self.rank == 0:
            for file in [file for file, match in self._files(STATE) if int(match[1]) < round]:
                file.unlink()

    def restored(self, flock: Any) -> tuple[Any, Recording]:
        """The newest moment that all processes had saved, or the beginning, which is `flock`."""
        found = self._newest()
        if found is None:
            self._forget_after(-1, 0)
            return flock, Recording()
        round, files = found
        with np.load(files[0]) as arrays:
            count = int(arrays["count"])
        self._forget_after(round, count)
        before = self._assembled(files, "digests", 0)
        same = np.isclose(before, self.digests, rtol=UNNOTICED, atol=0, equal_nan=True).all(axis=1)
        if not same.all():
            site = self.network.held_names[int(np.argmin(same))]
            raise CheckpointError(
                f"the rows of site {site!r}, or the model, are not those of {self.folder}."
            )
        leaves, shape = jax.tree.flatten(flock.states)
        with np.load(files[0]) as arrays:
            saved = sum(name.startswith("leaf_") for name in arrays.files)
        if saved != len(leaves):
            raise CheckpointError(f"{self.folder} is of another version, whose states differ.")
        states = [
            jax.numpy.asarray(self._assembled(files, f"leaf_{i}", 1), leaf.dtype)
            for i, leaf in enumerate(leaves)
        ]
        trouble = jax.numpy.asarray(self._assembled(files, "trouble", 1))
        index = jax.numpy.asarray(round, flock.round.dtype)
        self.saved_draws = count
        return type(flock)(jax.tree.unflatten(shape, states), index, trouble), self._draws(count)

    def save_tuning(self, shared: Mapping[str, Any], by_agent: Mapping[str, np.ndarray]) -> None:
        """(3), before the run begins."""
        text = np.array(json.dumps(shared))
        self._save_arrays("tuning", shared=text, **by_agent)
        self.wait()

    def tuning(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """What `save_tuning` was given, or None if it never was by all processes."""
        files = _complete([(file, 0, m[1], m[2]) for file, m in self._files(TUNING)])
        if files is None:
            return None
        with np.load(files[1][0]) as first:
            shared, names = json.loads(str(first["shared"])), set(first.files)
        names -= {"shared", "agents"}
        return shared, {name: self._assembled(files[1], name, 0) for name in names}

    def remove(self) -> None:
        """The run is over, and its draws are elsewhere."""
        self.wait()
        if self.rank == 0:
            self._clear()
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _clear(self) -> None:
        """Remove what belongs to a run, and nothing else that may be in the folder."""
        for pattern in (RUN, STATE, DRAWS, TUNING, PARTIAL):
            for file, _ in self._files(pattern):
                file.unlink()

    def _newest(self) -> tuple[int, list[Path]] | None:
        return _complete([(file, int(m[1]), m[2], m[3]) for file, m in self._files(STATE)])

    def _draws(self, count: int) -> Recording:
        """The first `count` draws of the agents held here."""
        recording = Recording()
        spans: dict[tuple[int, int], list[Path]] = {}
        for file, match in self._files(DRAWS):
            spans.setdefault((int(match[1]), int(match[2])), []).append(file)
        for (first, last), files in sorted(spans.items()):
            if first != recording.count or last > count:
                raise CheckpointError(
                    f"draws {recording.count} to {first} are not in {self.folder}."
                )
            columns = [self._assembled(files, name, 2) for name in Record._fields]
            recording.add(Record(*columns), last - first)
        if recording.count < count:
            raise CheckpointError(f"draws from {recording.count} on are not in {self.folder}.")
        return recording

    def _forget_after(self, round: int, count: int) -> None:
        """Remove what some processes had saved after the last moment common to all."""
        self.wait()
        if self.rank == 0:
            late = [file for file, match in self._files(STATE) if int(match[1]) > round]
            late += [file for file, match in self._files(DRAWS) if int(match[1]) >= count]
            for file in late:
                file.unlink()
        self.wait()

    def _assembled(self, files: list[Path], name: str, axis: int) -> np.ndarray:
        """An array of the agents held here, from files of whoever held them."""
        held, parts, numbers = self.network.held, [], []
        for file in files:
            with np.load(file) as arrays:
                wanted = np.isin(arrays["agents"], held)
                if wanted.any():
                    parts.append(np.compress(wanted, arrays[name], axis))
                    numbers.append(arrays["agents"][wanted])
        found = np.concatenate(numbers) if numbers else np.empty(0, int)
        if not np.array_equal(np.sort(found), held):
            raise CheckpointError(f"{self.folder} does not have all agents of this run.")
        return np.take(np.concatenate(parts, axis), np.argsort(found), axis)

    def _save_arrays(self, name: str, **arrays: Any) -> None:
        file = self.folder / f"{name}-{self.rank}-of-{self.size}.npz"
        arrays = {key: np.asarray(value) for key, value in arrays.items()}

        def write(partial: Path) -> None:
            with partial.open("wb") as stream:
                np.savez(stream, agents=self.network.held, **arrays)
                os.fsync(stream.fileno())

        self._write(file, write)

    def _write(self, file: Path, write: Callable[[Path], Any]) -> None:
        partial = file.with_name(file.name + ".partial")
        write(partial)
        partial.replace(file)

    def _files(self, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
        for file in sorted(self.folder.iterdir()):
            match = pattern.fullmatch(file.name)
            if match:
                yield file, match


def _complete(files: list[tuple[Path, int, str, str]]) -> tuple[int, list[Path]] | None:
    """Of files (path, round, rank, size) the newest round of which every rank's is there."""
    groups: dict[tuple[int, int], list[Path]] = {}
    for file, round, _, size in files:
        groups.setdefault((round, int(size)), []).append(file)
    whole = {round: group for (round, size), group in groups.items() if len(group) == size}
    return max(whole.items()) if whole else None


def _short(value: Any, most: int = 100) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}..."


def digest(rows: Mapping[str, np.ndarray]) -> int:
    """A number for the rows of one site."""
    value = 0
    for name in sorted(rows):
        array = np.ascontiguousarray(rows[name])
        value = zlib.crc32(f"{name} {array.shape} {array.dtype.str}".encode(), value)
        value = zlib.crc32(array.tobytes(), value)
    return value
