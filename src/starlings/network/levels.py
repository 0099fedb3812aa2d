"""How a sum over the whole network is passed on to one agent, the root: the rules of one agent.

The level of an agent is its distance from the root, in edges. Its parents are its neighbours one
level nearer to the root. Levels send in turn, the farthest first. When its level sends, an agent
sends its part of the sum, in equal shares, to all its parents, so that nothing is lost or counted
twice:

    sent_j = part_j / (number of j's parents)                                               (1)
    part_i = part_i + sum of sent_j over the neighbours j one level farther than i          (2)

`Gossip` applies these rules before a run, with the root at the centre of the graph, and
`ClimbingSum` in the rounds of a sampler, with agent 0 as root.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def sent_share(part: Any, level: Any, parents: Any, sending: Any) -> jax.Array:
    """What an agent sends when the level `sending` sends, eq. (1); zero on any other level."""
    return jnp.where(level == sending, part / jnp.maximum(parents, 1), 0.0)  # (1)


def with_received(part: Any, level: Any, received: Any, sending: Any) -> jax.Array:
    """An agent's part after the level `sending` has sent, eq. (2).

    Args:
        part: the agent's part of the sum so far.
        level: the agent's level.
        received: the sum of all its neighbours' messages.
        sending: the level that has sent.
    """
    return jnp.where(level == sending - 1, part + received, part)  # (2)
