"""What stops a run: an iterate that is no longer meaningful, and the round where that began.

Checking all positions takes as long as a part of a round, so a run checks them where it records a
draw, and where the burn-in ends. In between it checks where chunks end, which depends on the clock,
and then only for what cannot be missed whenever it is checked: positions that are not finite, which
they stay, and steps that did not converge, whose largest residual is remembered.

By then the divergence may have spread to all agents. A run that has to stop goes back to where the
chunk began, finds by halving the rounds in which an agent first diverges, and goes through the last
few of them one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.runtime._layout import largest_size
from starlings.samplers import Sampler
from starlings.solvers.objective import tolerance

SOUND, UNCONVERGED, EXPLODED, NOT_FINITE = range(4)
"""What is wrong with an iterate, if anything."""
REASONS = 4
"""The number of these values."""
NEVER = np.iinfo(np.int32).max
"""The code of an agent that has not diverged; see eq. (1) of `watched`."""
MOST_ROUNDS = int(NEVER) // REASONS - 1
"""The largest number of rounds of a run: eq. (1) of every round is then below `NEVER`, and twice
a round fits in 32 bits."""
SINGLE_ROUNDS = 16
"""Rounds that are repeated one by one once halving has come so far."""


def no_divergence(shape: tuple[int, ...]) -> jax.Array:
    """The codes (chain, agent) at the start of a run; see `watched`."""
    return jnp.full(shape, NEVER, jnp.int32)


def watched(divergence: jax.Array, index, positions, residual, limit) -> jax.Array:
    """The codes (chain, agent) of when and why each agent was first found to have diverged:

    REASONS x round + reason                                                               (1)

    Args:
        divergence: the codes so far.
        index: the number of the round.
        positions: the positions (chain, agent, dim) after it.
        residual: the largest residual (chain, agent) of the proximal steps since the last check.
        limit: the absolute value of a coordinate above which an agent has diverged.
    """
    size = largest_size(positions)
    reason = jnp.where(residual > tolerance(positions.dtype), UNCONVERGED, SOUND)
    reason = jnp.where(size > limit, EXPLODED, reason)
    reason = jnp.where(jnp.isfinite(size) & jnp.isfinite(residual), reason, NOT_FINITE)
    now = jnp.where(reason == SOUND, NEVER, REASONS * index + reason)  # (1)
    return jnp.minimum(divergence, now.astype(divergence.dtype))


class Divergence(NamedTuple):
    """The first divergence of a run; of several processes, the one with the smallest round."""

    round: int
    text: str
    """The round, the agent and the likely cause, for an error message."""


def first_divergence(codes: Any, names: list[str], sampler: Sampler) -> Divergence | None:
    """The earliest divergence among the codes (chain, agent) of agents with these names."""
    codes = np.asarray(codes)
    if codes.min() == NEVER:
        return None
    chain, agent = np.unravel_index(codes.argmin(), codes.shape)
    round, reason = divmod(int(codes[chain, agent]), REASONS)
    what = {
        UNCONVERGED: "its proximal step did not converge",
        EXPLODED: "its position exploded",
        NOT_FINITE: "its position is no longer finite",
    }[reason]
    return Divergence(
        round,
        f"agent {names[agent]!r} diverged in round {round} of chain {chain}: "
        f"{what}. "
        f"{_likely_cause(sampler, reason)}",
    )


def _likely_cause(sampler: Sampler, reason: int) -> str:
    if sampler.step_field is not None:
        return (
            f"The likely cause is a step too large for this problem ({sampler}); try a tenth of "
            f"`{sampler.step_field}`, and start nearer to the posterior with `initial`."
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
    advanced: Callable[[Any, int], Any],
    divergence_of: Callable[[Any], Any],
    carry: Any,
    rounds: int,
) -> Any:
    """The carry of the loop after the round in which an agent first diverges.

    Args:
        advanced: the carry some rounds later; it leaves the one that it is given unchanged.
        divergence_of: what is wrong in a carry; something false if nothing is.
        carry: a carry in which nothing is wrong yet.
        rounds: rounds after which something is.
    """
    while rounds > SINGLE_ROUNDS:
        half = rounds // 2
        middle = advanced(carry, half)
        if divergence_of(middle):
            rounds = half
        else:
            carry, rounds = middle, rounds - half
    for _ in range(rounds):
        carry = advanced(carry, 1)
        if divergence_of(carry):
            break
    return carry
