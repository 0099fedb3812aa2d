"""Agents with like numbers of rows together, so that a long shard does not make all others long.

The rows of all agents are one array, padded to the longest shard. Sorted from the longest to the
shortest, agents start a group of their own, padded to its own longest, where that saves enough:

    (agents from here on) x (longest of the group before - longest from here on)
        >= WORTH x (rows of all agents)                                                     (1)

and where their shards are half as long or less. A round then evaluates one group after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.agent import Agent
from starlings.problem.shards import rounded
from starlings.pytrees import pytree

WORTH = 0.25


@pytree
@dataclass(frozen=True)
class Groups:
    """All agents, in groups that are stacked each on its own."""

    groups: tuple[Agent, ...]
    members: tuple[Any, ...]
    """The numbers of the agents of every group."""
    places: Any
    """Where each agent stands in the groups one after the other."""


def each(agents: Agent | Groups, function: Callable[..., Any], *arrays: Any) -> Any:
    """function(agent, entry, ...) of every agent, with arrays whose first axis is the agents'."""
    if isinstance(agents, Agent):
        return jax.vmap(function)(agents, *arrays)
    parts = [
        jax.vmap(function)(group, *(jax.tree.map(lambda a, m=members: a[m], arrays)))
        for group, members in zip(agents.groups, agents.members, strict=True)
    ]
    return jax.tree.map(lambda *part: jnp.concatenate(part)[agents.places], *parts)


def grouped(agents: Agent) -> Agent | Groups:
    """The agents in groups, or as they are where one group serves all."""
    if agents.quadratic is not None:  # which needs no rows
        return agents
    counts = np.asarray(agents.num_rows)
    order = np.argsort(-counts, kind="stable")
    starts = _starts(counts[order])
    if len(starts) == 1:
        return agents
    members = np.split(order, starts[1:])
    return Groups(
        groups=tuple(_cut(agents, group, rounded(int(counts[group[0]]))) for group in members),
        members=tuple(jnp.asarray(group, jnp.int32) for group in members),
        places=jnp.asarray(np.argsort(order), jnp.int32),
    )


def _starts(counts: np.ndarray) -> list[int]:
    """The first agent of every group, eq. (1), from counts in descending order."""
    starts, rows = [0], counts.sum()
    for i, count in enumerate(counts):
        longest = counts[starts[-1]]
        saved = (len(counts) - i) * (longest - count)
        if 2 * count <= longest and saved >= WORTH * rows:  # (1)
            starts.append(i)
    return starts


def _cut(agents: Agent, members: np.ndarray, length: int) -> Agent:
    """Some of the agents, without the padding that they do not need."""
    some = jax.tree.map(lambda array: array[members], agents)
    rows, weights = jax.tree.map(lambda a: a[:, :length], (some.rows, some.row_weights))
    return replace(some, rows=rows, row_weights=weights)
