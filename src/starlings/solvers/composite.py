"""Proximal steps with a penalty g, which may have kinks or be infinite.

    argmin_z  phi(z) + g(z),      phi smooth, with the Hessian K                            (1)

For a quadratic phi(z) = z'Kz/2 - q'z, whose curvatures are between m > 0 and M, by accelerated
proximal gradient steps (Nesterov 2004),

    z' = prox_{g/M}(y - (K y - q) / M),      y' = z' + b (z' - z),                          (2)
    b = (sqrt M - sqrt m) / (sqrt M + sqrt m)

each of which costs a product with K and a proximal map of g, and shrinks the error by the factor
1 - sqrt(m / M): some sqrt(M / m) log(1 / eps) steps in all. Where all curvatures are equal, as in
one dimension, the first step is the solution, prox_{g/M}(q / M). In a proximal step of ADMM, m and
M are those of f_i plus the penalty 2 rho d_i of the network, so that few steps are enough.

For any other phi by proximal Newton steps: the solution of (1) with the quadratic model of phi at z
in place of phi, by (2), and then part of the way there if phi + g does not fall enough. It has the
cost of the eigenvalues of K besides, in every step, and few steps from a warm start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from starlings.problem.penalties import Penalty
from starlings.solvers.newton import searched
from starlings.solvers.objective import Direction, Minimum, Objective, tolerance

MAX_STEPS = 20_000
"""Steps of eq. (2) after which it gives up: enough for M / m up to some 3e5."""
ROUNDINGS = 16
"""The change of a step, in units of the rounding errors of K y - q, below which it has settled."""
LEAST_CURVATURE = 1e-3
"""The least curvature of a model of phi, as a part of the largest: others are raised to it."""


class _Steps(NamedTuple):
    """The state of the steps of eq. (2)."""

    point: Any
    """z."""
    ahead: Any
    """y."""
    slope: Any
    """The size of M (y - z'), 0 at the solution."""
    count: Any
    is_settled: Any


def quadratic_minimum(
    matrix: Float[Array, "dim dim"],
    linear: Float[Array, " dim"],
    curvatures: tuple[Any, Any],
    penalty: Penalty,
    start: Float[Array, " dim"],
) -> Minimum:
    """The minimum of (1) for a quadratic phi, by eq. (2).

    Args:
        matrix: K.
        linear: q.
        curvatures: m and M.
        penalty: g.
        start: where the steps begin.
    """
    least, largest = curvatures
    roots = jnp.sqrt(jnp.maximum(least, 0.0)), jnp.sqrt(largest)
    momentum = (roots[1] - roots[0]) / (roots[1] + roots[0])

    def unfinished(state: _Steps) -> Any:
        return ~state.is_settled & (state.count < MAX_STEPS)

    def step(state: _Steps) -> _Steps:
        gradient = matrix @ state.ahead - linear
        point = penalty.prox(state.ahead - gradient / largest, 1 / largest)  # (2)
        slope = largest * jnp.linalg.norm(state.ahead - point)
        size = largest * jnp.linalg.norm(point) + jnp.linalg.norm(linear)
        limit = ROUNDINGS * jnp.finfo(point.dtype).eps * size
        ahead = point + momentum * (point - state.point)
        return _Steps(point, ahead, slope, state.count + 1, slope <= limit)

    none = jnp.zeros((), jnp.int32)
    first = _Steps(start, start, jnp.full((), jnp.inf, start.dtype), none, none > 0)
    last = jax.lax.while_loop(unfinished, step, first)
    residual = jnp.where(least > 0, last.slope / roots[0], jnp.inf)
    return Minimum(last.point, residual, last.count)


def composite_minimum(
    objective: Objective, penalty: Penalty, start: Float[Array, " dim"]
) -> Minimum:
    """The minimum of (1) for any phi, by proximal Newton steps from `start`.

    Args:
        objective: phi, with its derivatives.
        penalty: g.
        start: where the search begins, or from the nearest allowed point.
    """
    allowed = penalty.prox(start, 0.0)
    found = searched(objective, allowed, 0.0, ProximalNewton(penalty))
    return found._replace(point=penalty.prox(found.point, 0.0))  # edges without rounding


@dataclass(frozen=True)
class ProximalNewton:
    """Steps to the minimum of g and the quadratic model of phi: a rule of `newton`."""

    penalty: Penalty
    settling: int = 1

    def tolerance(self, dtype: Any) -> float:
        """The largest accepted residual."""
        return tolerance(dtype)

    def start(self, point: Float[Array, " dim"]) -> None:
        """Nothing to remember."""
        return None

    def at(self, objective: Objective, point: Float[Array, " dim"], memory: None) -> Direction:
        """The step, with curvatures of phi raised where it is not convex."""
        value, gradient, hessian = objective.derivatives(point)
        curvatures = jnp.linalg.eigvalsh(hessian)
        largest = jnp.max(jnp.abs(curvatures))
        raised = jnp.maximum(0.0, LEAST_CURVATURE * largest - curvatures[0])
        raised = jnp.where(curvatures[0] > 0, 0.0, raised)
        model = hessian + raised * jnp.eye(point.size, dtype=point.dtype)
        ends = (curvatures[0] + raised, curvatures[-1] + raised)
        found = quadratic_minimum(model, model @ point - gradient, ends, self.penalty, point)
        vector = found.point - point
        decrement = jnp.sqrt(vector @ (model @ vector))
        return Direction(value + self.penalty.value(point), vector, decrement, memory)
