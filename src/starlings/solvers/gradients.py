"""Gradients of f_i: over all rows, or an unbiased estimate from a minibatch.

With B rows r_1..r_B drawn uniformly with replacement from the n_i rows of agent i,

    g_i(z) = - (n_i / B) sum_b grad log p(r_b | z) - (1/N) grad log p(z)   (1)
"""

from __future__ import annotations

from collections.abc import Callable

import jax
from jaxtyping import Array, Float

from starlings.problem.agent import Agent
from starlings.random.addresses import Round


def gradient(
    agent: Agent, z: Float[Array, " dim"], round: Round, batch_size: int | None
) -> Float[Array, " dim"]:
    """The full gradient at z, or its estimate (1) from `batch_size` rows, if that is given."""
    return gradient_with(round.batch_key(), agent, z, batch_size)


def gradient_with(
    key: jax.Array, agent: Agent, z: Float[Array, " dim"], batch_size: int | None
) -> Float[Array, " dim"]:
    """`gradient` with a key of its own, for those who need several in one round."""
    if batch_size is None:
        return agent.gradient(z)
    return batch_gradient(agent, batch_size, key)(z)


def batch_gradient(
    agent: Agent, batch_size: int, key: jax.Array
) -> Callable[[Float[Array, " dim"]], Float[Array, " dim"]]:
    """The estimate (1) from rows that are drawn now, at any number of points."""
    batch = jax.random.randint(key, (batch_size,), 0, agent.num_rows)
    return lambda z: jax.grad(agent.batch_potential)(z, batch)  # (1)
