"""A site's own parameters given the shared ones, by Laplace's approximation: no messages.

With f the potential of one agent, a function of the shared x and the local u, and

    m(x) = argmin_u f(x, u),     K(x) = the Hessian of f in u at m(x)                       (1)

the local parameters are, given x, roughly N(m(x), K(x)^-1), and without them the agent has roughly
the potential

    g(x) = f(x, m(x)) + log det K(x) / 2                                                    (2)

These sum over the agents to the marginal posterior of x, of which the mode and the curvature can
then be found by sums of shared quantities only. Near x0 the minimum moves by

    m(x) = m(x0) + B (x - x0),     B = -K^-1 (d^2 f / du dx)                                (3)

to first order. With (3) in (2), the gradient of g at x0 is exact, and so is its Hessian but for the
second derivative of m in the determinant: the first term does not depend on it to second order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from starlings.problem.agent import Agent
from starlings.problem.likelihood import Derivatives, derivatives_of
from starlings.pytrees import pytree
from starlings.solvers.newton import minimise
from starlings.solvers.objective import Objective


class Conditional(NamedTuple):
    """The local parameters of one agent given x, near x0: eqs. (1) and (3)."""

    mode: Any
    """m(x0), (local,)."""
    slope: Any
    """B, (local, shared)."""
    root: Any
    """S with S S' = K^-1, (local, local)."""


@pytree
@dataclass(frozen=True)
class Marginal:
    """The potential (2) of one agent, or of a stack of them, as the search for a mode uses it."""

    agent: Agent
    quadratic: ClassVar[None] = None

    def potential(self, x: jax.Array) -> jax.Array:
        """g(x)."""
        origin = jnp.zeros(self.agent.num_local, x.dtype)
        return self._integrated(x, _conditional_mode(self.agent, x, origin))

    def gradient(self, x: jax.Array) -> jax.Array:
        """The gradient of g, (shared,)."""
        return self.derivatives(x)[1]

    def hessian(self, x: jax.Array) -> jax.Array:
        """The matrix of second derivatives of g, (shared, shared)."""
        return self.derivatives(x)[2]

    def derivatives(self, x: jax.Array) -> Derivatives:
        """g, its gradient and its Hessian at x, after one search for the minimum (1)."""
        near = conditional(self.agent, x, jnp.zeros(self.agent.num_local, x.dtype))

        def moving(other: jax.Array) -> jax.Array:
            return self._integrated(other, near.mode + near.slope @ (other - x))  # (3)

        return derivatives_of(moving, x)

    def _integrated(self, x: jax.Array, mode: jax.Array) -> jax.Array:
        """(2) for a given minimum."""
        of_local = partial(_potential, self.agent, x)
        factor = jnp.linalg.cholesky(jax.hessian(of_local)(mode))
        return of_local(mode) + jnp.sum(jnp.log(jnp.diag(factor)))  # (2)


def conditional(agent: Agent, x: Any, start: Any) -> Conditional:
    """What one agent knows of its local parameters at x, from a search that begins at `start`.

    What cannot be found, as where there is no minimum, is NaN.
    """
    mode, count = _conditional_mode(agent, x, start), x.size
    hessian = agent.hessian(jnp.concatenate([x, mode]))
    factor = jnp.linalg.cholesky(hessian[count:, count:])
    solve = partial(jax.scipy.linalg.solve_triangular, factor, lower=True)
    slope = -solve(solve(hessian[count:, :count]), trans="T")  # (3)
    return Conditional(mode, slope, solve(jnp.eye(mode.size, dtype=mode.dtype), trans="T"))


def _conditional_mode(agent: Agent, x: jax.Array, start: jax.Array) -> jax.Array:
    """The minimum (1)."""
    return minimise(Objective.of(partial(_potential, agent, x)), start).point


def _potential(agent: Agent, x: jax.Array, u: jax.Array) -> jax.Array:
    return agent.potential(jnp.concatenate([x, u]))
