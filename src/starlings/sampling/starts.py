"""Where chains start: the positions of round 0, given by the user or drawn from N(0, I)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from starlings.problem import Problem
from starlings.random.addresses import Round, chain_keys, shared_uniforms
from starlings.samplers import Sampler

STARTS_WITHOUT = (1.0, 0.3, 1.0, 3.0)
"""Standard deviations of the points at which the search for the mode begins where sites have left,
in unconstrained coordinates; the next one is tried where it gets stuck."""


def start_positions(
    problem: Problem, sampler: Sampler, initial: Any, chains: int, seed: int, dtype: Any
) -> jax.Array:
    """The positions of round 0 of the local agents, (chain, agent, dim), unconstrained."""
    if initial is None:
        like = jax.ShapeDtypeStruct((problem.dim,), dtype)
        return _standard_normal(like, sampler.common_start, chain_keys(seed, chains, problem.local))
    start = everywhere(problem, flat_positions(problem, initial), chains)
    if sampler.common_start and np.any(start != start[:, :1]):
        raise ValueError(f"{type(sampler).__name__} needs one `initial` for all agents of a chain.")
    return jnp.asarray(start[:, problem.local], dtype)


def flat_positions(problem: Problem, initial: Any) -> np.ndarray:
    """Named values or an array as unconstrained positions, of any leading shape.

    Where parameters are local, values of the shared ones are enough: local ones then start at 0.
    """
    if isinstance(initial, Mapping):
        return np.asarray(problem.unconstrain(_with_local(problem, initial)))
    try:
        start = np.asarray(initial, float)
    except (TypeError, ValueError):
        start = np.full(0, np.nan)
    if problem.num_local and start.shape[-1:] == (problem.num_shared,):
        start = np.concatenate([start, np.zeros((*start.shape[:-1], problem.num_local))], axis=-1)
    if start.shape[-1:] not in ((), (1,), (problem.dim,)):
        raise ValueError(
            "`initial` must be named values or an array that broadcasts to (chains, agents, dim), "
            f"with dim = {problem.dim}, got {_shape_or_type(initial)}."
        )
    if not np.all(np.isfinite(start)):
        raise ValueError("`initial` must be finite.")
    return start


def _with_local(problem: Problem, values: Mapping[str, Any]) -> dict[str, Any]:
    """Named values, with those of local parameters at 0 that are not given."""
    centre = problem.constrain(np.zeros(problem.dim)) if problem.num_local else {}
    blocks = problem.parameters.blocks
    return {**{n: v for n, v in centre.items() if blocks[n].local}, **values}


def everywhere(problem: Problem, start: np.ndarray, chains: int | None) -> np.ndarray:
    """Unconstrained positions as (chain, agent, dim); raises ValueError for another shape.

    Args:
        problem: the model, and all sites.
        start: positions of any leading shape.
        chains: the number of chains; None if it is not known yet, and any number is right.
    """
    if chains is None:
        chains = len(start) if start.ndim == 3 else 1
    shape = (chains, problem.num_agents, problem.dim)
    try:
        return np.broadcast_to(start, shape)
    except ValueError:
        raise ValueError(
            f"`initial` must be named values or an array that broadcasts to (chains, agents, dim) "
            f"= {shape}, got shape {start.shape}."
        ) from None


def check_one_start(start: np.ndarray | None, method: str) -> None:
    """Refuse starts that differ between chains or agents, for a method that has one start."""
    if start is None or start.ndim < 2 or np.all(start == start.reshape(-1, start.shape[-1])[0]):
        return
    raise ValueError(
        f"`initial` must be one point for method={method!r}, got different points for chains or "
        "agents. Give one point, or run once from each of them. Only samplers that run in rounds, "
        "such as method='dadmms', start chains and agents at points of their own."
    )


def mean_position(problem: Problem, start: np.ndarray) -> np.ndarray:
    """The mean of unconstrained positions (..., dim): where the search for the mode begins."""
    return np.broadcast_to(start, (*start.shape[:-1], problem.dim)).reshape(-1, problem.dim).mean(0)


def search_start(problem: Problem, start: np.ndarray | None, seed: int) -> np.ndarray | None:
    """Where the search for the mode begins: one point, or several (point, dim); None: by default.

    Where sites have left, it begins at points of the seed. The totals of all sites may be known at
    the points where it begins by default; those of the others at the same points would tell what
    the sites that left had there.
    """
    if start is not None:
        return mean_position(problem, start)
    if problem.absent is None or problem.has_stand_in:
        return None
    uniforms = shared_uniforms(seed, "search", len(STARTS_WITHOUT) * problem.num_shared)
    return np.multiply(STARTS_WITHOUT, ndtri(uniforms).reshape(len(STARTS_WITHOUT), -1).T).T


@functools.partial(jax.jit, static_argnums=(0, 1))
def _standard_normal(like: Any, in_common: bool, keys: Any) -> jax.Array:
    """Noise of round 0 for every agent of every chain; the same for all agents if `in_common`."""
    noise = Round.shared_noise if in_common else Round.private_noise
    draw = jax.vmap(lambda a, n: noise(Round(0, a, n), like), in_axes=(0, None))
    return jax.vmap(draw)(*keys)


def _shape_or_type(value: Any) -> str:
    """The shape of an array, or the type of anything else, in words."""
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"shape {shape}"
