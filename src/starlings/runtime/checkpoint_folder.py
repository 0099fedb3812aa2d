"""The files of a checkpoint: their names, which of them belong together, and which are valid.

The folder of a checkpoint holds, for every process p of n processes,

    state-ROUND-p-of-n.npz          what the next round needs, for the agents of process p       (1)
    draws-FIRST-LAST-p-of-n.npz     the draws FIRST to LAST (excluded) of those agents           (2)
    tuning-p-of-n.npz               what tuning found, for those agents                          (3)

and `run.json`, which describes the run. Each file is complete or absent, and ends with its checksum
(see `starlings.system.files`). The state of a round is complete when all n files (1) exist.
"""

from __future__ import annotations

import itertools
import json
import re
import uuid
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from starlings.errors import CheckpointError, CheckpointWarning, UnreadableFileError
from starlings.system.files import PARTIAL, atomic_write, check_checksum, has_checksum

STATE = re.compile(r"state-(\d+)-(\d+)-of-(\d+)\.npz")
"""Names of files (1); groups: round, process, number of processes."""
DRAWS = re.compile(r"draws-(\d+)-(\d+)-(\d+)-of-(\d+)\.npz")
"""Names of files (2); groups: first draw, last draw, process, number of processes."""
TUNING = re.compile(r"tuning-(\d+)-of-(\d+)\.npz")
"""Names of files (3); groups: process, number of processes."""
DESCRIPTION = re.compile(r"run\.json")
"""The name of the file that describes the run."""
UNFINISHED = re.compile(rf"(run\.json|.*-of-\d+\.npz)(\.[0-9a-f]+)?{re.escape(PARTIAL)}")
"""Names of files that were being written when a process was killed."""
NAME_DIGITS = 12
"""Digits of the numbers of rounds and draws in the names of files, so that names sort by number."""
FORMAT = 3
"""Version of the files; a folder with another version cannot be resumed."""
NUM_STATES = 2
"""Number of newest states that stay in the folder: the older one is for a damaged newest one."""


class SavedState(NamedTuple):
    """The state of all agents at one round, as files."""

    round: int
    num_draws: int
    """Number of draws that had been made."""
    files: list[Path]
    """The files (1), one for each process."""


