"""The agents of a problem stacked into arrays, and their quadratic potentials."""

from __future__ import annotations

import jax
import numpy as np

from starlings.network import Network
from starlings.network.graph_arrays import shares_by_degree
from starlings.problem.agent import Agent
from starlings.problem.fields import ProblemFields
from starlings.problem.quadratic import Quadratic
from starlings.problem.shards import stacked

QUADRATIC_TOLERANCE = 1e-8
"""Largest difference, relative or absolute, between a potential and its quadratic model at another
point than that of the model, above which the potential is not quadratic."""


def stacked_agents(
    problem: ProblemFields, network: Network | None, quadratic: Quadratic | None
) -> Agent:
    """The agents whose rows are here, stacked along a first axis, as NumPy arrays.

    Args:
        problem: the model and the rows.
        network: in the order of the problem's sites; None for agents without neighbours.
        quadratic: the quadratic potentials of these agents; None if they are not quadratic.
    """
    rows, row_weights = stacked(list(problem.shards.values()))
    local = problem.local
    degrees = network.degrees if network is not None else np.zeros(problem.num_agents)
    ones = np.ones(len(local))
    return Agent(
        rows=rows,
        row_weights=row_weights,
        num_rows=problem.num_rows,
        prior_share=problem.prior_shares,
        quadratic=quadratic,
        degree=degrees[local].astype(float),
        total_degree=ones * degrees.sum(),
        share=shares_by_degree(degrees)[local],
        num_agents=ones * problem.num_agents,
        index=local,
        frame=None if problem.frame is None else problem.frame.stacked(),
        log_likelihoods=problem.log_likelihoods,
        log_prior=problem.log_prior,
        log_local_prior=problem.log_local_prior,
        num_local=problem.num_local,
    )


def computed_quadratic(problem: ProblemFields) -> Quadratic:
    """The quadratic potentials of a problem, from derivatives at z = 0 and checked elsewhere."""
    with jax.enable_x64(True):
        elsewhere = np.random.default_rng(0).normal(size=problem.dim)
        agents = stacked_agents(problem, None, None)
        found = _derivatives(agents, np.zeros(problem.dim), elsewhere)
    hessian, gradient, values, values_elsewhere = map(np.asarray, found)
    quadratic = Quadratic.factored(hessian, -gradient, values)
    if not np.allclose(
        quadratic.values(elsewhere),
        values_elsewhere,
        rtol=QUADRATIC_TOLERANCE,
        atol=QUADRATIC_TOLERANCE,
    ):
        raise ValueError(
            "`quadratic=True`, but the potentials are not quadratic in the unconstrained "
            "parameters z; leave `quadratic` out."
        )
    return quadratic


@jax.jit
def _derivatives(agents: Agent, z: jax.Array, elsewhere: jax.Array) -> tuple[jax.Array, ...]:
    """Hessian, gradient and value of every potential at z, and its value at another point."""
    return jax.vmap(
        lambda agent: (
            agent.hessian(z),
            agent.gradient(z),
            agent.potential(z),
            agent.potential(elsewhere),
        )
    )(agents)
