"""The proximal step: one agent's regularised minimum.

    argmin_z  phi(z) = f_i(z) + (c/2) |z|^2 - l'z,      c >= 0             (1)

For a quadratic f_i = z'Hz/2 - b'z with H = Q diag(h) Q' factored beforehand,

    z = Q diag(1 / (h + c)) Q' (b + l)                                     (2)

Otherwise damped Newton from a warm start: with g and K the gradient and Hessian of phi,

    z <- z - t K^-1 g,   t = 1, 1/2, 1/4, ... until phi falls enough       (3)

It stops when the Newton decrement sqrt(g'K^-1 g) is below the tolerance: a length in units of the
local potential, so the same tolerance serves every scaling of z. The last decrement is returned as
the residual; a residual above the tolerance, or one that is not finite, means that the step did not
converge, and the runtime stops the run.

Where coordinates were chosen for it (see `frames`), Hess f_i is roughly s_i I, with the share
s_i = d_i / sum_j d_j: K is roughly known. A Hessian by automatic differentiation costs some 2 d
gradients; better learn it from the changes y = g' - g of the gradient that the steps p = z' - z
find on their way (BFGS),

    B <- (I - p y'/p'y) B (I - y p'/p'y) + p p'/p'y,     B = I / (s_i + c) at first          (4)

with B for K^-1 in (3). Its last steps shrink the error by tens, not to its square, and so there are
`SECANT_SETTLING` of them, below a finer tolerance.

Where phi is not convex K may be indefinite. A factorisation that fails is then repeated with K
shifted by its Gershgorin bound, which keeps (3) a descent direction. Above `DENSE_DIMENSION`
parameters K is never formed: conjugate gradients use products K v, and stop at the first direction
of negative curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from starlings.problem.agent import Agent
from starlings.problem.likelihood import derivatives_of
from starlings.solvers._products import fixed_product, product

SMALL_DIMENSION = 6
DENSE_DIMENSION = 100
MAX_ITERATIONS = 1000
"""Line-search steps included, which a start where a logistic is flat takes by the dozen."""
SECANT_SETTLING = 3
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
    """Evaluations of derivatives, each of which makes one step or shortens it."""


class Objective(NamedTuple):
    """A smooth function of z, and how to find all its derivatives at once."""

    value: Callable[[jax.Array], jax.Array]
    derivatives: Callable[[jax.Array], tuple[jax.Array, jax.Array, jax.Array]]
    """Value, gradient and Hessian."""

    @classmethod
    def of(cls, function: Callable[[jax.Array], jax.Array]) -> Objective:
        """With derivatives by automatic differentiation."""
        return cls(function, partial(derivatives_of, function))


class _Search(NamedTuple):
    point: Any
    value: Any
    direction: Any
    decrement: Any
    memory: Any
    scale: Any
    iteration: Any
    settled: Any
    """Steps in a row whose decrement was below the tolerance."""


class _Secants(NamedTuple):
    inverse: Any
    """B of eq. (4)."""
    point: Any
    gradient: Any


def tolerance(dtype: Any) -> float:
    """The largest accepted residual; the step that follows leaves about its square."""
    return float(jnp.finfo(dtype).eps) ** (1 / 3)


def prepared(agent: Agent, curvature: jax.Array) -> Agent:
    """The agent with the matrix of (2), the same in all rounds with the same curvature c."""
    if agent.quadratic is None:
        return agent
    shifted = agent.quadratic.shifted_by(curvature)
    return replace(agent, quadratic=replace(agent.quadratic, shifted=shifted))


def proximal_point(
    agent: Agent, curvature: jax.Array, linear: jax.Array, start: jax.Array
) -> ProximalResult:
    """Solve (1) for one agent: in closed form where f_i is quadratic, else by (3), with (4) where
    coordinates were chosen and the Hessian is not at hand."""
    if agent.quadratic is not None:
        q = agent.quadratic
        inverse = q.shifted_by(curvature) if q.shifted is None else q.shifted
        point = fixed_product(inverse.matrix, q.linear + linear)  # (2)
        return ProximalResult(point, inverse.residual, jnp.zeros((), jnp.int32))

    def value(z):
        return agent.potential(z) + 0.5 * curvature * (z @ z) - linear @ z  # (1)

    def derivatives(z):
        value, gradient, hessian = agent.derivatives(z)
        return (
            value + 0.5 * curvature * (z @ z) - linear @ z,  # (1)
            gradient + curvature * z - linear,
            hessian + curvature * jnp.eye(z.size, dtype=z.dtype),
        )

    cancelling = jnp.abs(linear @ start) + curvature * (start @ start)
    expected = None
    if agent.frame is not None and not agent.has_structure:
        expected = agent.share + curvature
    return minimise(Objective(value, derivatives), start, cancelling, expected)


def minimise(
    objective: Objective, start: jax.Array, cancelling: Any = 0.0, curvature: Any = None
) -> ProximalResult:
    """Damped Newton, eq. (3), or with eq. (4) if `curvature` is near the eigenvalues of K.

    `cancelling` is the size of terms that may cancel in the value: with the value itself it says
    how much of a fall is rounding.
    """
    look, memory, settling, limit = _dense_look, None, 1, tolerance(start.dtype)
    if start.size > DENSE_DIMENSION:
        look, limit = _free_look, limit**1.5
    elif curvature is not None:
        inverse = jnp.eye(start.size, dtype=start.dtype) / curvature
        look, memory = _secant_look, _Secants(inverse, start, jnp.zeros_like(start))
        settling, limit = SECANT_SETTLING, limit**1.5

    def search_from(point, memory, iteration, settled):
        value, direction, decrement, memory = look(objective, point, memory)
        settled = jnp.where(decrement > limit, 0, settled + 1)
        unit = jnp.ones_like(value)
        return _Search(point, value, direction, decrement, memory, unit, iteration, settled)

    none = jnp.zeros((), jnp.int32)
    first = search_from(start, memory, none + 1, none)
    slack = 10 * jnp.finfo(start.dtype).eps * (jnp.abs(first.value) + cancelling)

    def unfinished(state):
        hopeless = jnp.isnan(state.value + state.decrement) | (state.iteration == MAX_ITERATIONS)
        return (state.settled < settling) & ~hopeless

    def iterate(state):
        following = state.point + state.scale * state.direction  # (3)
        trial = search_from(following, state.memory, state.iteration + 1, state.settled)
        wanted = SUFFICIENT_DECREASE * state.scale * state.decrement**2
        falls = trial.value <= state.value - wanted + slack
        accept = falls | ((state.decrement < TRUSTED_DECREMENT) & jnp.isfinite(trial.value))
        shorter = state._replace(scale=state.scale / 2, iteration=state.iteration + 1)
        return jax.tree.map(partial(jnp.where, accept), trial, shorter)

    last = jax.lax.while_loop(unfinished, iterate, first)
    return ProximalResult(last.point + last.direction, last.decrement, last.iteration)


def _secant_look(objective: Objective, point, memory):
    """The value, -B g, its decrement and the B of eq. (4) that it took."""
    value, gradient = jax.value_and_grad(objective.value)(point)
    inverse = _with_secant(memory.inverse, point - memory.point, gradient - memory.gradient)
    direction = -product(inverse, gradient)
    decrement = jnp.sqrt(jnp.maximum(0.0, -(gradient @ direction)))
    return value, direction, decrement, _Secants(inverse, point, gradient)


def _with_secant(inverse, step, change):
    """Eq. (4); B as it was where phi is not convex along the step, or bends within rounding."""
    bend = step @ change
    tells = bend > jnp.finfo(step.dtype).eps
    step = step / jnp.where(tells, bend, 1.0)
    image = product(inverse, change)
    outer = step[:, None] * image
    both = (bend + change @ image) * step[:, None] * step
    return jnp.where(tells, inverse - outer - outer.T + both, inverse)


def _dense_look(objective: Objective, point, memory):
    """The value, -K^-1 g and the decrement; there is nothing to remember."""
    value, gradient, hessian = objective.derivatives(point)
    solve = eliminate if point.size <= SMALL_DIMENSION else _factorise

    def unsolved(state):
        (_, decrement), _, is_shifted = state
        return jnp.isnan(decrement) & ~is_shifted

    def shifted(state):
        _, matrix, _ = state  # part of the state, or the compiler would shift it beforehand, always
        matrix = matrix + _gershgorin_shift(matrix) * jnp.eye(point.size, dtype=point.dtype)
        return solve(matrix, gradient), matrix, jnp.ones((), bool)

    first = solve(hessian, gradient), hessian, jnp.zeros((), bool)
    (direction, decrement), _, _ = jax.lax.while_loop(unsolved, shifted, first)
    return value, direction, decrement, memory


def _factorise(matrix, gradient):
    """-K^-1 g and the decrement, not a number if K is not positive definite, by Cholesky."""
    factor = jnp.linalg.cholesky(matrix)
    half = jax.scipy.linalg.solve_triangular(factor, gradient, lower=True)
    direction = -jax.scipy.linalg.solve_triangular(factor.T, half, lower=False)
    return direction, jnp.sqrt(half @ half)


def eliminate(matrix, gradient):
    """The same for a few parameters, by elimination written out: one loop over all agents.

    With pivots p_j and reduced rows, g'K^-1 g = sum_j (reduced g_j)^2 / p_j. A pivot that is not
    positive leaves no number.
    """
    rows: list[jax.Array] = []
    solution: list[jax.Array] = []
    squared = jnp.zeros((), gradient.dtype)
    work = jnp.concatenate([matrix, gradient[:, None]], axis=1)
    for _ in range(gradient.size):
        pivot, rest = jnp.where(work[0, 0] > 0, work[0, 0], jnp.nan), work[0, 1:]
        rows.append(rest / pivot)
        squared += rest[-1] ** 2 / pivot
        work = work[1:, 1:] - work[1:, :1] * rows[-1]
    for row in reversed(rows):
        known = row[:-1] @ jnp.stack(solution) if solution else 0.0
        solution.insert(0, row[-1] - known)
    return -jnp.stack(solution), jnp.sqrt(squared)


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


def _free_look(objective: Objective, point, memory):
    """The same by conjugate gradients on products K v, cut short at negative curvature."""
    value, gradient = jax.value_and_grad(objective.value)(point)
    size = jnp.sqrt(gradient @ gradient)
    wanted = jnp.minimum(0.1, jnp.sqrt(size)) * size  # superlinear: solve finer near the optimum

    def bent(vector):
        return jax.jvp(jax.grad(objective.value), (point,), (vector,))[1]

    def unfinished(state):
        left = jnp.sqrt(state.residual @ state.residual)
        return (left > wanted) & (state.iteration < 2 * point.size) & ~state.stopped

    def iterate(state):
        image = bent(state.search)
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
    return value, direction, jnp.sqrt(jnp.maximum(0.0, -(gradient @ direction))), memory