@dataclass(frozen=True)
class CheckpointFolder:
    """The folder in which a run is saved."""

    path: Path

    def description(self) -> dict[str, Any]:
        """Return what `run.json` says about the run."""
        file = self.path / "run.json"
        try:
            text = (
                file.read_text("utf-8", "replace").splitlines()[0] if has_checksum(file) else "{}"
            )
        except UnreadableFileError as error:
            raise CheckpointError(f"{error} Remove {self.path} to start anew.") from None
        found = json.loads(text)
        if found.get("format") != FORMAT:
            raise CheckpointError(self.other_version())
        return found

    def create(self, description: Mapping[str, Any]) -> None:
        """Begin a new run: remove the files of an earlier one, and write `run.json`."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.clear()
        text = json.dumps({**description, "identity": uuid.uuid4().hex, "format": FORMAT})
        with atomic_write(self.path / "run.json", len(text), is_secret=True) as partial:
            partial.write_text(text, "utf-8")

    def has_run(self) -> bool:
        """Return whether there is a run that can be resumed."""
        if not self.path.is_dir() or not (self.states() or self.tuning_files()):
            return False
        if not (self.path / "run.json").is_file():
            raise CheckpointError(
                f"{self.path} has states but no run.json that says of which run; remove the "
                "folder to start anew."
            )
        return True

    @property
    def num_draws(self) -> int:
        """Number of draws that are in the folder."""
        return max((int(match[2]) for _, match in self.files(DRAWS)), default=0)

    def states(self) -> list[tuple[int, list[Path]]]:
        """Return the rounds that all processes have saved, with their files, the newest first."""
        return _complete([(file, int(m[1]), m[3]) for file, m in self.files(STATE)])

    def tuning_files(self) -> list[Path]:
        """Return the files (3), or none if not all processes have saved theirs."""
        found = _complete([(file, 0, m[2]) for file, m in self.files(TUNING)])
        return found[0][1] if found else []

    def newest_valid_state(self) -> SavedState | None:
        """Return the newest state whose files, and the draws before it, have valid checksums."""
        errors: list[UnreadableFileError] = []
        for round, files in self.states():
            try:
                found = self._validated(round, files)
            except UnreadableFileError as error:
                errors.append(error)
                continue
            if errors:
                text = f"{errors[0]} The run goes on from round {round:,}, which was saved before."
                warnings.warn(text, CheckpointWarning, stacklevel=2)
            return found
        if errors:
            raise CheckpointError(
                f"{errors[0]} No older state can be taken instead: put that file back from a copy, "
                f"or remove {self.path} to start anew."
            )
        return None

    def _validated(self, round: int, files: list[Path]) -> SavedState:
        for file in files:
            check_checksum(file)
        count = int(read_arrays(files[0], ["count"])["count"])
        for file in itertools.chain.from_iterable(self.draw_files(count)):
            check_checksum(file)
        return SavedState(round, count, files)

    def draw_files(self, count: int) -> Iterator[list[Path]]:
        """Yield the files (2) with the first `count` draws, those of the same draws together."""
        spans: dict[tuple[int, int], list[Path]] = {}
        for file, match in self.files(DRAWS):
            spans.setdefault((int(match[1]), int(match[2])), []).append(file)
        reached = 0
        for (first, last), files in sorted(spans.items()):
            if first >= count:
                break
            if first != reached or last > count:
                raise CheckpointError(f"draws {reached} to {first} are not in {self.path}.")
            yield files
            reached = last
        if reached < count:
            raise CheckpointError(f"draws from {reached} on are not in {self.path}.")

    def remove_old_states(self) -> None:
        """Remove all states but the newest `NUM_STATES`."""
        rounds = sorted({int(match[1]) for _, match in self.files(STATE)})
        for file, match in list(self.files(STATE)):
            if int(match[1]) not in rounds[-NUM_STATES:]:
                file.unlink()

    def remove_after(self, round: int, count: int) -> None:
        """Remove states after a round, and draws from number `count` on."""
        late = [file for file, match in self.files(STATE) if int(match[1]) > round]
        late += [file for file, match in self.files(DRAWS) if int(match[1]) >= count]
        for file in late:
            file.unlink()

    def clear(self) -> None:
        """Remove the files of a run, and nothing else that may be in the folder."""
        for pattern in (DESCRIPTION, STATE, DRAWS, TUNING, UNFINISHED):
            for file, _ in self.files(pattern):
                file.unlink()

    def files(self, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
        """Yield the files whose names match a pattern, sorted by name, with the match."""
        for file in sorted(self.path.iterdir()):
            match = pattern.fullmatch(file.name)
            if match:
                yield file, match

    def other_version(self) -> str:
        """Return the message for a folder that this version cannot read."""
        return (
            f"{self.path} is of another version of starlings, or damaged; remove it to start anew."
        )


def identity(folder: Path) -> str | None:
    """Return the identity of the run that is saved in a folder; None if there is none."""
    if not (folder / "run.json").is_file():
        return None
    return str(CheckpointFolder(folder).description()["identity"])


def read_arrays(file: Path, names: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Read all arrays of a file after checking its checksum, or some of them without the check."""
    if not names:
        check_checksum(file)
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names or arrays.files}
    except Exception as error:  # a damaged zip file raises almost anything
        raise UnreadableFileError(f"{file} is damaged or of another version ({error}).") from None


def _complete(files: list[tuple[Path, int, str]]) -> list[tuple[int, list[Path]]]:
    """Group files (path, round, number of processes) by round, and drop incomplete rounds.

    The newest round comes first. If runs with different numbers of processes saved the same round,
    the files of one of them are returned.
    """
    groups: dict[tuple[int, int], list[Path]] = {}
    for file, round, size in files:
        groups.setdefault((round, int(size)), []).append(file)
    complete = {round: group for (round, size), group in groups.items() if len(group) == size}
    return sorted(complete.items(), reverse=True)
