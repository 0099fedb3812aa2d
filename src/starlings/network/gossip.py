"""Sums over the whole network, exact and the same in every bit, by neighbours talking.

Agents are numbered, as their noise already needs. Let the level of an agent be its distance from
agent 0 (any other would do), learnt by a flood:

    level_0 = 0,   level_i = 1 + min_j level_j                                              (1)

A sum then climbs the levels: in its turn each agent sends its part to all its neighbours on the
level below it, in equal shares, so that nothing is lost or counted twice,

    part_i += sum of (part_j / number of j's parents) over neighbours j one level above     (2)

and agent 0's total floods back as it is, so that all agents hold the same bits. Both ways take as
many rounds as there are levels. This hides nothing from neighbours: an agent at the rim sends its
own value to those one level below it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Network
from starlings.network.delivery import Wiring

WIDTHS = (32, 512)


@dataclass
class Ledger:
    """What has been sent so far."""

    rounds: int = 0
    messages: int = 0
    floats: int = 0

    def add(self, rounds: int, messages: int, floats_each: int) -> None:
        """Count some rounds in which `messages` were sent in all."""
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
            raise ValueError("sums over a network need edges: these agents never hear of another.")
        self.wiring = Wiring.of(self.network, np.float64)
        self.links = int(self.network.degrees.sum())
        self.level = self._flood_levels()
        self.depth = self.network.depth
        self.parents = self._count_parents()

    def sum(self, parts: Any) -> np.ndarray:
        """The sum of parts (agent, ...) over the agents, as every agent holds it: (agent, ...)."""
        flat = np.asarray(parts).reshape(len(parts), -1)
        self.ledger.add(self.depth, self.links, flat.shape[1])
        total = _climb(self.wiring, self.level, self.parents, self.depth, _widened(flat))
        return self.flood(np.asarray(total)[:, : flat.shape[1]]).reshape(parts.shape)

    def max(self, values: Any) -> np.ndarray:
        """The largest of values (agent, k) over the agents, entry by entry, at every agent.

        No two agents are farther apart than twice the number of levels.
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
        """Eq. (1); N - 1 rounds are enough for any graph, and nobody has to know its diameter."""
        rounds = self.network.size - 1
        self.ledger.add(rounds, rounds * self.links, 1)
        return _levels(self.wiring, self.network.local, rounds)

    def _count_parents(self) -> jax.Array:
        """How many neighbours are one level nearer to agent 0: each announces its level."""
        self.ledger.add(1, self.links, 1)
        announced = np.asarray(self.level)[:, None] == np.arange(self.depth + 1)
        return _announced_below(self.wiring, self.level, announced.astype(float))


def _widened(columns: np.ndarray) -> np.ndarray:
    """Columns with zeros up to one of a few widths: each is compiled once. A deployment of single
    agents would not send those, so they are not counted."""
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
    """How many neighbours of each agent announce the level below its own."""
    around = wiring.deliver(announced).sum
    return around[jnp.arange(len(level)), level - 1]


@jax.jit
def _largest(wiring: Wiring, rounds: Any, values: jax.Array) -> jax.Array:
    def hear(_, values):
        return jnp.maximum(values, wiring.deliver(values).max)

    return jax.lax.fori_loop(0, rounds, hear, values)


@jax.jit
def _climb(wiring: Wiring, level: Any, parents: Any, depth: Any, parts: jax.Array) -> jax.Array:
    def turn(step, parts):
        sending = depth - step
        share = parts / jnp.maximum(parents, 1)[:, None]
        sent = jnp.where((level == sending)[:, None], share, 0.0)
        heard = wiring.deliver(sent).sum
        return parts + jnp.where((level == sending - 1)[:, None], heard, 0.0)  # (2)

    return jax.lax.fori_loop(0, depth, turn, parts)


@jax.jit
def _descend(wiring: Wiring, level: Any, depth: Any, values: jax.Array) -> jax.Array:
    def turn(step, values):
        sent = jnp.where((level == step)[:, None], values, -jnp.inf)
        heard = wiring.deliver(sent).max
        return jnp.where((level == step + 1)[:, None], heard, values)

    return jax.lax.fori_loop(0, depth, turn, values)
