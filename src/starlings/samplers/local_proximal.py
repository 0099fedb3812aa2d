"""D-ADMMS where agents have parameters of their own: a proximal step in both kinds.

Agent i has the shared x_i and the local u_i, and the potential f_i(x, u). With the duals p_i and
the noises n_i of `dadmms`, and private xi_i ~ N(0, I), it solves in each round

    (x_i', u_i') = argmin_{x,u} f_i(x, u) + rho d_i |x|^2 - l_i'x + |u - v_i|^2 / (2 h),   (1)
    l_i = rho (d_i x_i + sum_j x_j) - p_i - n_i,        v_i = u_i + sqrt(2 h) xi_i          (2)

where only x_i is sent. The conditions for the minimum, those of x summed over the network, are

    xbar' = xbar - h sum_i (grad_x f_i(x_i', u_i') + n_i),      h = 1 / (2 rho sum_j d_j)   (3)
    u_i'  = u_i - h grad_u f_i(x_i', u_i') + sqrt(2 h) xi_i                                 (4)

of which (3) is what D-ADMMS does without local parameters: an implicit Euler step of Langevin
dynamics, with the variance of the noise that h asks for (see `dadmms`). (4) is the same step for
u_i, with the same h and independent noise: together they are one implicit Euler step of Langevin
dynamics on the joint posterior of x and all u_i. Half-noise output takes half of the next noise,

    x_i - n_i' / (4 rho d_i)   and   u_i + sqrt(2 h) xi_i' / 2,                             (5)

whose variance is right to second order in h: for a Gaussian of curvature c, (4) alone has the
variance 2 / (c (2 + h c)), and 2 / (c (2 + h c)) + h / 2 = (1 + O(h^2 c^2)) / c.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from starlings.problem.agent import Agent
from starlings.random.addresses import Round
from starlings.solvers.newton import minimise
from starlings.solvers.objective import Minimum, Objective


class Split(NamedTuple):
    """A vector of an agent in two parts."""

    shared: Any
    """(shared,)."""
    local: Any
    """(local,)."""

    @classmethod
    def of(cls, agent: Agent, vector: Any) -> Split:
        """The parts of (x, u)."""
        count = vector.size - agent.num_local
        return cls(vector[:count], vector[count:])


def average_step(rho: Any, agent: Agent) -> Any:
    """The step h of eq. (3)."""
    return 1 / (2 * rho * agent.total_degree)  # (3)


def local_noise(rho: Any, agent: Agent, round: Round, position: Any) -> Any:
    """sqrt(2 h) xi_i of a round, (local,): the last entries of the round's private noise."""
    xi = Split.of(agent, round.private_noise(position)).local
    return jnp.sqrt(2 * average_step(rho, agent)) * xi


def local_proximal_point(
    rho: Any, agent: Agent, linear: Any, round: Round, position: Any
) -> Minimum:
    """Solve (1) for a given l_i.

    Args:
        rho: the penalty.
        agent: agent i.
        linear: l_i, (shared,).
        round: the round, which draws xi_i.
        position: (x_i, u_i), where the search begins.
    """
    h, u = average_step(rho, agent), Split.of(agent, position).local
    target = u + local_noise(rho, agent, round, position)  # (2)
    curvature = jnp.concatenate(
        [jnp.full_like(linear, 2 * rho * agent.degree), jnp.full_like(u, 1 / h)]
    )
    both = jnp.concatenate([linear, target / h])
    if agent.quadratic is not None:
        matrix = agent.quadratic.hessian + jnp.diag(curvature)
        point = jnp.linalg.solve(matrix, agent.quadratic.linear + both)
        return Minimum(point, jnp.zeros((), point.dtype), jnp.zeros((), jnp.int32))
    cancelling = jnp.abs(both @ position) + position @ (curvature * position)
    return minimise(_objective(agent, curvature, both), position, cancelling)


def _objective(agent: Agent, curvature: Any, linear: Any) -> Objective:
    """What is minimised in (1), up to a constant, for z = (x, u)."""

    def value(z: jax.Array) -> jax.Array:
        return agent.potential(z) + 0.5 * z @ (curvature * z) - linear @ z  # (1)

    def derivatives(z: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        value, gradient, hessian = agent.derivatives(z)
        return (
            value + 0.5 * z @ (curvature * z) - linear @ z,  # (1)
            gradient + curvature * z - linear,
            hessian + jnp.diag(curvature),
        )

    return Objective(value, derivatives)
