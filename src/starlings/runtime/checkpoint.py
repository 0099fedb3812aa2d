"""A run that can go on where it was: states and draws on disk, agent by agent.

A folder holds, of every process p of n,

    state-ROUND-p-of-n.npz          all that the next round needs, of the agents that p holds    (1)
    draws-FIRST-LAST-p-of-n.npz     the draws FIRST to LAST (excluded) of those agents           (2)
    tuning-p-of-n.npz               what tuning found, with the tilts of those agents            (3)

and `run.json`, which says what run it is. Each file is whole or not there, and ends with its
checksum (see `files`). A checkpoint counts when all n files (1) of its round are there; the newest
such is the one that is gone on from, by any number of processes: each looks up its own agents. The
one before it is kept too, and taken where a file of the newest is damaged.

Draws are not kept in memory besides: the folder is the store of a `Recording`.
"""

from __future__ import annotations

import itertools
import json
import re
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from starlings.errors import CheckpointError, CheckpointWarning, UnreadableFileError
from starlings.network import Network
from starlings.runtime.recording import Record, Recording
from starlings.system.files import PARTIAL, check_sealed, is_sealed, written

STATE = re.compile(r"state-(\d+)-(\d+)-of-(\d+)\.npz")
DRAWS = re.compile(r"draws-(\d+)-(\d+)-(\d+)-of-(\d+)\.npz")
TUNING = re.compile(r"tuning-(\d+)-of-(\d+)\.npz")
RUN = re.compile(r"run\.json")
UNFINISHED = re.compile(rf"(run\.json|.*-of-\d+\.npz)(\.[0-9a-f]+)?{re.escape(PARTIAL)}")
DIGITS = 12
FORMAT = 2
"""Of the files; folders of another one cannot be gone on from."""
STATES_KEPT = 2
UNNOTICED = 1e-6
"""A relative change of a digest that is rounding."""


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
        rest = self.network.communicator
        self.rank: int = rest.rank
        self.size: int = rest.size
        self.wait: Callable[[], None] = rest.barrier
        self.broadcast: Callable[[Any], Any] = rest.broadcast

    def begin(self, run: Mapping[str, Any], resume: bool) -> None:
        """Make the folder for a new run, or see that the run to be resumed is the same."""
        described, is_begun = json.loads(json.dumps(run)), self._is_begun()
        if is_begun and not resume:
            raise CheckpointError(
                f"{self.folder} holds a run; resume it (`--resume`, in Python `resume=True`), or "
                "remove the folder to start anew."
            )
        kept = _described(self.folder) if is_begun else {}
        for name in {**kept, **described} if kept else ():
            before, now = kept.get(name), described.get(name)
            if before != now and name not in ("identity", "format"):
                raise CheckpointError(
                    f"{self.folder} holds another run: its `{name}` is {_short(before)}, not "
                    f"{_short(now)}."
                )
        self.wait()
        if self.rank == 0 and not is_begun:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._clear()
            text = json.dumps({**described, "identity": uuid.uuid4().hex, "format": FORMAT})
            with written(self.folder / "run.json", len(text)) as partial:
                partial.write_text(text, "utf-8")
        self.wait()

    def _is_begun(self) -> bool:
        """Whether there is a run to go on with."""
        if not self.folder.is_dir() or not self._moments():
            return False
        if not (self.folder / "run.json").is_file():
            raise CheckpointError(
                f"{self.folder} has states but no run.json that says of which run; remove the "
                "folder to start anew."
            )
        return True

    def save(self, flock: Any, recording: Recording) -> None:
        """Add (1) for this moment and (2) up to it, and remove what it makes superfluous."""
        recording.flush()
        count, round = recording.stored, int(flock.round)
        leaves = {f"leaf_{i}": leaf for i, leaf in enumerate(jax.tree.leaves(flock.states))}
        whole = {"trouble": flock.trouble, "digests": self.digests, **leaves}
        self._save_arrays(f"state-{round:0{DIGITS}d}", count=np.array(count), **whole)
        self.wait()  # all have saved this round: only the one before it is kept besides
        if self.rank == 0:
            rounds = sorted({int(match[1]) for _, match in self._files(STATE)})
            for file, match in list(self._files(STATE)):
                if int(match[1]) not in rounds[-STATES_KEPT:]:
                    file.unlink()

    def keep(self, first: int, record: Record) -> None:
        """(2)."""
        span = f"{first:0{DIGITS}d}-{first + len(record.position):0{DIGITS}d}"
        self._save_arrays(f"draws-{span}", position=record.position, residual=record.residual)

    @property
    def num_draws(self) -> int:
        """How many draws the folder has."""
        return max((int(match[2]) for _, match in self._files(DRAWS)), default=0)

    def pieces(self, count: int) -> Iterator[Record]:
        """The first `count` draws of the agents held here, file by file."""
        for files in self._spans(count):
            arrays = self._with_agents(files)
            yield Record(*(self._assembled(arrays, name, 2) for name in Record._fields))

    def restored(self, flock: Any) -> tuple[Any, Recording]:
        """The newest sound moment that all processes had saved, or the beginning, `flock`."""
        found = self.broadcast(self._newest_sound() if self.rank == 0 else None)
        if found is None:
            self._forget_after(-1, 0)
            return flock, Recording(store=self)
        round, count, files = found
        self._forget_after(round, count)
        arrays = self._with_agents(files)
        before = self._assembled(arrays, "digests", 0)
        same = np.isclose(before, self.digests, rtol=UNNOTICED, atol=0, equal_nan=True).all(axis=1)
        if not same.all():
            site = self.network.local_names[int(np.argmin(same))]
            raise CheckpointError(
                f"the rows of site {site!r}, or the model, are not those of {self.folder}."
            )
        leaves, shape = jax.tree.flatten(flock.states)
        if sum(name.startswith("leaf_") for name in arrays[0]) != len(leaves):
            raise CheckpointError(_of_another_version(self.folder))
        states = [
            jax.numpy.asarray(self._assembled(arrays, f"leaf_{i}", 1), leaf.dtype)
            for i, leaf in enumerate(leaves)
        ]
        trouble = jax.numpy.asarray(self._assembled(arrays, "trouble", 1))
        index = jax.numpy.asarray(round, flock.round.dtype)
        flock = type(flock)(jax.tree.unflatten(shape, states), index, trouble)
        return flock, Recording(store=self, stored=count)

    def save_tuning(self, shared: Mapping[str, Any], by_agent: Mapping[str, np.ndarray]) -> None:
        """(3), before the run begins."""
        text = np.array(json.dumps(shared))
        self._save_arrays("tuning", shared=text, **by_agent)
        self.wait()

    def tuning(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """What `save_tuning` was given, or None if it never was by all processes."""
        moments = _complete([(file, 0, m[1], m[2]) for file, m in self._files(TUNING)])
        if not moments:
            return None
        arrays = self._with_agents(moments[0][1])
        shared, names = json.loads(str(arrays[0]["shared"])), set(arrays[0])
        names -= {"shared", "agents"}
        return shared, {name: self._assembled(arrays, name, 0) for name in names}

    def remove(self) -> None:
        """The run is over, and its draws are elsewhere."""
        self.wait()
        if self.rank == 0:
            self._clear()
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _clear(self) -> None:
        """Remove what belongs to a run, and nothing else that may be in the folder."""
        for pattern in (RUN, STATE, DRAWS, TUNING, UNFINISHED):
            for file, _ in self._files(pattern):
                file.unlink()

    def _moments(self) -> list[tuple[int, list[Path]]]:
        """The rounds that all processes had saved, with their files (1), the newest first."""
        return _complete([(file, int(m[1]), m[2], m[3]) for file, m in self._files(STATE)])

    def _newest_sound(self) -> tuple[int, int, list[Path]] | None:
        """The newest moment all of whose files are whole: its round, its draws, its files (1)."""
        faults: list[UnreadableFileError] = []
        for round, files in self._moments():
            try:
                for file in files:
                    check_sealed(file)
                count = int(_arrays(files[0], ["count"])["count"])
                for file in itertools.chain.from_iterable(self._spans(count)):
                    check_sealed(file)
            except UnreadableFileError as fault:
                faults.append(fault)
                continue
            if faults:
                text = f"{faults[0]} The run goes on from round {round:,}, which was saved before."
                warnings.warn(text, CheckpointWarning, stacklevel=2)
            return round, count, files
        if faults:
            raise CheckpointError(
                f"{faults[0]} No older state can be taken instead: put that file back from a copy, "
                f"or remove {self.folder} to start anew."
            )
        return None

    def _spans(self, count: int) -> Iterator[list[Path]]:
        """The files (2) that have the first `count` draws, span by span."""
        spans: dict[tuple[int, int], list[Path]] = {}
        for file, match in self._files(DRAWS):
            spans.setdefault((int(match[1]), int(match[2])), []).append(file)
        reached = 0
        for (first, last), files in sorted(spans.items()):
            if first >= count:
                break
            if first != reached or last > count:
                raise CheckpointError(f"draws {reached} to {first} are not in {self.folder}.")
            yield files
            reached = last
        if reached < count:
            raise CheckpointError(f"draws from {reached} on are not in {self.folder}.")

    def _forget_after(self, round: int, count: int) -> None:
        """Remove what some processes had saved after the last moment common to all."""
        self.wait()
        if self.rank == 0:
            late = [file for file, match in self._files(STATE) if int(match[1]) > round]
            late += [file for file, match in self._files(DRAWS) if int(match[1]) >= count]
            for file in late:
                file.unlink()
        self.wait()

    def _with_agents(self, files: list[Path]) -> list[dict[str, np.ndarray]]:
        """What is in those of the files that have agents held here: often this process's own."""
        held, own = self.network.local, f"-{self.rank}-of-{self.size}.npz"
        try:
            for file in (file for file in files if file.name.endswith(own)):
                if np.array_equal((arrays := _arrays(file))["agents"], held):
                    return [arrays]
            some = [f for f in files if np.isin(_arrays(f, ["agents"])["agents"], held).any()]
            return [_arrays(file) for file in some or files[:1]]
        except UnreadableFileError as fault:
            raise CheckpointError(
                f"{fault} Put it back from a copy, or remove {self.folder} to start anew."
            ) from None

    def _assembled(self, files: list[dict[str, np.ndarray]], name: str, axis: int) -> np.ndarray:
        """An array of the agents held here, from the files of whoever held them."""
        held, parts, numbers = self.network.local, [], []
        for arrays in files:
            if name not in arrays:
                raise CheckpointError(_of_another_version(self.folder))
            wanted = np.isin(arrays["agents"], held)
            parts.append(np.compress(wanted, arrays[name], axis))
            numbers.append(arrays["agents"][wanted])
        found = np.concatenate(numbers)
        if not np.array_equal(np.sort(found), held):
            raise CheckpointError(f"{self.folder} does not have all agents of this run.")
        return np.take(np.concatenate(parts, axis), np.argsort(found), axis)

    def _save_arrays(self, name: str, **arrays: Any) -> None:
        file = self.folder / f"{name}-{self.rank}-of-{self.size}.npz"
        arrays = {key: np.asarray(value) for key, value in arrays.items()}
        needs = sum(array.nbytes for array in arrays.values())
        with written(file, needs, self._advice()) as partial, partial.open("wb") as stream:
            np.savez(stream, agents=self.network.local, **arrays)

    def _advice(self) -> str:
        """What to do where there is no room for another file."""
        moments = self._moments()
        if not moments:
            return "Make room, or choose another place for the checkpoint."
        return (
            f"The run is kept in {self.folder} up to round {moments[0][0]:,}: make room, and go on "
            "with the same command and `--resume` (in Python `resume=True`)."
        )

    def _files(self, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
        for file in sorted(self.folder.iterdir()):
            match = pattern.fullmatch(file.name)
            if match:
                yield file, match


def identity(folder: Path) -> str | None:
    """Which run is in a folder; None if there is none."""
    if not (folder / "run.json").is_file():
        return None
    return str(_described(folder)["identity"])


def _described(folder: Path) -> dict[str, Any]:
    """What run.json says of the run."""
    file = folder / "run.json"
    try:
        text = file.read_text("utf-8", "replace").splitlines()[0] if is_sealed(file) else "{}"
    except UnreadableFileError as fault:
        raise CheckpointError(f"{fault} Remove {folder} to start anew.") from None
    described = json.loads(text)
    if described.get("format") != FORMAT:
        raise CheckpointError(_of_another_version(folder))
    return described


def _of_another_version(folder: Path) -> str:
    return f"{folder} is of another version of starlings, or damaged; remove it to start anew."


def _arrays(file: Path, names: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """All arrays of a file, whose checksum has to fit, or some of them without asking for it."""
    if not names:
        check_sealed(file)
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names or arrays.files}
    except Exception as error:  # whatever a damaged zip file leads to
        raise UnreadableFileError(f"{file} is damaged or of another version ({error}).") from None


def _complete(files: list[tuple[Path, int, str, str]]) -> list[tuple[int, list[Path]]]:
    """Of files (path, round, rank, size) the rounds of which every rank's are there, newest first.

    Of a round that was saved by several numbers of processes one set is taken.
    """
    groups: dict[tuple[int, int], list[Path]] = {}
    for file, round, _, size in files:
        groups.setdefault((round, int(size)), []).append(file)
    whole = {round: group for (round, size), group in groups.items() if len(group) == size}
    return sorted(whole.items(), reverse=True)


def _short(value: Any, most: int = 100) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}..."
