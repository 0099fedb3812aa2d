"""The noise that all agents share, by tick: sums of it between two ticks of a clock.

Each agent of a chain has a clock of its own, and all clocks are nearly alike. An agent that goes
from tick t to tick t' and has w_{t+1} needs

    w_{t+1} + ... + w_{t'}    and    w_{t'+1}                                                (1)

where w_t is the shared noise of the round with the number t, see `addresses`. One agent by itself
draws what it needs tick by tick. Where many agents are computed at once, under `jax.vmap`, the
noise of a tick is drawn once for all of them: `WINDOW` ticks at a time, from the first one that any
agent needs to the last.
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
def noise_between(key: jax.Array, since: Any, until: Any, upcoming: jax.Array) -> Any:
    """The noise after tick `since` up to `until`, added up, and that of the next tick, eq. (1).

    Args:
        key: the key that all agents of the chain share, see `Round`.
        since: t.
        until: t', not below t.
        upcoming: w_{t+1}, (dim,).
    """

    def is_behind(found: tuple[Any, Any, Any]) -> jax.Array:
        return found[0] < until

    def next_tick(found: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        tick, total, upcoming = found
        return tick + 1, total + upcoming, _noise(key, tick + 2, upcoming)

    start = (since, jnp.zeros_like(upcoming), upcoming)
    return jax.lax.while_loop(is_behind, next_tick, start)[1:]  # (1)


@noise_between.def_vmap
def _for_agents(
    size: int, in_batched: Any, key: jax.Array, since: Any, until: Any, upcoming: jax.Array
) -> Any:
    """The rule of `jax.vmap`: agents of one chain share what they draw, other chains do not."""
    since, until, upcoming = (
        value if batched else jnp.broadcast_to(value, (size, *jnp.shape(value)))
        for value, batched in zip((since, until, upcoming), in_batched[1:], strict=True)
    )
    if not in_batched[0]:
        return _of_agents(key, since, until, upcoming), (True, True)
    single = jax.tree.map(lambda value: value[:, None], (since, until, upcoming))
    found = jax.vmap(_of_agents)(key, *single)
    return jax.tree.map(lambda value: value[:, 0], found), (True, True)


def _of_agents(key: jax.Array, since: Any, until: Any, upcoming: jax.Array) -> tuple[Any, Any]:
    """Eq. (1) for the agents of one chain, each (agent, dim), from ticks (agent,)."""
    since, until = since[:, None], until[:, None]
    is_moving = until > since

    def is_needed(found: tuple[Any, Any, Any]) -> jax.Array:
        return found[0] <= jnp.where(is_moving, until + 1, 0).max()

    def with_next_window(found: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        first, total, following = found
        ticks = first + jnp.arange(WINDOW, dtype=first.dtype)
        noise = jax.vmap(lambda tick: _noise(key, tick, upcoming[0]))(ticks)
        is_between = (since + 1 < ticks) & (ticks <= until)
        is_next = (ticks == until + 1) & is_moving
        total += is_between.astype(noise.dtype) @ noise
        following += is_next.astype(noise.dtype) @ noise
        return first + WINDOW, total, following

    total, following = jnp.where(is_moving, upcoming, 0), jnp.where(is_moving, 0, upcoming)
    start = (since.min() + 2, total, following)
    return jax.lax.while_loop(is_needed, with_next_window, start)[1:]  # (1)


def _noise(key: jax.Array, tick: Any, like: jax.Array) -> jax.Array:
    """w_t in the shape and type of `like`."""
    return Round(tick, key, key).shared_noise(like)
