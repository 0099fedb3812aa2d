"""Each agent's share of the posterior in the tuned coordinates, and its curvature."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network.gossip import Gossip
from starlings.problem import Agent
from starlings.solvers.pooled.potential import (
    Derivatives,
    NetworkPotential,
    derivatives_at,
    hessian_of,
)

CURVATURE_POINTS = 200
"""Number of points at which the curvatures of the agents are computed."""


def shared_points(dim: int) -> np.ndarray:
    """Standard normal points, (point, dim), that are the same at every agent."""
    return np.random.default_rng(0).standard_normal((CURVATURE_POINTS, dim))


def even_shares(
    gossip: Gossip, agents: Agent, is_at_mode: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The tilts of all local agents at z = 0, eq. (2) of `starlings.problem.coordinates`.

    Every agent uses its own derivatives and the sums over the network. At the mode, in coordinates
    of unit curvature, these are known to be zero and the identity, and nothing is sent. Returns b_i
    (agent, dim) and A_i (agent, dim, dim), or (agent, dim) where Hessians are diagonal.
    """
    assert agents.frame is not None
    origin = np.zeros(agents.frame.centre.shape[1])
    own = derivatives_at(agents, origin)
    if is_at_mode:
        unit = np.ones_like(origin) if own.hessian.ndim == 2 else np.eye(len(origin))
        total = Derivatives(0.0, origin, unit)
    else:
        total = NetworkPotential(agents, gossip).total(own)
    share = np.asarray(agents.share)
    slope = own.gradient - share[:, None] * total.gradient
    shares = share.reshape(-1, *[1] * total.hessian.ndim)
    return slope, own.hessian - shares * total.hessian


def smallest_penalty(gossip: Gossip, agents: Agent, points: np.ndarray) -> float:
    """The least rho at which all proximal steps are well posed: the floor of eq. (2) of `tuner`.

    Each agent finds its own, and the largest one is broadcast.
    """
    quadratic = agents.quadratic
    curvatures = _lowest_curvature(agents, points) if quadratic is None else quadratic.curvatures
    lowest = np.asarray(curvatures).reshape(len(agents.degree), -1).min(axis=1)
    needed = np.maximum(-lowest, 0.0) / np.asarray(agents.degree)
    return float(gossip.largest(needed[:, None], "smallest penalty")[0, 0])


@jax.jit
def _lowest_curvature(agents: Agent, points: Any) -> jax.Array:
    """The lowest eigenvalue (or diagonal entry) of every agent's Hessian over all points."""

    def at_point(agent, point):
        hessian = hessian_of(agent, point)
        return hessian.min() if hessian.ndim == 1 else jnp.linalg.eigvalsh(hessian)[0]

    def of_agent(agent):
        return jax.lax.map(lambda point: at_point(agent, point), points).min()

    return jax.vmap(of_agent)(agents)
