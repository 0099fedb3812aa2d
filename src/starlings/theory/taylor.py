"""Second-order Taylor models of potentials that are not quadratic, for the theory near a point."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.models.gaussian import flat_prior, local_quadratic
from starlings.problem import Problem
from starlings.solvers.newton import minimise
from starlings.solvers.objective import Objective, tolerance


def quadratic_model(problem: Problem, point: Any = None) -> Problem:
    """A quadratic problem itself, or the second-order Taylor model of every f_i of another.

    What is computed from a Taylor model holds near its point only.

    Args:
        problem: the model and the rows of every site.
        point: where potentials are expanded, as a flat vector of unconstrained coordinates; by
            default the mode of the posterior of all rows.
    """
    if problem.quadratic is not None:
        return problem
    with jax.enable_x64(True):
        z = posterior_mode(problem) if point is None else np.asarray(point, float)
        slopes = jax.jit(jax.vmap(lambda agent: agent.gradient(jnp.asarray(z))))(problem.agents())
        hessians = np.asarray(problem.hessians(z))
    linear = hessians @ z - np.asarray(slopes)
    shards = {
        site: {"hessian": H[None], "linear": b[None]}
        for site, H, b in zip(problem.sites, hessians, linear, strict=True)
    }
    return Problem(local_quadratic, flat_prior, {"x": (problem.dim,)}, shards, quadratic=True)


def posterior_mode(problem: Problem) -> np.ndarray:
    """The mode of the posterior of all rows, a flat vector of unconstrained coordinates."""
    with jax.enable_x64(True):
        agents = problem.agents()

        def total(z):
            return jnp.sum(jax.vmap(lambda agent: agent.potential(z))(agents))

        search = jax.jit(partial(minimise, Objective.of(total)))
        solution = search(jnp.zeros(problem.dim))
    if not solution.residual <= tolerance(float):
        raise ValueError(
            "no mode of `problem` was found by Newton's method from the origin of its "
            "unconstrained coordinates; say where it is with `point`."
        )
    return np.asarray(solution.point)
