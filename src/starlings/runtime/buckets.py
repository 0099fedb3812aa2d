"""Agents with similar numbers of rows together, so that a long shard does not slow all agents.

The rows of all agents are one array, padded to the longest shard. Sorted from the longest shard to
the shortest, agents start a new group, padded to its own longest shard, where that saves enough:

    (agents from here on) x (longest of the group before - longest from here on)
        >= WORTHWHILE x (rows of all agents)                                                (1)

and where their shards are half as long or less. A round then evaluates one group after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.agent import Agent, sum_over
from starlings.problem.shards import padded_length
from starlings.pytrees import pytree

WORTHWHILE = 0.25
"""The padding that a new group has to save, as a part of the rows of all agents."""


@pytree
@dataclass(frozen=True)
class Stack:
    """All local agents, in one stack."""

    agents: Agent

    def each(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """function(agent, entry, ...) for every agent, with arrays whose first axis is agents."""
        return jax.vmap(function)(self.agents, *arrays)

    def each_in_turn(
        self, function: Callable[[Agent], Any], at_once: Callable[[Agent], int]
    ) -> Any:
        """function(agent) for every agent, in batches of `at_once(agents)`, to save memory."""
        return jax.lax.map(function, self.agents, batch_size=at_once(self.agents))

    def sum_over(self, function: Callable[[Agent], Any]) -> Any:
        """The sum of function(agent) over all agents, with what they have in common found once."""
        return sum_over(self.agents, function)

    @property
    def knows_gradient(self) -> bool:
        """Whether gradients need no automatic differentiation, see `Agent.knows_gradient`."""
        return self.agents.knows_gradient

    @property
    def num_local(self) -> int:
        """The number of local parameters, see `Agent.num_local`."""
        return self.agents.num_local

    @property
    def known_residual(self) -> Any:
        """The residual (agent,) of all proximal steps, if `Sampler.prepare` solved them; or None.

        Proximal steps on quadratic potentials are all solved by one matrix, computed once.
        """
        quadratic = self.agents.quadratic
        is_solved = quadratic is not None and quadratic.shifted is not None
        return quadratic.shifted.residual if is_solved else None  # type: ignore[union-attr]


@pytree
@dataclass(frozen=True)
class Groups:
    """All local agents, in several stacks."""

    stacks: tuple[Agent, ...]
    members: tuple[Any, ...]
    """The numbers of the agents of every stack."""
    order: Any
    """Where each agent stands when the stacks are put one after the other."""

    known_residual = None
    """No residual is known before a round: these agents have no quadratic potentials."""

    def each(self, function: Callable[..., Any], *arrays: Any) -> Any:
        """function(agent, entry, ...) for every agent, with arrays whose first axis is agents."""
        parts = [
            jax.vmap(function)(stack, *(jax.tree.map(lambda a, m=members: a[m], arrays)))
            for stack, members in zip(self.stacks, self.members, strict=True)
        ]
        return self._in_order(parts)

    def each_in_turn(
        self, function: Callable[[Agent], Any], at_once: Callable[[Agent], int]
    ) -> Any:
        """function(agent) for every agent, in batches of `at_once(stack)`, to save memory."""
        return self._in_order([Stack(s).each_in_turn(function, at_once) for s in self.stacks])

    def sum_over(self, function: Callable[[Agent], Any]) -> Any:
        """The sum of function(agent) over all agents, with what they have in common found once."""
        return sum(sum_over(stack, function) for stack in self.stacks)

    @property
    def knows_gradient(self) -> bool:
        """Whether gradients need no automatic differentiation, see `Agent.knows_gradient`."""
        return self.stacks[0].knows_gradient

    @property
    def num_local(self) -> int:
        """The number of local parameters, see `Agent.num_local`."""
        return self.stacks[0].num_local

    def _in_order(self, parts: list[Any]) -> Any:
        """The results of all stacks, in the order of the agents."""
        return jax.tree.map(lambda *part: jnp.concatenate(part)[self.order], *parts)


Agents = Stack | Groups


def grouped(agents: Agent) -> Agents:
    """The agents in groups, or in one stack if one group serves all."""
    if agents.quadratic is not None:  # which needs no rows
        return Stack(agents)
    counts = np.asarray(agents.num_rows)
    order = np.argsort(-counts, kind="stable")
    starts = _starts(counts[order])
    if len(starts) == 1:
        return Stack(agents)
    members = np.split(order, starts[1:])
    return Groups(
        stacks=tuple(cut(agents, group, padded_length(int(counts[group[0]]))) for group in members),
        members=tuple(jnp.asarray(group, jnp.int32) for group in members),
        order=jnp.asarray(np.argsort(order), jnp.int32),
    )


def _starts(counts: np.ndarray) -> list[int]:
    """The first agent of every group, eq. (1), from counts in descending order."""
    starts, rows = [0], counts.sum()
    for i, count in enumerate(counts):
        longest = counts[starts[-1]]
        saved = (len(counts) - i) * (longest - count)
        if 2 * count <= longest and saved >= WORTHWHILE * rows:  # (1)
            starts.append(i)
    return starts


def cut(agents: Agent, members: np.ndarray, length: int) -> Agent:
    """Some of the agents, without the padding that they do not need."""
    some = jax.tree.map(lambda array: array[members], agents)
    rows, weights = jax.tree.map(lambda a: a[:, :length], (some.rows, some.row_weights))
    return replace(some, rows=rows, row_weights=weights)
