"""What the runtimes share: how many rounds a run has, what it keeps, and what stops it."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_count
from starlings.proximal import tolerance

SOUND, UNCONVERGED, EXPLODED, NOT_FINITE = range(4)
REASONS = 4
NEVER = np.iinfo(np.int32).max
FEW_ENTRIES = 8


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


def no_trouble(shape: tuple[int, ...]) -> jax.Array:
    """For (chains, agents): see `watched`."""
    return jnp.full(shape, NEVER, jnp.int32)


def disagreement(positions: np.ndarray) -> np.ndarray:
    """sqrt(mean_i |x_i - mean x|^2) over the agents, the axis before the last."""
    apart = positions - positions.mean(axis=-2, keepdims=True)
    return np.sqrt(np.mean(np.sum(apart**2, axis=-1), axis=-1))


def watched(trouble: jax.Array, index, positions, residual, limit) -> jax.Array:
    """The first look at which each agent's iterate was no longer meaningful, and why, as a number:

    REASONS x round + reason                                                               (1)

    `positions` are (chain, agent, dim), and everything else is (chain, agent); `residual` is the
    largest since the last look.
    """
    size = jax.lax.platform_dependent(positions, cpu=_largest_entry, default=_largest_along_axis)
    reason = jnp.where(residual > tolerance(positions.dtype), UNCONVERGED, SOUND)
    reason = jnp.where(size > limit, EXPLODED, reason)
    reason = jnp.where(jnp.isfinite(size) & jnp.isfinite(residual), reason, NOT_FINITE)
    now = jnp.where(reason == SOUND, NEVER, REASONS * index + reason)  # (1)
    return jnp.minimum(trouble, now.astype(trouble.dtype))


def _largest_along_axis(positions: jax.Array) -> jax.Array:
    return jnp.abs(positions).max(axis=-1)


def _largest_entry(positions: jax.Array) -> jax.Array:
    """The same; on a processor a maximum over a short axis would take longer than the step."""
    if positions.shape[-1] > FEW_ENTRIES:
        return _largest_along_axis(positions)
    sizes = [jnp.abs(positions[..., k]) for k in range(positions.shape[-1])]
    return functools.reduce(jnp.maximum, sizes)


class Trouble(NamedTuple):
    """What went wrong first."""

    round: int
    text: str
    """Names the round, the agent and the likely cause."""


def first_trouble(trouble: Any, names: list[str], sampler: Any) -> Trouble | None:
    """The earliest trouble of (chain, agent), if there is any."""
    first = np.asarray(trouble)
    if first.min() == NEVER:
        return None
    chain, agent = np.unravel_index(first.argmin(), first.shape)
    round, reason = divmod(int(first[chain, agent]), REASONS)
    what = {
        UNCONVERGED: "its proximal step did not converge",
        EXPLODED: "its position exploded",
        NOT_FINITE: "its position is no longer finite",
    }[reason]
    return Trouble(
        round,
        f"agent {names[agent]!r} diverged in round {round} of chain {chain}: "
        f"{what}. "
        f"{_likely_cause(sampler, reason)}",
    )


def _likely_cause(sampler: Any, reason: int) -> str:
    if hasattr(sampler, "step_size"):
        return (
            f"The likely cause is a step too large for this problem ({sampler}); try a tenth of "
            "`step_size`, and start nearer to the posterior with `initial`."
        )
    if reason == UNCONVERGED:
        return (
            "The likely cause is a potential that is not smooth or not bounded below where the "
            "agent is; a larger `rho` keeps its steps shorter, and `initial` its start nearer."
        )
    return (
        "The likely cause is a log-density that overflows where the agent is; start nearer to the "
        "posterior with `initial`, or scale the data."
    )


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
