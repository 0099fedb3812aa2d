"""Damped Newton from a warm start: the minimum of a smooth function phi.

With g and K the gradient and the Hessian of phi,

    z <- z - t K^-1 g,   t = 1, 1/2, 1/4, ... until phi falls enough                        (1)

It stops when the Newton decrement sqrt(g'K^-1 g) is below the tolerance: a length in units of the
root of phi, so that one tolerance serves every scaling of z. The last decrement is returned as the
residual; a residual above the tolerance, or one that is not finite, means that the search did not
converge.

Where phi is not convex K may be indefinite. A factorisation that fails is then repeated with K
shifted by its Gershgorin bound, which keeps (1) a descent direction. In other rules for the step,
`bfgs` estimates K^-1 from gradients, and `cg` uses products K v.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from starlings.solvers.bfgs import Secants
from starlings.solvers.cg import ConjugateGradients
from starlings.solvers.objective import Direction, Directions, Minimum, Objective, tolerance

ELIMINATION_DIMENSION = 6
"""Largest number of parameters at which K is factored by elimination written out."""
DENSE_HESSIAN_DIMENSION = 100
"""Largest number of parameters at which an agent's Hessian is formed."""
MAX_ITERATIONS = 1000
"""Evaluations of derivatives, shortened steps included, after which a search gives up. A start
where a logistic function is flat takes dozens of shortened steps."""
SUFFICIENT_DECREASE = 1e-4
"""The part of the fall of phi that a step promises to first order which it has to bring."""
TRUSTED_DECREMENT = 1e-4
"""The decrement below which steps are taken unchecked: phi could then fall by 5e-9 at most, which
rounding may hide."""


class _Search(NamedTuple):
    """The state of a search."""

    point: Any
    value: Any
    vector: Any
    """The whole step from the point."""
    decrement: Any
    memory: Any
    """What the rule for the steps remembers."""
    scale: Any
    """t of eq. (1)."""
    iteration: Any
    settled: Any
    """Steps in a row whose decrement was below the tolerance."""


def minimise(
    objective: Objective,
    start: Float[Array, " dim"],
    cancelling: Any = 0.0,
    curvature: Any = None,
    dense_dimension: int = DENSE_HESSIAN_DIMENSION,
) -> Minimum:
    """A local minimum of the objective, by eq. (1).

    Args:
        objective: phi, with its derivatives.
        start: where the search begins.
        cancelling: the size of terms that may cancel in the value of phi: with the value itself
            it says how much of a fall is rounding.
        curvature: a number near the eigenvalues of K, if one is known: steps are then those of
            `bfgs`, which need no Hessian.
        dense_dimension: the number of parameters above which steps are those of `cg`.
    """
    return searched(objective, start, cancelling, _rule(start.size, curvature, dense_dimension))


def _rule(dim: int, curvature: Any, dense_dimension: int) -> Directions:
    if dim > dense_dimension:
        return ConjugateGradients()
    return Newton() if curvature is None else Secants(curvature)


def searched(
    objective: Objective, start: Float[Array, " dim"], cancelling: Any, rule: Directions
) -> Minimum:
    """A local minimum by steps of a given rule; for the other arguments see `minimise`."""
    limit, none = rule.tolerance(start.dtype), jnp.zeros((), jnp.int32)

    def search_from(point, memory, iteration, settled):
        value, vector, decrement, memory = rule.at(objective, point, memory)
        settled = jnp.where(decrement > limit, 0, settled + 1)
        unit = jnp.ones_like(value)
        return _Search(point, value, vector, decrement, memory, unit, iteration, settled)

    first = search_from(start, rule.start(start), none + 1, none)
    slack = 10 * jnp.finfo(start.dtype).eps * (jnp.abs(first.value) + cancelling)

    def unfinished(state):
        hopeless = jnp.isnan(state.value + state.decrement) | (state.iteration == MAX_ITERATIONS)
        return (state.settled < rule.settling) & ~hopeless

    def iterate(state):
        following = state.point + state.scale * state.vector  # (1)
        trial = search_from(following, state.memory, state.iteration + 1, state.settled)
        wanted = SUFFICIENT_DECREASE * state.scale * state.decrement**2
        falls = trial.value <= state.value - wanted + slack
        accept = falls | ((state.decrement < TRUSTED_DECREMENT) & jnp.isfinite(trial.value))
        shorter = state._replace(scale=state.scale / 2, iteration=state.iteration + 1)
        return jax.tree.map(partial(jnp.where, accept), trial, shorter)

    last = jax.lax.while_loop(unfinished, iterate, first)
    return Minimum(last.point + last.vector, last.decrement, last.iteration)


@dataclass(frozen=True)
class Newton:
    """Steps -K^-1 g with the Hessian K itself."""

    settling: int = 1

    def tolerance(self, dtype: Any) -> float:
        """The largest accepted residual."""
        return tolerance(dtype)

    def start(self, point: Float[Array, " dim"]) -> None:
        """Nothing to remember."""
        return None

    def at(self, objective: Objective, point: Float[Array, " dim"], memory: None) -> Direction:
        """The Newton step, with K shifted where it is not positive definite."""
        value, gradient, hessian = objective.derivatives(point)
        vector, decrement = _solved(hessian, gradient)
        return Direction(value, vector, decrement, memory)


def _solved(hessian, gradient):
    """-K^-1 g and the decrement, after a shift of K if the first factorisation fails."""
    solve = eliminate if gradient.size <= ELIMINATION_DIMENSION else _factorise

    def unsolved(state):
        (_, decrement), _, is_shifted = state
        return jnp.isnan(decrement) & ~is_shifted

    def shifted(state):
        _, matrix, _ = state  # part of the state, or the compiler would shift it beforehand, always
        identity = jnp.eye(gradient.size, dtype=gradient.dtype)
        matrix = matrix + _gershgorin_shift(matrix) * identity
        return solve(matrix, gradient), matrix, jnp.ones((), bool)

    first = solve(hessian, gradient), hessian, jnp.zeros((), bool)
    return jax.lax.while_loop(unsolved, shifted, first)[0]


def _factorise(matrix, gradient):
    """-K^-1 g and the decrement by Cholesky; not numbers if K is not positive definite."""
    factor = jnp.linalg.cholesky(matrix)
    half = jax.scipy.linalg.solve_triangular(factor, gradient, lower=True)
    vector = -jax.scipy.linalg.solve_triangular(factor.T, half, lower=False)
    return vector, jnp.sqrt(half @ half)


def eliminate(
    matrix: Float[Array, "dim dim"], gradient: Float[Array, " dim"]
) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
    """-K^-1 g and the decrement for a few parameters, by elimination without a loop.

    With pivots p_j and reduced rows, g'K^-1 g = sum_j (reduced g_j)^2 / p_j. A pivot that is not
    positive makes the result not a number.
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
