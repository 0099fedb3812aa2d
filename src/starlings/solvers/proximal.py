"""The proximal step: one agent's regularised minimum.

    argmin_z  phi(z) = f_i(z) + (c/2) |z|^2 - l'z,      c >= 0             (1)
    argmin_z  phi(z) + g(z),      with a penalty g                         (3)

For a quadratic f_i = z'Hz/2 - b'z with H = Q diag(h) Q' factored beforehand,

    z = Q diag(1 / (h + c)) Q' (b + l)                                     (2)

Otherwise it is searched for by `newton` from a warm start. In tuned coordinates (see
`problem.coordinates`) Hess f_i is roughly s_i I, with the agent's share s_i of the posterior: the
Hessian of phi is then roughly s_i + c, and is left to `bfgs` where the likelihood does not know its
own derivatives. For (3) see `composite`.

The residual of a step that did not converge is above the tolerance or not finite, and the runtime
then stops the run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from starlings.problem.agent import Agent
from starlings.problem.penalties import Penalty
from starlings.problem.quadratic import Quadratic
from starlings.solvers._products import fixed_product
from starlings.solvers.composite import composite_minimum, quadratic_minimum
from starlings.solvers.newton import DENSE_HESSIAN_DIMENSION, minimise
from starlings.solvers.objective import Minimum, Objective


def prepared(agent: Agent, curvature: Float[Array, ""]) -> Agent:
    """The agent with the matrix of (2), which is the same in all rounds with the curvature c."""
    if agent.quadratic is None:
        return agent
    shifted = agent.quadratic.shifted_by(curvature)
    return replace(agent, quadratic=replace(agent.quadratic, shifted=shifted))


def proximal_point(
    agent: Agent,
    curvature: Float[Array, ""],
    linear: Float[Array, " dim"],
    start: Float[Array, " dim"],
    dense_dimension: int = DENSE_HESSIAN_DIMENSION,
    penalty: Penalty | None = None,
) -> Minimum:
    """Solve (1), or (3), for one agent: in closed form if f_i is quadratic, else by a search.

    Args:
        agent: the agent whose potential is f_i.
        curvature: c.
        linear: l.
        start: where the search begins.
        dense_dimension: the number of parameters above which no Hessian is formed, without a
            penalty.
        penalty: g, or None for (1).
    """
    if penalty is not None:
        return _penalised(agent, curvature, linear, start, penalty)
    if agent.quadratic is not None:
        return _closed_form(agent.quadratic, curvature, linear)
    cancelling = jnp.abs(linear @ start) + curvature * (start @ start)
    learns_hessian = agent.frame is not None and not agent.has_derivatives
    expected = agent.share + curvature if learns_hessian else None
    objective = _objective(agent, curvature, linear)
    return minimise(objective, start, cancelling, expected, dense_dimension)


def _closed_form(quadratic: Quadratic, curvature: Any, linear: Float[Array, " dim"]) -> Minimum:
    """Eq. (2), with the matrix that `prepared` has computed if it was called."""
    prepared = quadratic.shifted
    inverse = quadratic.shifted_by(curvature) if prepared is None else prepared
    point = fixed_product(inverse.matrix, quadratic.linear + linear)  # (2)
    return Minimum(point, inverse.residual, jnp.zeros((), jnp.int32))


def _penalised(
    agent: Agent,
    curvature: Any,
    linear: Float[Array, " dim"],
    start: Float[Array, " dim"],
    penalty: Penalty,
) -> Minimum:
    """Eq. (3), which has no closed form for all penalties."""
    quadratic = agent.quadratic
    if quadratic is None:
        return composite_minimum(_objective(agent, curvature, linear), penalty, start)
    matrix = quadratic.hessian + curvature * jnp.eye(start.size, dtype=start.dtype)
    ends = (quadratic.curvatures[0] + curvature, quadratic.curvatures[-1] + curvature)
    return quadratic_minimum(matrix, quadratic.linear + linear, ends, penalty, start)


def _objective(agent: Agent, curvature: Any, linear: Float[Array, " dim"]) -> Objective:
    """phi of eq. (1)."""

    def value(z):
        return agent.potential(z) + 0.5 * curvature * (z @ z) - linear @ z  # (1)

    def derivatives(z):
        value, gradient, hessian = agent.derivatives(z)
        return (
            value + 0.5 * curvature * (z @ z) - linear @ z,  # (1)
            gradient + curvature * z - linear,
            hessian + curvature * jnp.eye(z.size, dtype=z.dtype),
        )

    return Objective(value, derivatives)
