"""NUTS by BlackJAX, on pooled rows or on the rows of one site: the reference of comparisons.

Every agent's potential is sampled by itself: agents exchange no messages. Step size and metric are
adapted by Stan's windows. All agents and chains run in one compiled program, in step with the
longest trajectory among them. The keys of an agent depend on its number, and on no other agent.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem import Problem
from starlings.problem.agent import Agent
from starlings.solvers.pooled.laplace_mode import laplace_mode
from starlings.solvers.pooled.mode import local_mode


def pooled_nuts(problem: Problem, draws: int, chains: int, seed: int) -> dict[str, np.ndarray]:
    """Draws from the posterior of all rows, pooled at one site, by parameter name.

    One draw per first index, the chains one after another: what `Result.check` takes as reference.
    Chains start at the mode: far from it the first steps of NUTS may fail. Where parameters are
    local, there is an array (site, ...) of each, and the mode is that of the shared ones.
    """
    pooled = problem.pooled()
    with jax.enable_x64(True):
        start = laplace_mode(problem) if problem.num_local else local_mode(pooled).point
        z = nuts(pooled.agents(), pooled.dim, draws, chains, seed, start=start)
    return pooled.saved_values(z.reshape(-1, pooled.dim))


def nuts(
    agents: Agent,
    dim: int,
    draws: int,
    chains: int = 4,
    seed: int = 0,
    *,
    warmup: int = 500,
    dense: bool = False,
    start: np.ndarray | None = None,
) -> jax.Array:
    """Draws of z from exp(-f_i) of every agent: (agent, chain, draw, dim).

    Args:
        agents: the agents, stacked, as `Problem.agents` gives them.
        dim: the dimension of z.
        draws: draws kept of each chain, after the warm-up.
        chains: chains of each agent.
        seed: the same seed gives the same draws.
        warmup: steps in which step size and metric are adapted.
        dense: adapt a whole covariance matrix rather than its diagonal.
        start: where the chains start, (dim,), or (agent, dim) for each agent by itself; by default
            at z = 0.
    """
    size = (len(agents.num_rows), dim)
    starts = jnp.broadcast_to(jnp.zeros(dim) if start is None else jnp.asarray(start), size)
    keys = _keys(jax.random.key(seed), agents.index, chains)
    return _all_chains(agents, keys, starts, draws, warmup, dense)


@partial(jax.jit, static_argnames="chains")
def _keys(root: jax.Array, numbers: jax.Array, chains: int) -> jax.Array:
    """The keys of all chains of the agents with these numbers, (agent, chain)."""
    return jax.vmap(lambda number: jax.random.split(jax.random.fold_in(root, number), chains))(
        numbers
    )


@partial(jax.jit, static_argnames=("draws", "warmup", "dense"))
def _all_chains(agents, keys, starts, draws, warmup, dense):
    chain = partial(_one_chain, draws=draws, warmup=warmup, dense=dense)
    return jax.vmap(jax.vmap(chain, in_axes=(None, 0, None)))(agents, keys, starts)


def _one_chain(
    agent: Agent, key: jax.Array, start: jax.Array, draws: int, warmup: int, dense: bool
) -> jax.Array:
    import blackjax

    def log_density(z):
        return -agent.potential(z)

    warmup_key, draw_key = jax.random.split(key)
    windows = blackjax.window_adaptation(
        blackjax.nuts, log_density, is_mass_matrix_diagonal=not dense
    )
    (state, tuned), _ = windows.run(warmup_key, start, num_steps=warmup)
    kernel = blackjax.nuts(log_density, **tuned)

    def step(state, key):
        state, _ = kernel.step(key, state)
        return state, state.position

    return jax.lax.scan(step, state, jax.random.split(draw_key, draws))[1]
