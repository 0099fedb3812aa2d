"""What the runtimes share: how many rounds a run has, and what it keeps of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from starlings.errors import check_count


@dataclass(frozen=True)
class Schedule:
    """The rounds of a run: `burn_in` that are dropped, then every `thin`-th is kept."""

    draws: int
    burn_in: int = 0
    thin: int = 1

    def __post_init__(self) -> None:
        check_count(1, draws=self.draws, thin=self.thin)
        check_count(0, burn_in=self.burn_in)

    @property
    def num_rounds(self) -> int:
        """All rounds of the run."""
        return self.burn_in + self.draws * self.thin

    def round_of(self, draw: Any) -> Any:
        """The round that makes a draw; draw 0 is the first one kept."""
        return self.burn_in + (draw + 1) * self.thin


class Record(NamedTuple):
    """What is kept of a stretch of rounds, with the draw as first axis."""

    position: Any
    """(draw, chain, agent, dim), in unconstrained coordinates."""
    residual: Any
    """(draw, chain, agent): the largest residual of the proximal steps since the last draw."""


def disagreement(positions: np.ndarray) -> np.ndarray:
    """sqrt(mean_i |x_i - mean x|^2) over the agents, the axis before the last."""
    apart = positions - positions.mean(axis=-2, keepdims=True)
    return np.sqrt(np.mean(np.sum(apart**2, axis=-1), axis=-1))


@dataclass
class Recording:
    """The draws of a run as they arrive, on the host."""

    parts: list[Record] = field(default_factory=list)

    def add(self, record: Record, count: int) -> None:
        """Keep the first `count` draws of a chunk."""
        self.parts.append(Record(*(np.array(column[:count]) for column in record)))

    def joined(self) -> Record:
        """All draws so far."""
        return self.between(0, self.count)

    def between(self, first: int, last: int) -> Record:
        """The draws `first` to `last`, the last excluded."""
        ends = np.cumsum([0, *(len(part.position) for part in self.parts)])
        wanted = [
            Record(*(column[max(first - start, 0) : last - start] for column in part))
            for part, start, end in zip(self.parts, ends[:-1], ends[1:], strict=True)
            if start < last and end > first
        ]
        return Record(*(np.concatenate(columns) for columns in zip(*wanted, strict=True)))

    def thinned(self, most: int) -> np.ndarray:
        """Positions of every so-many-th draw, (draw, chain, agent, dim): of all chains `most`."""
        chains = self.parts[0].position.shape[1]
        step, places = -(-chains * self.count // most), np.arange(self.count)
        ends = np.cumsum([len(part.position) for part in self.parts])[:-1]
        wanted = np.split(places % step == 0, ends)
        return np.concatenate([p.position[w] for p, w in zip(self.parts, wanted, strict=True)])

    def cut(self, draws: int) -> Recording:
        """The first draws alone, if there are more."""
        return self if self.count <= draws else Recording([self.between(0, draws)])

    @property
    def count(self) -> int:
        """The number of draws so far."""
        return sum(len(part.position) for part in self.parts)
