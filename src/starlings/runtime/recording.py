"""The schedule of a run, and the draws that it records."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from starlings.errors import check_count
from starlings.network.communicator import Communicator


@dataclass(frozen=True)
class Schedule:
    """The rounds of a run: `burn_in` rounds without draws, then a draw every `thin` rounds."""

    draws: int
    burn_in: int = 0
    thin: int = 1

    def __post_init__(self) -> None:
        check_count(1, draws=self.draws, thin=self.thin)
        check_count(0, burn_in=self.burn_in)

    @property
    def num_rounds(self) -> int:
        """The number of all rounds of the run."""
        return self.burn_in + self.draws * self.thin

    def round_of(self, draw: Any) -> Any:
        """The number of the round that makes a draw; draws are numbered from 0."""
        return self.burn_in + (draw + 1) * self.thin


class Record(NamedTuple):
    """Consecutive draws, with the draw as first axis."""

    position: Any
    """(draw, chain, agent, dim), in unconstrained coordinates."""
    residual: Any
    """(draw, chain, agent): the largest residual of the proximal steps since the last draw."""
    broadcasts: Any = None
    """(draw, chain, agent): `Sampler.broadcasts` when the draw is made; None where it is not
    counted."""


def disagreement(positions: np.ndarray) -> np.ndarray:
    """sqrt(mean_i |x_i - mean x|^2) over the agents, the axis before the last."""
    deviations = positions - positions.mean(axis=-2, keepdims=True)
    return np.sqrt(np.mean(np.sum(deviations**2, axis=-1), axis=-1))


def mean_disagreement(communicator: Communicator, positions: np.ndarray) -> float:
    """The mean over the chains of the agents' disagreement, at every process.

    `positions` (chain, agent, dim) are those of the local agents.
    """
    size = communicator.sum(np.array(positions.shape[1]))
    mean = communicator.sum(positions.sum(axis=1)) / size
    squares = communicator.sum(((positions - mean[:, None]) ** 2).sum(axis=(1, 2)))
    return float(np.sqrt(squares / size).mean())


class Store(Protocol):
    """Where draws are stored that should not stay in memory."""

    def keep(self, first: int, record: Record) -> None:
        """Store draws, of which the first has the number `first`."""

    def pieces(self, count: int) -> Iterator[Record]:
        """The first `count` draws, piece by piece."""


@dataclass
class Recording:
    """The draws of a run as they arrive, on the host: in a store, or else in memory."""

    parts: list[Record] = field(default_factory=list)
    """The draws in memory, which follow those in the store."""
    store: Store | None = None
    stored: int = 0
    """The number of draws in the store."""
    room: int = 1
    """The number of draws in memory at which they move to the store."""
    most: float = math.inf
    """The number of draws that count; later ones are ignored; see `cut`."""

    def add(self, record: Record, count: int) -> None:
        """Add the first `count` draws of a chunk."""
        self.parts.append(jax.tree.map(lambda column: np.array(column[:count]), record))
        if self.store is not None and self._waiting >= self.room:
            self.flush()

    def flush(self) -> None:
        """Move the draws in memory to the store, if there is one."""
        if self.store is None or not self.parts:
            return
        self.store.keep(self.stored, _joined(self.parts, self._waiting))
        self.stored, self.parts = self.stored + self._waiting, []

    def pieces(self) -> Iterator[Record]:
        """All draws, piece by piece."""
        left = self.count
        stored = () if self.store is None else self.store.pieces(self.stored)
        for piece in itertools.chain(stored, self.parts):
            if left > 0:
                yield _part(piece, 0, left)
            left -= len(piece.position)

    def slabs(self, size: int) -> Iterator[Record]:
        """All draws, `size` at a time; the last slab may have fewer."""
        waiting, missing = [], size
        for piece in self.pieces():
            begin, length = 0, len(piece.position)
            while begin < length:
                end = min(begin + missing, length)
                waiting.append(_part(piece, begin, end))
                begin, missing = end, missing - (end - begin)
                if missing == 0:
                    yield _joined(waiting, size)
                    waiting, missing = [], size
        if waiting:
            yield _joined(waiting, size - missing)

    def joined(self) -> Record:
        """All draws so far, in memory."""
        return _joined(self.pieces(), self.count)

    def last_broadcasts(self) -> np.ndarray | None:
        """`Record.broadcasts` of the last draw, (chain, agent); None where it is not counted."""
        last = None
        for piece in self.pieces():
            if piece.broadcasts is None:
                return None
            last = piece.broadcasts[-1]
        return last

    def thinned(self, most: int) -> np.ndarray:
        """Evenly spaced positions (draw, chain, agent, dim), at most `most` of all chains."""
        step, selected, first = 1, [], 0
        for piece in self.pieces():
            length, chains = piece.position.shape[:2]
            step = -(-chains * self.count // most)
            selected.append(np.array(piece.position[-first % step :: step]))
            first += length
        return np.concatenate(selected)

    def cut(self, draws: int) -> Recording:
        """The recording without the draws after the first `draws`."""
        return dataclasses.replace(self, most=draws)

    @property
    def count(self) -> int:
        """The number of draws so far."""
        return int(min(self.stored + self._waiting, self.most))

    @property
    def _waiting(self) -> int:
        """The number of draws in memory."""
        return sum(len(part.position) for part in self.parts)


def _part(record: Record, begin: int, end: int) -> Record:
    """The draws from `begin` to `end`, which is left out."""
    return jax.tree.map(lambda column: column[begin:end], record)


def _joined(pieces: Iterable[Record], count: int) -> Record:
    """Pieces with `count` draws in all as one record."""
    whole, place = None, 0
    for piece in pieces:
        if whole is None:
            whole = jax.tree.map(lambda c: np.empty((count, *c.shape[1:]), c.dtype), piece)
        length = len(piece.position)
        for target, column in zip(*map(jax.tree.leaves, (whole, piece)), strict=True):
            target[place : place + length] = column
        place += length
    if whole is None:
        raise ValueError("there are no draws to put together.")
    return whole
