"""Checkpoints: a run is saved while it goes on, and resumed by any number of processes.

Every process saves the state and the draws of its local agents to files of its own (see
`checkpoint_folder`). A resumed run starts from the newest state that all processes had saved and
whose files are valid; each process reads the files that have its agents.

The draws are not in memory as well: the folder is the store of a `Recording`.

The files say much about rows: they hold draws and states of single agents, what tuning found of
their gradients and Hessians, and checksums. Nobody but the user can read them. Organisations that
run one process each need a folder each, which the others cannot read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from starlings.errors import CheckpointError, UnreadableFileError
from starlings.network import Network
from starlings.runtime.checkpoint_folder import (
    NAME_DIGITS,
    CheckpointFolder,
    SavedState,
    read_arrays,
)
from starlings.runtime.recording import Record, Recording
from starlings.system.files import atomic_write

DIGEST_TOLERANCE = 1e-6
"""Largest relative change of a digest that counts as rounding rather than as other data."""
OWN = "own_"
"""What the names of arrays (agent, ...) begin with that single agents have in a shared state."""
NOT_COMPARED = ("identity", "format")
"""Entries of `run.json` that are not settings of the run."""


@dataclass
class Checkpoint:
    """The saved state of a run, as one process reads and writes it.

    Args:
        folder: the folder of the files, which is created if it does not exist.
        every: rounds from one checkpoint to the next.
        network: the network, which knows the local agents of this process.
        digests: numbers (local agent, number) that identify the rows and the model of each agent;
            a resumed run must have the same, up to rounding.
    """

    folder: Path
    every: int
    network: Network
    digests: np.ndarray

    def __post_init__(self) -> None:
        communicator = self.network.communicator
        self.files = CheckpointFolder(self.folder)
        self.rank: int = communicator.rank
        self.size: int = communicator.size
        self.barrier: Callable[[], None] = communicator.barrier
        self.broadcast: Callable[[Any], Any] = communicator.broadcast

    def begin(self, run: Mapping[str, Any], resume: bool) -> None:
        """Create the folder for a new run, or check that the run to be resumed is the same.

        Args:
            run: the settings of the run, in terms that JSON has.
            resume: whether a run that is in the folder may be resumed.
        """
        settings, has_run = json.loads(json.dumps(run)), self.files.has_run()
        if has_run and not resume:
            raise CheckpointError(
                f"{self.folder} holds a run; resume it (`--resume`, in Python `resume=True`), or "
                "remove the folder to start anew."
            )
        if has_run:
            self._check_same(self.files.description(), settings)
        self.barrier()
        if self.rank == 0 and not has_run:
            self.files.create(settings)
        self.barrier()

    def _check_same(self, saved: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        for name in {**saved, **settings}:
            before, now = saved.get(name), settings.get(name)
            if before != now and name not in NOT_COMPARED:
                raise CheckpointError(
                    f"{self.folder} holds another run: its `{name}` is {_short(before)}, not "
                    f"{_short(now)}."
                )

    def save(self, carry: Any, recording: Recording) -> None:
        """Save the state of the local agents and all draws before it; remove older states."""
        leaves = {f"leaf_{i}": leaf for i, leaf in enumerate(jax.tree.leaves(carry.states))}
        self.save_shared(int(carry.round), recording, {"divergence": carry.divergence, **leaves})

    def save_shared(self, round: int, recording: Recording, arrays: Mapping[str, Any]) -> None:
        """Save a state that is given by named arrays and all draws before it; remove older states.

        Args:
            round: network rounds so far, by which states are ordered.
            recording: the draws so far.
            arrays: the state; all but those of single agents are equal at all processes.
        """
        recording.flush()
        whole = {"count": np.array(recording.stored), "digests": self.digests, **arrays}
        self._save_arrays(f"state-{round:0{NAME_DIGITS}d}", **whole)
        self.barrier()  # all processes have saved this round
        if self.rank == 0:
            self.files.remove_old_states()

    def restored_shared(self) -> tuple[dict[str, np.ndarray] | None, Recording]:
        """Return the newest valid state, as one process saved it, and its draws; None and none.

        Arrays whose names begin with `OWN` are those of the local agents, from whoever saved them.
        """
        found = self._newest_state()
        if found is None:
            return None, Recording(store=self)
        saved, files = found
        own = [name for name in files[0] if name.startswith(OWN)]
        arrays = {**files[0], **{name: self._of_local_agents(files, name, 0) for name in own}}
        return arrays, Recording(store=self, stored=saved.num_draws)

    def remove_states(self) -> None:
        """Remove all states and draws, of a run that goes on by another method."""
        self._remove_after(-1, 0)

    def keep(self, first: int, record: Record) -> None:
        """Save draws of the local agents, of which the first has the number `first`."""
        span = f"{first:0{NAME_DIGITS}d}-{first + len(record.position):0{NAME_DIGITS}d}"
        columns = {name: c for name, c in record._asdict().items() if c is not None}
        self._save_arrays(f"draws-{span}", **columns)

    @property
    def num_draws(self) -> int:
        """Number of draws that are in the folder."""
        return self.files.num_draws

    def pieces(self, count: int) -> Iterator[Record]:
        """Yield the first `count` draws of the local agents, file by file."""
        for files in self.files.draw_files(count):
            arrays = self._read(files)
            optional = Record._field_defaults
            names = [name for name in Record._fields if name in arrays[0] or name not in optional]
            yield Record(**{name: self._of_local_agents(arrays, name, 2) for name in names})

    def restored(self, carry: Any) -> tuple[Any, Recording]:
        """Return the newest valid state and its draws, or `carry` and none if nothing is saved."""
        found = self._newest_state()
        if found is None:
            return carry, Recording(store=self)
        (round, count, _), arrays = found
        leaves, shape = jax.tree.flatten(carry.states)
        if sum(name.startswith("leaf_") for name in arrays[0]) != len(leaves):
            raise CheckpointError(self.files.other_version())
        states = [
            jax.numpy.asarray(self._of_local_agents(arrays, f"leaf_{i}", 1), leaf.dtype)
            for i, leaf in enumerate(leaves)
        ]
        divergence = jax.numpy.asarray(self._of_local_agents(arrays, "divergence", 1))
        index = jax.numpy.asarray(round, carry.round.dtype)
        carry = type(carry)(jax.tree.unflatten(shape, states), index, divergence)
        return carry, Recording(store=self, stored=count)

    def _newest_state(self) -> tuple[SavedState, list[dict[str, np.ndarray]]] | None:
        """Return the newest valid state and what its files hold, for the same rows and model."""
        found = self.broadcast(self.files.newest_valid_state() if self.rank == 0 else None)
        self._remove_after(*((-1, 0) if found is None else found[:2]))
        if found is None:
            return None
        arrays = self._read(found.files)
        self._check_digests(self._of_local_agents(arrays, "digests", 0))
        return found, arrays

    def _check_digests(self, saved: np.ndarray) -> None:
        same = np.isclose(saved, self.digests, rtol=DIGEST_TOLERANCE, atol=0, equal_nan=True)
        if not same.all():
            site = self.network.local_names[int(np.argmin(same.all(axis=1)))]
            raise CheckpointError(
                f"the rows of site {site!r}, or the model, are not those of {self.folder}."
            )

    def save_tuning(self, shared: Mapping[str, Any], by_agent: Mapping[str, np.ndarray]) -> None:
        """Save what tuning found: values that all agents share, and arrays (local agent, ...)."""
        self._save_arrays("tuning", shared=np.array(json.dumps(shared)), **by_agent)
        self.barrier()

    def tuning(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """Return what `save_tuning` saved; None if not all processes have saved it."""
        files = self.files.tuning_files()
        if not files:
            return None
        arrays = self._read(files)
        names = set(arrays[0]) - {"shared", "agents"}
        by_agent = {name: self._of_local_agents(arrays, name, 0) for name in names}
        return json.loads(str(arrays[0]["shared"])), by_agent

    def remove(self) -> None:
        """Remove the files of the run, and the folder unless it has other files."""
        self.barrier()
        if self.rank == 0:
            self.files.clear()
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _remove_after(self, round: int, count: int) -> None:
        """Remove what only some processes had saved after the state that is resumed."""
        self.barrier()
        if self.rank == 0:
            self.files.remove_after(round, count)
        self.barrier()

    def _read(self, files: list[Path]) -> list[dict[str, np.ndarray]]:
        """Read those of the files that have local agents; often it is this process's own file."""
        local, own = self.network.local, f"-{self.rank}-of-{self.size}.npz"
        try:
            for file in (file for file in files if file.name.endswith(own)):
                if np.array_equal((arrays := read_arrays(file))["agents"], local):
                    return [arrays]
            some = [f for f in files if np.isin(read_arrays(f, ["agents"])["agents"], local).any()]
            return [read_arrays(file) for file in some or files[:1]]
        except UnreadableFileError as error:
            raise CheckpointError(
                f"{error} Put it back from a copy, or remove {self.folder} to start anew."
            ) from None

    def _of_local_agents(
        self, files: list[dict[str, np.ndarray]], name: str, axis: int
    ) -> np.ndarray:
        """Collect an array of the local agents from the files that have them."""
        local, parts, numbers = self.network.local, [], []
        for arrays in files:
            if name not in arrays:
                raise CheckpointError(self.files.other_version())
            wanted = np.isin(arrays["agents"], local)
            parts.append(np.compress(wanted, arrays[name], axis))
            numbers.append(arrays["agents"][wanted])
        found = np.concatenate(numbers)
        if not np.array_equal(np.sort(found), local):
            raise CheckpointError(f"{self.folder} does not have all agents of this run.")
        return np.take(np.concatenate(parts, axis), np.argsort(found), axis)

    def _save_arrays(self, name: str, **arrays: Any) -> None:
        file = self.folder / f"{name}-{self.rank}-of-{self.size}.npz"
        arrays = {key: np.asarray(value) for key, value in arrays.items()}
        needs = sum(array.nbytes for array in arrays.values())
        with (
            atomic_write(file, needs, self._advice(), is_secret=True) as partial,
            partial.open("wb") as stream,
        ):
            np.savez(stream, agents=self.network.local, **arrays)

    def _advice(self) -> str:
        """Return what to do if the disk is full."""
        states = self.files.states()
        if not states:
            return "Make room, or choose another place for the checkpoint."
        return (
            f"The run is kept in {self.folder} up to round {states[0][0]:,}: make room, and go on "
            "with the same command and `--resume` (in Python `resume=True`)."
        )


def _short(value: Any, most: int = 100) -> str:
    text = str(value)
    return text if len(text) <= most else f"{text[:most]}..."
