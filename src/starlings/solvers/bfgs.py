"""Steps without a Hessian, where its size is roughly known beforehand (BFGS).

A Hessian by automatic differentiation costs some 2 d gradients in d dimensions. If the Hessian K of
phi is near c I, its inverse is better learnt from the changes y = g' - g of the gradient over the
steps p = z' - z of the search itself:

    B <- (I - p y'/p'y) B (I - y p'/p'y) + p p'/p'y,     B = I / c at first                  (1)

and steps are -B g. The last steps divide the error by tens instead of squaring it, and so a search
ends after `SECANT_SETTLING` steps below a finer tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from starlings.solvers._products import product
from starlings.solvers.objective import Direction, Objective, tolerance

SECANT_SETTLING = 3
"""Steps in a row below the tolerance after which a search by (1) ends."""


class SecantMemory(NamedTuple):
    """What is known of the inverse Hessian, and where it was learnt last."""

    inverse: Any
    """B of eq. (1)."""
    point: Any
    """The point before."""
    gradient: Any
    """The gradient there."""


@dataclass(frozen=True)
class Secants:
    """Steps -B g, with B of eq. (1)."""

    curvature: Any
    """c, a number near the eigenvalues of K."""
    settling: int = SECANT_SETTLING

    def tolerance(self, dtype: Any) -> float:
        """Finer than for Newton's steps, which square the error."""
        return tolerance(dtype) ** 1.5

    def start(self, point: Float[Array, " dim"]) -> SecantMemory:
        """B = I / c, and a gradient of zero."""
        inverse = jnp.eye(point.size, dtype=point.dtype) / self.curvature
        return SecantMemory(inverse, point, jnp.zeros_like(point))

    def at(
        self, objective: Objective, point: Float[Array, " dim"], memory: SecantMemory
    ) -> Direction:
        """-B g, its decrement, and the B that was used."""
        value, gradient = jax.value_and_grad(objective.value)(point)
        inverse = _updated(memory.inverse, point - memory.point, gradient - memory.gradient)
        vector = -product(inverse, gradient)
        decrement = jnp.sqrt(jnp.maximum(0.0, -(gradient @ vector)))
        return Direction(value, vector, decrement, SecantMemory(inverse, point, gradient))


def _updated(inverse, step, change):
    """B of eq. (1); unchanged if phi is not convex along the step, or curved within rounding."""
    curved = step @ change  # p'y
    is_informative = curved > jnp.finfo(step.dtype).eps
    step = step / jnp.where(is_informative, curved, 1.0)
    image = product(inverse, change)
    outer = step[:, None] * image
    both = (curved + change @ image) * step[:, None] * step
    return jnp.where(is_informative, inverse - outer - outer.T + both, inverse)  # (1)
