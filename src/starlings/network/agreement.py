"""Protocols by which all agents come to know one number, within the rounds of a sampler.

Every message is one number, and a protocol repeats itself in cycles of rounds:

    FloodedVote   Has any agent voted 1? The largest vote spreads from neighbour to neighbour.
                  A cycle has as many rounds as a flood needs to reach every agent.         (1)
    ClimbingSum   The sum of one number of each agent climbs the levels of `levels` to agent 0,
                  and the total floods back: the same bits at every agent. A cycle has twice as
                  many rounds as (1).                                                       (2)

Both begin with one flood, in which the agents learn what the protocol needs. The result of a cycle
is known at its end, and the next cycle opens in the same round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from starlings.network.inbox import Inbox
from starlings.network.levels import sent_share, with_received


class Agreement(Protocol):
    """What a sampler needs of a protocol; states are pytrees with a number `outgoing`."""

    @property
    def flood_rounds(self) -> int:
        """Rounds in which a flood reaches every agent: at least the diameter of the network."""

    @property
    def cycle(self) -> int:
        """Rounds from one result to the next."""

    def start(self, number: Any, dtype: Any) -> Any:
        """The state before the first round of the agent with this number."""

    def received(self, state: Any, inbox: Inbox, index: Any) -> Any:
        """The state after the messages of round `index`, counted from 1."""

    def is_over(self, index: Any) -> Any:
        """Whether a cycle, or the first flood, ends with round `index`."""

    def result(self, state: Any) -> Any:
        """The number that all agents know when a cycle is over."""

    def new_cycle(self, state: Any, own: Any) -> Any:
        """The state in which a cycle begins, with this agent's own number."""


class VoteState(NamedTuple):
    """The state of an agent in a `FloodedVote`."""

    outgoing: Any
    """The largest vote that the agent knows of: its message."""


@dataclass(frozen=True)
class FloodedVote:
    """Protocol (1); the result is 0 if no agent has voted 1."""

    flood_rounds: int

    @property
    def cycle(self) -> int:
        """Rounds from one result to the next."""
        return self.flood_rounds

    def start(self, number: Any, dtype: Any) -> VoteState:
        """No vote yet."""
        return VoteState(jnp.zeros((), dtype))

    def received(self, state: VoteState, inbox: Inbox, index: Any) -> VoteState:
        """A vote of 1 spreads by one edge in each round."""
        return VoteState(jnp.maximum(state.outgoing, inbox.max[0]))  # (1)

    def is_over(self, index: Any) -> Any:
        """Whether every vote has reached every agent."""
        return (index >= self.flood_rounds) & (index % self.cycle == 0)

    def result(self, state: VoteState) -> Any:
        """The largest vote of any agent."""
        return state.outgoing

    def new_cycle(self, state: VoteState, own: Any) -> VoteState:
        """A new vote, 0 or 1."""
        return VoteState(own)


class SumState(NamedTuple):
    """The state of an agent in a `ClimbingSum`."""

    part: Any
    """The agent's own number, plus what it has received from agents farther from agent 0."""
    outgoing: Any
    """The agent's message: a share of its part, then the total; minus infinity if unknown."""
    level: Any
    """The distance from agent 0 in edges; -1 while unknown."""
    parents: Any
    """The number of neighbours one level nearer to agent 0."""


@dataclass(frozen=True)
class ClimbingSum:
    """Protocol (2); the result is the sum of the numbers of all agents."""

    flood_rounds: int

    @property
    def cycle(self) -> int:
        """Rounds from one result to the next."""
        return 2 * self.flood_rounds

    def start(self, number: Any, dtype: Any) -> SumState:
        """Agent 0, at level 0, begins the flood in which all agents learn their levels."""
        is_root, zero = number == 0, jnp.zeros((), dtype)
        return SumState(
            part=zero,
            outgoing=jnp.where(is_root, 1.0, zero),
            level=jnp.where(is_root, 0, -1),
            parents=jnp.ones((), dtype),
        )

    def received(self, state: SumState, inbox: Inbox, index: Any) -> SumState:
        """Learn the level in the first flood; afterwards pass on the sum, or the total."""
        return jax.lax.cond(
            index <= self.flood_rounds,
            lambda: _learn_level(state, inbox, index),
            lambda: self._pass_on(state, inbox, self._turn(index)),
        )

    def is_over(self, index: Any) -> Any:
        """Whether the total, or the first flood, has reached every agent."""
        return (index >= self.flood_rounds) & (self._turn(index) == 0)

    def result(self, state: SumState) -> Any:
        """The total."""
        return state.outgoing

    def new_cycle(self, state: SumState, own: Any) -> SumState:
        """A new sum; the farthest possible level sends first."""
        share = sent_share(own, state.level, state.parents, self.flood_rounds)
        return state._replace(part=own, outgoing=share)

    def _turn(self, index: Any) -> Any:
        """The number of rounds since a cycle began; 0 in its last one."""
        return (index - self.flood_rounds) % self.cycle

    def _pass_on(self, state: SumState, inbox: Inbox, turn: Any) -> SumState:
        """One round of the sum on its way to agent 0, or of the total on its way back.

        After `turn` rounds the level `flood_rounds` - `turn` has received everything from the
        level above it. When that is level 0, agent 0 has the total, which then spreads.
        """
        depth, level = self.flood_rounds, state.level
        turn = jnp.where(turn == 0, self.cycle, turn)
        part = with_received(state.part, level, inbox.sum[0], depth - turn + 1)
        share = sent_share(part, level, state.parents, depth - turn)
        at_root = jnp.where(level == 0, part, -jnp.inf)
        known = jnp.where(jnp.isfinite(state.outgoing), state.outgoing, inbox.max[0])
        outgoing = jnp.where(turn < depth, share, jnp.where(turn == depth, at_root, known))
        return state._replace(part=part, outgoing=outgoing)


def _learn_level(state: SumState, inbox: Inbox, index: Any) -> SumState:
    """An agent that the flood reaches first in round `index` receives a 1 of all its parents."""
    ones = inbox.sum[0]
    is_reached = (state.level < 0) & (ones > 0)
    return state._replace(
        level=jnp.where(is_reached, index, state.level).astype(state.level.dtype),
        parents=jnp.where(is_reached, ones, state.parents),
        outgoing=is_reached.astype(ones.dtype),
    )
