"""Draws from a potential that is tied to a point: one conditional law, which several samplers have.

With a potential f, a pull c > 0 and a vector l,

    x ~ exp(-f(x) - (c / 2) |x|^2 + l'x)                                                    (1)

With the mode m of (1), which is a proximal step, and the Hessian K of -log of (1) at m, quadratic
potentials have

    x' = m + K^-1/2 v,     v ~ N(0, I)                                                      (2)

whatever x was, and others two Metropolis steps from x, the second of which starts where the first
one ends:

    wide      candidate N(m, I / c): never stuck in a tail where f is convex                (3)
    narrow    candidate (2), which is nearly always taken near the mode                     (4)

Both leave (1) invariant, also where (1) has several modes: the search for one begins at l / c, and
not at x.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from starlings.problem import Agent, Problem
from starlings.solvers.objective import Minimum
from starlings.solvers.proximal import proximal_point

LogDensity = Callable[[jax.Array], jax.Array]
"""The logarithm of a density, up to a constant."""


def drawn_near(
    agent: Agent,
    pull: Any,
    linear: jax.Array,
    x: jax.Array,
    noise: jax.Array,
    key: jax.Array,
) -> tuple[jax.Array, Minimum]:
    """The next point from x, which leaves (1) invariant, and the mode.

    Args:
        agent: whose potential is f; `proximal.prepared` makes it faster where f is quadratic.
        pull: c.
        linear: l.
        x: the point before, of which a quadratic potential makes no use.
        noise: v, of the shape of x.
        key: for everything else that is random.
    """
    mode = proximal_point(agent, pull, linear, start=linear / pull)
    if agent.quadratic is not None:
        basis, values = agent.quadratic.basis, agent.quadratic.curvatures + pull
        return mode.point + basis @ ((basis.T @ noise) / jnp.sqrt(values)), mode  # (2)

    def log_density(z: jax.Array) -> jax.Array:
        return linear @ z - agent.potential(z) - pull * (z @ z) / 2  # (1)

    kick, *choices = jax.random.split(key, 3)
    eye = jnp.eye(x.size, dtype=x.dtype)
    wide = jax.random.normal(kick, x.shape, x.dtype)
    bend = jnp.linalg.cholesky(agent.hessian(mode.point) + pull * eye)
    tried = partial(_tried, log_density, mode.point)
    x = tried(x, jnp.sqrt(pull) * eye, wide, choices[0])  # (3)
    return tried(x, bend, noise, choices[1]), mode  # (4)


def passes_through_rows(problem: Problem) -> float:
    """Those of `drawn_near`: for the mode; for (3) and (4) a Hessian, and the potential 4 times."""
    return 1.0 if problem.is_quadratic else 6.0


def _tried(
    log_density: LogDensity,
    mode: jax.Array,
    x: jax.Array,
    root: jax.Array,
    noise: jax.Array,
    key: jax.Array,
) -> jax.Array:
    """One Metropolis step: a candidate of covariance (L L')^-1 about the mode, with the root L."""

    def log_ratio(z: jax.Array) -> jax.Array:
        away = root.T @ (z - mode)
        return log_density(z) + away @ away / 2

    candidate = mode + jax.scipy.linalg.solve_triangular(root.T, noise, lower=False)
    threshold = -jax.random.exponential(key, dtype=x.dtype)  # the logarithm of a uniform number
    is_taken = log_ratio(candidate) - log_ratio(x) > threshold  # not where it is not a number
    return jnp.where(is_taken, candidate, x)
