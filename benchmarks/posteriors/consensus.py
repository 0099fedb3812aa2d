"""Consensus Monte Carlo (Scott et al. 2016): one upload, and a weighted average.

Every agent draws from its own potential by itself, and a coordinator averages the draws, see
`starlings.methods.one_shot`. It needs every agent to have a posterior of its own. An agent is
refused, in coordinates where the pooled posterior has about unit covariance, if

- at the agent's own mode, found with the help of a prior of a hundred times `LARGEST_VARIANCE`, the
  curvature of some direction is below 1 / `LARGEST_VARIANCE`: there is a ridge, or no mode but for
  that prior;
- its draws are not finite, or some direction has a variance above `LARGEST_VARIANCE`;
- its chains have not found the same law. This last is no proof, and is reported as what it is.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.agent import Agent
from starlings.solvers.proximal import proximal_point

from .score import convergence

LARGEST_VARIANCE = 1e8
"""The largest variance of an agent, in units of the pooled variance.

It is far more than the information that one of some tens of agents can lack.
"""
LARGEST_R_HAT = 1.05
"""The largest R-hat of the chains of one agent."""


class ImproperError(RuntimeError):
    """An agent has no posterior of its own, so that there is nothing to average."""


def refuse_improper(agents: Agent, dim: int) -> None:
    """Refuse agents that are flat at what should be their mode."""
    for agent, curvature in enumerate(np.asarray(_least_curvatures(agents, dim))):
        if not abs(curvature) >= 1 / LARGEST_VARIANCE:
            raise ImproperError(f"improper at agent {agent} (flat in some direction at its mode)")


def refuse_unmixed(draws: np.ndarray) -> None:
    """Refuse draws (agent, chain, draw, dim) that have not converged to a law."""
    for agent, own in enumerate(draws):
        fault = _fault(own)
        if fault is not None:
            raise ImproperError(f"{fault[0]} at agent {agent} ({fault[1]})")


def _fault(draws: np.ndarray) -> tuple[str, str] | None:
    """What is wrong with the draws (chain, draw, dim) of one agent, and how it shows."""
    if not np.all(np.isfinite(draws)):
        return "improper", "its draws are not finite"
    flat = draws.reshape(-1, draws.shape[-1])
    largest = np.linalg.eigvalsh(np.atleast_2d(np.cov(flat.T)))[-1]
    if largest > LARGEST_VARIANCE:
        return "improper", f"its variance is {largest:.0e} times the pooled one"
    r_hat = convergence(draws)[1]
    if not r_hat <= LARGEST_R_HAT:
        return "not mixed", f"its chains disagree, R-hat {r_hat:.2f}"
    return None


@partial(jax.jit, static_argnames="dim")
def _least_curvatures(agents: Agent, dim: int) -> jax.Array:
    """The smallest eigenvalue of the Hessian of every agent at its mode; NaN if none was found."""
    origin, ridge = jnp.zeros(dim), 0.01 / LARGEST_VARIANCE

    def one(agent):
        mode = proximal_point(agent, ridge, linear=origin, start=origin).point
        return jnp.linalg.eigvalsh(agent.hessian(mode))[0]

    return jax.vmap(one)(agents)
