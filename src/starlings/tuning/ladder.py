"""The ladder of exactness: which sampler a tuned run uses, from cheapest to exact.

    rung             per round and neighbour   bias on a Gaussian posterior
    coherent         d floats                  eta/4 of the sd
    half-noise       d floats                  eta^2/8 of the sd (the default)
    curvature        d floats                  none
    midpoint         2 d floats                none, in half the rounds
    metropolis       1 float                   none, nor on any other posterior; a sum over the
                                               network for each candidate
    metropolis-vote  1 float                   the same; a vote by flood, half the rounds for each
                                               candidate and more of them refused

"auto" is half-noise where the proximal steps can be long enough (an eta of `SMALLEST_STEP`, some
twenty rounds for a draw, or where less is wanted most of that), and Metropolis where the potentials
are too far from convex for it.

What an ADMM rung gives on the Gaussian approximation is known before it runs, from the exact law
on N agents that carry d_i / sum_j d_j of the curvature one each: `prediction`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np

from starlings.agent import Agent
from starlings.gossip import Gossip
from starlings.models import gaussian
from starlings.network import Network
from starlings.samplers import DADMMS, Metropolis, MidpointADMMS
from starlings.samplers.metropolis import change_of_energy
from starlings.theory.laws import law

ADMM_RUNGS: dict[str, Callable[[float], Any]] = {
    "coherent": lambda rho: DADMMS(rho, noise="coherent", output="iterate"),
    "half-noise": lambda rho: DADMMS(rho, noise="coherent", output="half-noise"),
    "curvature": lambda rho: DADMMS(rho, noise="coherent-curvature", output="iterate"),
    "midpoint": lambda rho: MidpointADMMS(rho),
}
METROPOLIS_RUNGS = {"metropolis": "sum", "metropolis-vote": "factorised"}
EXACTNESS = ("auto", *ADMM_RUNGS, *METROPOLIS_RUNGS)
SMALLEST_STEP, SMALLEST_SHARE = 0.1, 0.8
"""Of eta, and of what is wanted of it; the smaller of both counts."""
LENGTHS = 2.0 ** -(np.arange(1, 13) / 2)
"""Step lengths of Metropolis that are tried, 0.7 to 1/64. At 1, candidates that do not depend on
where the chain is would miss tails heavier than Gaussian."""
POINTS = 200
"""From which candidates are tried, and at which curvatures are looked at."""
STICKY = 0.1
"""A step length is judged by this quantile of the acceptances: where the chain sticks."""
LARGEST_CHECKED = 50
"""Agents whose exact law is computed one by one; two stand for more."""
SPREAD = 1.25
"""Of the points: chains stick in the tails, so these must count."""
MEANINGFUL = 1e-4
CAUTIOUS_LENGTH = 0.1
"""Where no step length leaves the points at which the chain sticks."""


def prediction(network: Network, sampler: Any) -> tuple[float, float]:
    """The worst agent's W2 from the posterior in its sd, and rounds per effective draw.

    Agents that are alike move alike on every graph, so that two stand for very many.
    """
    if network.size > LARGEST_CHECKED:
        pair = Network.path(2)
        sampler = replace(sampler, rho=sampler.rho * network.num_edges)
        return prediction(pair, sampler)
    numbered = Network(nx.convert_node_labels_to_integers(network.graph))
    shares = network.degrees / network.degrees.sum()
    exact = law(gaussian(shares[:, None, None]), numbered, sampler)
    worst = exact.stationary().worst_agent_w2(np.zeros(1), np.eye(1))
    return worst, max(float(exact.autocorrelation_rounds(i)[0]) for i in range(network.size))


def metropolis_on(gossip: Gossip, agents: Agent, decision: str) -> Metropolis:
    """Metropolis with the step length b that leaves sticky points fastest: b^2 x acceptance there.

    Candidates start from points somewhat wider than N(0, I), which all agents draw from one seed;
    what has to be summed over the network is one number for each candidate.
    """
    points, noise = shared_points(agents, 2 * POINTS).reshape(2, POINTS, -1)
    changes = _pilot_changes(agents, SPREAD * points, noise)
    parts = jnp.minimum(0.0, -changes) if decision == "factorised" else -changes
    chance = np.exp(np.minimum(0.0, np.asarray(gossip.sum(parts)[0])))
    pace = LENGTHS**2 * np.quantile(chance, STICKY, axis=1)
    length = LENGTHS[np.argmax(pace)] if pace.max() > MEANINGFUL else CAUTIOUS_LENGTH
    return Metropolis.on(gossip.network, float(length), decision)


def shared_points(agents: Agent, count: int) -> np.ndarray:
    """Standard normal points that are the same at every agent."""
    assert agents.frame is not None
    dim = agents.frame.centre.shape[1]
    return np.random.default_rng(0).standard_normal((count, dim))


@jax.jit
def _pilot_changes(agents: Agent, points: Any, noise: Any) -> jax.Array:
    """(agent, length, point): the change of every agent's energy."""

    def one(agent, length, point, kick):
        candidate = jnp.sqrt(1 - length**2) * point + length * kick
        return change_of_energy(agent, point, candidate)

    by_point = jax.vmap(one, in_axes=(None, None, 0, 0))
    by_length = jax.vmap(by_point, in_axes=(None, 0, None, None))
    return jax.vmap(by_length, in_axes=(0, None, None, None))(
        agents, jnp.asarray(LENGTHS), points, noise
    )
