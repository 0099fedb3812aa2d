"""Exact sums and maxima over the whole network, by messages between neighbours, before a run.

Agents are numbered, as their noise already needs. The level of an agent is its distance from agent
0 in edges (any other agent would do), learnt by a flood:

    level_0 = 0,   level_i = 1 + min_j level_j   over the neighbours j of i                 (1)

A sum climbs the levels to agent 0 by the rules of `levels`, and agent 0's total floods back as it
is, so that all agents have the same bits. Both ways take as many rounds as there are levels. This
hides nothing from neighbours: an agent with no neighbour farther from agent 0 than itself sends
shares of its own value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Network
from starlings.network.delivery import Wiring
from starlings.network.levels import sent_share, with_received

WIDTHS = (32, 512)
"""Numbers of columns to which arrays are padded, so that a sum is compiled a few times only."""


@dataclass
class Ledger:
    """A count of what all agents have sent so far."""

    rounds: int = 0
    messages: int = 0
    """Messages of all agents, one for each neighbour and round."""
    floats: int = 0
    """Numbers in those messages."""

    def add(self, rounds: int, messages: int, floats_each: int) -> None:
        """Count rounds in which `messages` of `floats_each` numbers were sent in all."""
        self.rounds += rounds
        self.messages += messages
        self.floats += messages * floats_each


@dataclass
class Gossip:
    """The levels of a connected network, and the sums that they make possible."""

    network: Network
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        if self.network.num_edges == 0 and self.network.size > 1:
            raise ValueError(
                "`network` must have edges, got none, and no sum over its agents can be formed: "
                "add edges that connect them."
            )
        self.wiring = Wiring.of(self.network, np.float64)
        self.links = int(self.network.degrees.sum())
        self.level = self._flood_levels()
        self.depth = self.network.depth
        self.parents = self._count_parents()

    def sum(self, parts: Any) -> np.ndarray:
        """The sum of `parts` (agent, ...) over the agents, as each agent knows it: (agent, ...)."""
        flat = np.asarray(parts).reshape(len(parts), -1)
        self.ledger.add(self.depth, self.links, flat.shape[1])
        total = _climb(self.wiring, self.level, self.parents, self.depth, _widened(flat))
        return self.flood(np.asarray(total)[:, : flat.shape[1]]).reshape(parts.shape)

    def max(self, values: Any) -> np.ndarray:
        """The largest of `values` (agent, k) over the agents, entry by entry, at every agent.

        The distance of two agents is at most twice the number of levels.
        """
        self.ledger.add(2 * self.depth, 2 * self.depth * self.links, values.shape[1])
        return np.asarray(_largest(self.wiring, 2 * self.depth, np.asarray(values)))

    def flood(self, values: Any) -> np.ndarray:
        """Agent 0's value at every agent."""
        flat = np.asarray(values).reshape(len(values), -1)
        self.ledger.add(self.depth, self.links, flat.shape[1])
        flooded = _descend(self.wiring, self.level, self.depth, _widened(flat))
        return np.asarray(flooded)[:, : flat.shape[1]].reshape(np.shape(values))

    def _flood_levels(self) -> jax.Array:
        """The levels, eq. (1), in N - 1 rounds: enough for any graph, whatever its diameter."""
        rounds = self.network.size - 1
        self.ledger.add(rounds, rounds * self.links, 1)
        return _levels(self.wiring, self.network.local, rounds)

    def _count_parents(self) -> jax.Array:
        """The number of each agent's parents, by one round in which all announce their levels."""
        self.ledger.add(1, self.links, 1)
        announced = np.asarray(self.level)[:, None] == np.arange(self.depth + 1)
        return _announced_below(self.wiring, self.level, announced.astype(float))


def _widened(columns: np.ndarray) -> np.ndarray:
    """The columns, with zeros up to one of `WIDTHS`, for each of which a sum is compiled once.

    A deployment of single agents would not send these zeros, so the ledger does not count them.
    """
    width = columns.shape[1]
    wanted = next((w for w in WIDTHS if w >= width), width)
    return np.pad(columns, ((0, 0), (0, wanted - width)))


@jax.jit
def _levels(wiring: Wiring, numbers: Any, rounds: Any) -> jax.Array:
    def relax(_, level):
        return jnp.minimum(level, 1 - wiring.deliver(-level).max)  # (1)

    start = jnp.where(numbers[:, None] == 0, 0.0, jnp.inf)
    return jax.lax.fori_loop(0, rounds, relax, start)[:, 0].astype(int)


@jax.jit
def _announced_below(wiring: Wiring, level: Any, announced: jax.Array) -> jax.Array:
    """The number of neighbours of each agent that announce the level below its own."""
    around = wiring.deliver(announced).sum
    return around[jnp.arange(len(level)), level - 1]


@jax.jit
def _largest(wiring: Wiring, rounds: Any, values: jax.Array) -> jax.Array:
    def receive(_, values):
        return jnp.maximum(values, wiring.deliver(values).max)

    return jax.lax.fori_loop(0, rounds, receive, values)


@jax.jit
def _climb(wiring: Wiring, level: Any, parents: Any, depth: Any, parts: jax.Array) -> jax.Array:
    level, parents = level[:, None], parents[:, None]

    def turn(step, parts):
        sending = depth - step
        sent = sent_share(parts, level, parents, sending)
        return with_received(parts, level, wiring.deliver(sent).sum, sending)

    return jax.lax.fori_loop(0, depth, turn, parts)


@jax.jit
def _descend(wiring: Wiring, level: Any, depth: Any, values: jax.Array) -> jax.Array:
    def turn(step, values):
        sent = jnp.where((level == step)[:, None], values, -jnp.inf)
        received = wiring.deliver(sent).max
        return jnp.where((level == step + 1)[:, None], received, values)

    return jax.lax.fori_loop(0, depth, turn, values)
