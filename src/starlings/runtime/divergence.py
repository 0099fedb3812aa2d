"""What stops a run: an iterate that is no longer meaningful, and where that began.

To look at all positions takes as long as a part of a round, so a run looks where it keeps a draw,
and where a burn-in ends. In between it looks where chunks end, which depends on the clock, and then
only for what cannot pass unseen whenever it looks: positions that are not finite, which they stay,
and steps that did not converge, of which the largest residual is remembered.

By then trouble may have spread to all agents. A run that has to stop goes back to where the chunk
began, halves the stretch in which trouble first shows, and goes through the rest round by round.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.solvers.objective import tolerance

SOUND, UNCONVERGED, EXPLODED, NOT_FINITE = range(4)
REASONS = 4
NEVER = np.iinfo(np.int32).max
MOST_ROUNDS = int(NEVER) // REASONS - 1
"""So that eq. (1) of every round is below `NEVER`, and twice a round is a number of 32 bits."""
FEW_ENTRIES = 8
ONE_BY_ONE = 16
"""Rounds that are looked at singly, when halving has come so far."""


def no_trouble(shape: tuple[int, ...]) -> jax.Array:
    """For (chains, agents): see `watched`."""
    return jnp.full(shape, NEVER, jnp.int32)


def watched(trouble: jax.Array, index, positions, residual, limit) -> jax.Array:
    """The first look at which each agent's iterate was no longer meaningful, and why, as a number:

    REASONS x round + reason                                                               (1)

    `positions` are (chain, agent, dim), and everything else is (chain, agent); `residual` is the
    largest since the last look.
    """
    size = jax.lax.platform_dependent(positions, cpu=_largest_entry, default=_largest_along_axis)
    reason = jnp.where(residual > tolerance(positions.dtype), UNCONVERGED, SOUND)
    reason = jnp.where(size > limit, EXPLODED, reason)
    reason = jnp.where(jnp.isfinite(size) & jnp.isfinite(residual), reason, NOT_FINITE)
    now = jnp.where(reason == SOUND, NEVER, REASONS * index + reason)  # (1)
    return jnp.minimum(trouble, now.astype(trouble.dtype))


def _largest_along_axis(positions: jax.Array) -> jax.Array:
    return jnp.abs(positions).max(axis=-1)


def _largest_entry(positions: jax.Array) -> jax.Array:
    """The same; on a processor a maximum over a short axis would take longer than the step."""
    if positions.shape[-1] > FEW_ENTRIES:
        return _largest_along_axis(positions)
    sizes = [jnp.abs(positions[..., k]) for k in range(positions.shape[-1])]
    return functools.reduce(jnp.maximum, sizes)


class Trouble(NamedTuple):
    """What went wrong first."""

    round: int
    text: str
    """Names the round, the agent and the likely cause."""


def first_trouble(trouble: Any, names: list[str], sampler: Any) -> Trouble | None:
    """The earliest trouble of (chain, agent), if there is any."""
    first = np.asarray(trouble)
    if first.min() == NEVER:
        return None
    chain, agent = np.unravel_index(first.argmin(), first.shape)
    round, reason = divmod(int(first[chain, agent]), REASONS)
    what = {
        UNCONVERGED: "its proximal step did not converge",
        EXPLODED: "its position exploded",
        NOT_FINITE: "its position is no longer finite",
    }[reason]
    return Trouble(
        round,
        f"agent {names[agent]!r} diverged in round {round} of chain {chain}: "
        f"{what}. "
        f"{_likely_cause(sampler, reason)}",
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


def retraced(
    advanced: Callable[[Any, int], Any], trouble_of: Callable[[Any], Any], flock: Any, rounds: int
) -> Any:
    """Where trouble shows first within some rounds of a flock, as the flock then.

    `advanced(flock, rounds)` leaves the flock that it is given as it is.
    """
    while rounds > ONE_BY_ONE:
        half = rounds // 2
        middle = advanced(flock, half)
        if trouble_of(middle):
            rounds = half
        else:
            flock, rounds = middle, rounds - half
    for _ in range(rounds):
        flock = advanced(flock, 1)
        if trouble_of(flock):
            break
    return flock
