"""The mode of shared parameters with the local ones integrated out, where all rows are here."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np

from starlings.problem import Problem
from starlings.problem.local import Joint
from starlings.solvers.laplace import Marginal, conditional
from starlings.solvers.pooled.mode import default_starts, find_mode
from starlings.solvers.pooled.potential import LocalPotential


def laplace_mode(problem: Problem) -> np.ndarray:
    """The flat vector of `problem.pooled()` at the mode of the shared parameters.

    Local parameters are at their modes there. The joint mode of both may not exist, as in a
    hierarchical model where local parameters and their standard deviation vanish together.
    """
    with jax.enable_x64(True):
        agents = problem.agents()
        potential = LocalPotential(Marginal(replace(agents, quadratic=None)))
        x = find_mode(potential, default_starts(problem.num_shared), problem.point_as_text).point
        origin = np.zeros(problem.num_local)
        own = jax.jit(jax.vmap(lambda agent: conditional(agent, x, origin).mode))(agents)
    return Joint(problem.parameters, len(problem.shards)).flat(x, np.asarray(own))
