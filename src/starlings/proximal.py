"""The proximal step: one agent's regularised minimum.

    argmin_z  phi(z) = f_i(z) + (c/2) |z|^2 - l'z,      c >= 0             (1)

For a quadratic f_i = z'Hz/2 - b'z with H = Q diag(h) Q' factored beforehand,

    z = Q diag(1 / (h + c)) Q' (b + l)                                     (2)

Otherwise damped Newton from a warm start: with g and K the gradient and Hessian of phi,

    z <- z - t K^-1 g,   t = 1, 1/2, 1/4, ... until phi falls enough       (3)

It stops when the Newton decrement sqrt(g'K^-1 g) is below the tolerance: a length in units of the
local potential, so the same tolerance serves every scaling of z. The last decrement is returned as
the residual; a residual above the tolerance, or one that is not finite, means that the step did not
converge, and the runtime stops the run there.

Where phi is not convex K may be indefinite. A failed Cholesky factorisation is then repeated with
K shifted by its Gershgorin bound, which keeps (3) a descent direction. Above `DENSE_DIMENSION`
parameters K is never formed: conjugate gradients use products K v, and stop at the first direction
of negative curvature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from starlings.problem import Agent

DENSE_DIMENSION = 100
MAX_ITERATIONS = 1000
"""Line-search steps included, which a start where a logistic is flat takes by the dozen."""
SUFFICIENT_DECREASE = 1e-4
TRUSTED_DECREMENT = 1e-4
"""Below it phi could fall by 5e-9 at most, which rounding may hide: steps then go unchecked."""


class ProximalResult(NamedTuple):
    """A solution of (1), and how well it was solved."""

    point: jax.Array
    residual: jax.Array
    """The Newton decrement at the last point where it was computed. 0 for the closed form, and
    infinite where there is no minimum."""
    iterations: jax.Array
    """Newton iterations, line-search steps included."""


class _Newton(NamedTuple):
    point: Any
    value: Any
    direction: Any
    decrement: Any
    scale: Any
    iteration: Any


def tolerance(dtype: Any) -> float:
    """The largest accepted residual: the square root of the type's precision."""
    return float(jnp.finfo(dtype).eps) ** 0.5


def proximal_point(
    agent: Agent, curvature: jax.Array, linear: jax.Array, start: jax.Array
) -> ProximalResult:
    """Solve (1) for one agent: in closed form where f_i is quadratic, else by Newton's method."""
    if agent.quadratic is not None:
        q = agent.quadratic
        point = q.basis @ ((q.basis.T @ (q.linear + linear)) / (q.curvatures + curvature))  # (2)
        is_minimum = jnp.min(q.curvatures) + curvature > 0  # else (1) has none
        residual = jnp.where(is_minimum, 0.0, jnp.inf).astype(point.dtype)
        return ProximalResult(point, residual, jnp.zeros((), jnp.int32))

    def objective(z):
        return agent.potential(z) + 0.5 * curvature * (z @ z) - linear @ z  # (1)

    size = jnp.abs(agent.potential(start)) + jnp.abs(linear @ start) + curvature * (start @ start)
    return minimise(objective, start, rounding=jnp.finfo(start.dtype).eps * size)


def minimise(objective, start: jax.Array, rounding: jax.Array) -> ProximalResult:
    """Damped Newton, eq. (3), on a smooth function whose values carry an error of `rounding`."""
    find_direction = _dense_direction if start.size <= DENSE_DIMENSION else _free_direction
    limit = tolerance(start.dtype)
    slack = 10 * rounding

    def search_from(point, value, iteration):
        direction, decrement = find_direction(objective, point)
        return _Newton(point, value, direction, decrement, jnp.ones_like(value), iteration)

    def unfinished(state):
        return (state.decrement > limit) & (state.iteration < MAX_ITERATIONS)

    def iterate(state):
        trial = state.point + state.scale * state.direction  # (3)
        value = objective(trial)
        wanted = SUFFICIENT_DECREASE * state.scale * state.decrement**2
        falls = value <= state.value - wanted + slack
        accept = falls | ((state.decrement < TRUSTED_DECREMENT) & jnp.isfinite(value))
        shorter = state._replace(scale=state.scale / 2, iteration=state.iteration + 1)
        return jax.lax.cond(
            accept,
            lambda: search_from(trial, value, state.iteration + 1),
            lambda: shorter,
        )

    first = search_from(start, objective(start), jnp.zeros((), jnp.int32))
    last = jax.lax.while_loop(unfinished, iterate, first)
    return ProximalResult(last.point + last.direction, last.decrement, last.iteration)


def _dense_direction(objective, point):
    """-K^-1 g and the decrement, from a Cholesky factor of K."""
    gradient = jax.grad(objective)(point)
    hessian = jax.hessian(objective)(point)
    factor = jnp.linalg.cholesky(hessian)
    shifted = jnp.linalg.cholesky(hessian + _gershgorin_shift(hessian) * jnp.eye(point.size))
    factor = jnp.where(jnp.all(jnp.isfinite(factor)), factor, shifted)
    half = jax.scipy.linalg.solve_triangular(factor, gradient, lower=True)
    direction = -jax.scipy.linalg.solve_triangular(factor.T, half, lower=False)
    return direction, jnp.sqrt(half @ half)


def _gershgorin_shift(matrix):
    """A multiple of the identity that makes a symmetric matrix positive definite."""
    diagonal = jnp.diagonal(matrix)
    radius = jnp.sum(jnp.abs(matrix), axis=1) - jnp.abs(diagonal)
    scale = jnp.max(jnp.abs(matrix))
    return jnp.maximum(0.0, -jnp.min(diagonal - radius)) + 1e-3 * scale


class _ConjugateGradients(NamedTuple):
    solution: Any
    residual: Any
    search: Any
    iteration: Any
    stopped: Any


def _free_direction(objective, point):
    """-K^-1 g by conjugate gradients on products K v, cut short at negative curvature."""
    gradient = jax.grad(objective)(point)
    size = jnp.sqrt(gradient @ gradient)
    wanted = jnp.minimum(0.1, jnp.sqrt(size)) * size  # superlinear: solve finer near the optimum

    def product(vector):
        return jax.jvp(jax.grad(objective), (point,), (vector,))[1]

    def unfinished(state):
        left = jnp.sqrt(state.residual @ state.residual)
        return (left > wanted) & (state.iteration < 2 * point.size) & ~state.stopped

    def iterate(state):
        image = product(state.search)
        bend = state.search @ image
        negative = bend <= 0
        squared = state.residual @ state.residual
        length = jnp.where(negative, 0.0, squared / jnp.where(negative, 1.0, bend))
        residual = state.residual - length * image
        ratio = (residual @ residual) / squared
        solution = state.solution + length * state.search
        fallback = jnp.where(state.iteration == 0, state.search, state.solution)
        return _ConjugateGradients(
            jnp.where(negative, fallback, solution),
            residual,
            residual + ratio * state.search,
            state.iteration + 1,
            negative,
        )

    downhill = -gradient
    first = _ConjugateGradients(
        jnp.zeros_like(point), downhill, downhill, jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    )
    direction = jax.lax.while_loop(unfinished, iterate, first).solution
    return direction, jnp.sqrt(jnp.maximum(0.0, -(gradient @ direction)))
