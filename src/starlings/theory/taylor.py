"""Second-order Taylor models of potentials that are not quadratic, for the theory near a point."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import TuningError
from starlings.models.gaussian import flat_prior, local_quadratic
from starlings.problem import Problem
from starlings.solvers.pooled.mode import local_mode

MODE_TOLERANCE = 1e-12
"""Nats by which the negative log-density may be above its least value at the default point of a
Taylor model, which is then about a millionth of a posterior standard deviation from the mode."""


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
    try:
        return local_mode(problem, MODE_TOLERANCE).point
    except TuningError as error:
        raise ValueError(
            "no mode of `problem` was found, at which its second-order model would be taken; say "
            "with `point` where to take it."
        ) from error
