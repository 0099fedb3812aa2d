"""Langevin steps that a site takes by itself between two messages to a hub.

From y, with gradients or estimates g of them, one z ~ N(0, I) for all sites and z_i ~ N(0, I) for
each site,

    y' = y - a g(y) + s z + t z_i                                                           (1)

Every step has keys of its own, folded into those of its round: what all sites share they draw from
`Round.shared_key`, everything else from `Round.batch_key`.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.problem import Agent, Problem
from starlings.solvers.gradients import gradient_with

Slope = Callable[[jax.Array, jax.Array], jax.Array]
"""From a point, and a key for a minibatch, to g of eq. (1)."""


class Scales(NamedTuple):
    """The numbers of eq. (1)."""

    step: Any
    """a."""
    shared: Any
    """s."""
    private: Any
    """t."""


class Keys(NamedTuple):
    """The keys of a round, from which all of its steps draw."""

    shared: jax.Array
    """Equal at all sites."""
    private: jax.Array


def local_steps(
    scales: Scales, slope: Slope, start: jax.Array, count: Any, keys: Keys
) -> tuple[jax.Array, jax.Array]:
    """The points before and after the last of `count` steps (1), both `start` without any."""

    def one(k: Any, points: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        y = points[1]
        batch, own = jax.random.split(jax.random.fold_in(keys.private, k))
        shared = jax.random.normal(jax.random.fold_in(keys.shared, k), y.shape, y.dtype)
        private = jax.random.normal(own, y.shape, y.dtype)
        kick = scales.shared * shared + scales.private * private
        return y, y - scales.step * slope(y, batch) + kick  # (1)

    return jax.lax.fori_loop(0, count, one, (start, start))


def steps_until(probability: Any, key: jax.Array, dtype: Any) -> jax.Array:
    """The number of steps, at least 1, until the first after which something happens.

    It happens after each step with this probability, by itself: the number is geometric.
    """
    steps = jax.random.exponential(key, dtype=dtype) / -jnp.log1p(-jnp.asarray(probability, dtype))
    return 1 + jnp.floor(steps).astype(jnp.int32)


def slope_of(agent: Agent, batch_size: int | None) -> Slope:
    """The gradient of an agent, or its estimate from minibatches."""
    return lambda y, key: gradient_with(key, agent, y, batch_size)


def rows_per_step(batch_size: int | None, problem: Problem) -> float:
    """How often a site goes through its rows in one step, on average over all sites but the hub."""
    if batch_size is None:
        return 1.0
    return batch_size * (problem.num_agents - 1) / float(problem.num_rows.sum())


def check_part(**values: Any) -> None:
    """Raise for the first value that is a plain number and not between 0 and 1."""
    for name, value in values.items():
        if isinstance(value, jax.core.Tracer):
            continue  # inside jit, where a sampler may be made too, numbers are not known
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            check_positive(**{name: value})
        if not 0 <= float(value) <= 1:
            raise ValueError(f"`{name}` must be between 0 and 1, got {value}.")


def check_probability(**values: Any) -> None:
    """Raise for the first value that is a plain number and not above 0 and at most 1."""
    check_positive(**values)
    check_part(**values)
