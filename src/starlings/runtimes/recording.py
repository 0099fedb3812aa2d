"""What the runtimes share: how many rounds a run has, what it keeps, and what stops it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import DivergenceError, check_count
from starlings.proximal import tolerance

SOUND, UNCONVERGED, EXPLODED, NOT_FINITE = range(4)
NEVER = np.iinfo(np.int32).max


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
    disagreement: Any
    """(draw, chain): root mean square distance of the agents from their average."""
    residual: Any
    """(draw, chain, agent): the largest residual of the proximal steps since the last draw."""


class Trouble(NamedTuple):
    """The first round at which each agent's iterate stopped being meaningful, and why."""

    round: Any
    reason: Any

    @classmethod
    def none(cls, shape: tuple[int, ...]) -> Trouble:
        """No trouble so far, for (chains, agents)."""
        return cls(jnp.full(shape, NEVER, jnp.int32), jnp.zeros(shape, jnp.int32))


def disagreement(positions: jax.Array) -> jax.Array:
    """sqrt(mean_i |x_i - mean x|^2) over the agents, the axis before the last."""
    apart = positions - positions.mean(axis=-2, keepdims=True)
    return jnp.sqrt(jnp.mean(jnp.sum(apart**2, axis=-1), axis=-1))


def watch(trouble: Trouble, index, positions, residual, limit) -> Trouble:
    """Note the agents that went wrong in round `index` for the first time."""
    size = jnp.max(jnp.abs(positions), axis=-1)
    reason = jnp.where(residual > tolerance(positions.dtype), UNCONVERGED, SOUND)
    reason = jnp.where(size > limit, EXPLODED, reason)
    reason = jnp.where(jnp.isfinite(size) & jnp.isfinite(residual), reason, NOT_FINITE)
    new = (reason != SOUND) & (trouble.reason == SOUND)
    return Trouble(
        jnp.where(new, index, trouble.round),
        jnp.where(new, reason, trouble.reason),
    )


def raise_on_trouble(trouble: Trouble, names: list[str], sampler: Any) -> None:
    """Stop the run at the earliest trouble, naming the round, the agent and the likely cause."""
    rounds, reasons = np.asarray(trouble.round), np.asarray(trouble.reason)
    if rounds.min() == NEVER:
        return
    chain, agent = np.unravel_index(rounds.argmin(), rounds.shape)
    reason = reasons[chain, agent]
    what = {
        UNCONVERGED: "its proximal step did not converge",
        EXPLODED: "its position exploded",
        NOT_FINITE: "its position is no longer finite",
    }[int(reason)]
    raise DivergenceError(
        f"agent {names[agent]!r} diverged in round {rounds[chain, agent]} of chain {chain}: "
        f"{what}. "
        f"{_likely_cause(sampler, int(reason))}"
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
        return Record(*(np.concatenate(columns) for columns in zip(*self.parts, strict=True)))

    @property
    def count(self) -> int:
        """The number of draws so far."""
        return sum(len(part.disagreement) for part in self.parts)
