"""Newton steps in many dimensions: conjugate gradients on products K v, without K itself.

A step is solved to sqrt(|g|) |g|, which is finer near the optimum and makes the search superlinear,
and cut short at the first direction of negative curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from starlings.solvers.objective import Direction, Objective, tolerance

COARSEST = 0.1
"""The largest residual of a step's equations, as a part of the gradient's length."""


class _Solution(NamedTuple):
    """The state of conjugate gradients."""

    solution: Any
    residual: Any
    search: Any
    """The direction along which the solution is corrected next."""
    iteration: Any
    is_stopped: Any
    """Whether a direction of negative curvature was met."""


@dataclass(frozen=True)
class ConjugateGradients:
    """Steps that solve K p = -g by conjugate gradients."""

    settling: int = 1

    def tolerance(self, dtype: Any) -> float:
        """Finer than for exact Newton steps, since these solve their equations less exactly."""
        return tolerance(dtype) ** 1.5

    def start(self, point: Float[Array, " dim"]) -> None:
        """Nothing to remember."""
        return None

    def at(self, objective: Objective, point: Float[Array, " dim"], memory: None) -> Direction:
        """The step and its decrement."""
        value, gradient = jax.value_and_grad(objective.value)(point)

        def times_hessian(vector):
            return jax.jvp(jax.grad(objective.value), (point,), (vector,))[1]

        vector = _solved(times_hessian, gradient)
        decrement = jnp.sqrt(jnp.maximum(0.0, -(gradient @ vector)))
        return Direction(value, vector, decrement, memory)


def _solved(times_hessian: Callable[[jax.Array], jax.Array], gradient: jax.Array) -> jax.Array:
    """-K^-1 g, as exactly as the length of g asks for."""
    size = jnp.sqrt(gradient @ gradient)
    wanted = jnp.minimum(COARSEST, jnp.sqrt(size)) * size

    def unfinished(state):
        left = jnp.sqrt(state.residual @ state.residual)
        return (left > wanted) & (state.iteration < 2 * gradient.size) & ~state.is_stopped

    def iterate(state):
        image = times_hessian(state.search)
        curvature = state.search @ image
        is_negative = curvature <= 0
        squared = state.residual @ state.residual
        length = jnp.where(is_negative, 0.0, squared / jnp.where(is_negative, 1.0, curvature))
        residual = state.residual - length * image
        ratio = (residual @ residual) / squared
        solution = state.solution + length * state.search
        fallback = jnp.where(state.iteration == 0, state.search, state.solution)
        return _Solution(
            jnp.where(is_negative, fallback, solution),
            residual,
            residual + ratio * state.search,
            state.iteration + 1,
            is_negative,
        )

    none, downhill = jnp.zeros((), jnp.int32), -gradient
    first = _Solution(jnp.zeros_like(gradient), downhill, downhill, none, jnp.zeros((), bool))
    return jax.lax.while_loop(unfinished, iterate, first).solution
