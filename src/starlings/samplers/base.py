"""The shape that every sampler has: what ONE agent does, and nothing else.

A sampler owns no loop, no socket and no metric. It is an immutable object whose fields are its
hyper-parameters: numbers are leaves of a pytree (so a new `rho` does not recompile), choices and
batch sizes are static.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import jax

from starlings.agent import Agent
from starlings.errors import check_choice, check_count
from starlings.network import Inbox
from starlings.rounds import Round


class Info(NamedTuple):
    """What a step reports about itself."""

    residual: Any
    """How far the proximal step is from its optimum (Newton decrement); 0 where there is none."""
    iterations: Any
    """Newton iterations of the proximal step; 0 where there are none."""


@dataclass(frozen=True)
class Card:
    """What a user wants to know before choosing, printed by `starlings samplers`."""

    title: str
    exchanged: str
    floats_per_parameter: int
    """Numbers sent to each neighbour in each round, per parameter."""
    bias: str
    reference: str
    floats_besides: int = 0
    """Numbers sent besides, whatever the number of parameters."""

    def floats(self, dim: int) -> int:
        """Numbers in one message."""
        return self.floats_per_parameter * dim + self.floats_besides

    @property
    def size(self) -> str:
        """The size of a message in words."""
        if self.floats_per_parameter == 0:
            return str(self.floats_besides)
        return f"{self.floats_per_parameter} per parameter"


class Sampler(Protocol):
    """The contract. `step` reads its own state, its inbox and its own data, never a neighbour."""

    card: ClassVar[Card]

    def init(self, agent: Agent, position: jax.Array, round: Round) -> Any:
        """The state at the start (round 0), from a position of shape (dim,)."""

    def message(self, state: Any) -> jax.Array:
        """All that ever leaves an agent: one flat vector of floats."""

    def prepare(self, agent: Agent) -> Agent:
        """The agent with whatever is the same in all rounds computed, once before the loop."""

    def step(self, agent: Agent, state: Any, inbox: Inbox, round: Round) -> tuple[Any, Info]:
        """One round."""

    def draw(self, agent: Agent, state: Any, upcoming: Round) -> jax.Array:
        """What is recorded, of shape (dim,); `upcoming` is the round after the one just made."""


class ExchangesPositions:
    """What most samplers share: neighbours see the position, and the position is the draw."""

    @property
    def noises(self) -> tuple[str, ...]:
        """What every round draws, "shared" or "private": a runtime may then draw it ahead."""
        kinds = {"coherent": ("shared",), "private": ("private",)}
        return kinds.get(getattr(self, "noise", ""), ())

    def prepare(self, agent: Agent) -> Agent:
        """Nothing."""
        return agent

    def message(self, state: Any) -> jax.Array:
        """The position is all that leaves an agent."""
        return state.position

    def draw(self, agent: Agent, state: Any, upcoming: Round) -> jax.Array:
        """x_i."""
        return state.position


class PositionState(NamedTuple):
    """The state of a sampler that remembers nothing but where it is."""

    position: Any
    """x_i."""


def check_gradient_choices(noise: str, batch_size: int | None) -> None:
    """Check the two choices that every gradient-based sampler offers."""
    check_choice(("private", "coherent"), noise=noise)
    if batch_size is not None:
        check_count(1, batch_size=batch_size)


def no_info(position: jax.Array) -> Info:
    """The report of a step that solves nothing."""
    zero = jax.numpy.zeros((), position.dtype)
    return Info(residual=zero, iterations=jax.numpy.zeros((), jax.numpy.int32))


def unit_noise(law: str, agent: Agent, round: Round, like: jax.Array) -> jax.Array:
    """Noise whose average over the network has variance 1/N in every coordinate.

    private:   w_i ~ N(0, I), drawn by each agent for itself
    coherent:  w / sqrt(N), the same w ~ N(0, I) at every agent
    """
    if law == "private":
        return round.private_noise(like)
    return round.shared_noise(like) / jax.numpy.sqrt(agent.num_agents)
