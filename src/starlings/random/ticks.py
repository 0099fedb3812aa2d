"""The noise that all agents share, by tick: sums of it between two ticks of a clock.

Each agent of a chain has a clock of its own, and all clocks are nearly alike. An agent that goes
from tick t to tick t' needs

    w_{t+1} + ... + w_{t'}    and    w_{t'+1}                                                (1)

where w_t is the shared noise of the round with the number t, see `addresses`. Where many agents are
computed at once, as under `jax.vmap`, the noise of a tick is drawn once for all of them: `WINDOW`
ticks at a time, from the first one that any agent needs to the last.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from starlings.random.addresses import Round

WINDOW = 4
"""Ticks whose noise is drawn at once."""


@custom_vmap
def noise_between(key: jax.Array, since: Any, until: Any, like: jax.Array) -> Any:
    """The noise after tick `since` up to `until`, added up, and that of the next tick, eq. (1).

    Args:
        key: the key that all agents of the chain share, see `Round`.
        since: t.
        until: t', not below t.
        like: an array of the wanted shape (dim,) and type.
    """
    total, upcoming = _of_agents(key, since[None], until[None], like)
    return total[0], upcoming[0]


@noise_between.def_vmap
def _for_agents(
    size: int, in_batched: Any, key: jax.Array, since: Any, until: Any, like: jax.Array
) -> Any:
    """The rule of `jax.vmap`: agents of one chain share what they draw, other chains do not."""
    since, until, like = (
        value if batched else jnp.broadcast_to(value, (size, *jnp.shape(value)))
        for value, batched in zip((since, until, like), in_batched[1:], strict=True)
    )
    if in_batched[0]:
        one = jax.vmap(lambda key, t, u, like: _of_agents(key, t[None], u[None], like))
        total, upcoming = (found[:, 0] for found in one(key, since, until, like))
    else:
        total, upcoming = _of_agents(key, since, until, like[0])
    return (total, upcoming), (True, True)


def _of_agents(key: jax.Array, since: Any, until: Any, like: jax.Array) -> tuple[Any, Any]:
    """Eq. (1) for the agents of one chain, each (agent, dim), from ticks (agent,)."""
    since, until = since[:, None], until[:, None]

    def is_needed(found: tuple[Any, Any, Any]) -> jax.Array:
        return found[0] <= until.max() + 1

    def with_next_window(found: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        first, total, upcoming = found
        ticks = first + jnp.arange(WINDOW, dtype=first.dtype)
        noise = jax.vmap(lambda tick: Round(tick, key, key).shared_noise(like))(ticks)
        is_between = (since < ticks) & (ticks <= until)
        is_next = ticks == until + 1
        total += is_between.astype(like.dtype) @ noise
        upcoming += is_next.astype(like.dtype) @ noise
        return first + WINDOW, total, upcoming

    nothing = jnp.zeros((len(since), *like.shape), like.dtype)
    start = (since.min() + 1, nothing, nothing)
    return jax.lax.while_loop(is_needed, with_next_window, start)[1:]  # (1)
