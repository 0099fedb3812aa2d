"""Stein's identities (see `stein`) of the draws of some agents, by sums over the network.

Agent 0 is always checked, and at most two more agents: those whose means and standard deviations
are farthest from the average of the agents, if they are farther than `NEAR`. Where messages are
masked, no agent shows its own draws, and the average of all agents' draws is checked.

Cost: the draws of a checked agent are sent to all agents, and the gradients there are summed on the
way back. These are two sums over the network (see `gossip`), with 4 floats over every edge in each
direction for every coordinate of every draw. Privacy: agents can read what they pass on.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.diagnostics.stein import Stein, departures
from starlings.errors import check_count
from starlings.network import Network
from starlings.network.gossip import Gossip
from starlings.problem import Agent, Problem

NEAR = 0.05
"""Distance of an agent's means and standard deviations from the average of the agents, in posterior
sd, up to which the agent is not checked by itself."""
SUMS, MASKED_SUMS = 4, 2
"""Sums over the network that a check takes: where nothing is masked, two find the agents that are
checked."""
SHOWN, DISTANCES = "draws shown to all", "distances shown to all"
"""What single agents tell all others, in the account of what leaves a site."""
GRADIENT_BATCH = 8
"""Number of draws whose gradients are computed at once."""


def check_stein_identities(
    problem: Problem, network: Network, positions: Any, most_draws: int = 1000
) -> Stein:
    """Check Stein's identities of draws, by sums over a connected network.

    Args:
        problem: the posterior, in coordinates of about unit curvature.
        network: the connected network of the agents.
        positions: draws of the local agents in those coordinates, with shape (chain, draw, agent,
            dim), or (draw, agent, dim) for one chain.
        most_draws: number of draws of an agent to use at most, over all chains, evenly spaced.
    """
    check_count(1, most_draws=most_draws)
    network = network.matched_to(problem.sites)
    draws = _thinned(_by_chain(problem, positions), most_draws)
    with jax.enable_x64(True):
        gossip = Gossip(network)
        if gossip.masks is None:
            numbers = checked_agents(gossip, draws)
            names = [network.names[i] for i in numbers]
            own, gradients = summed_gradients(gossip, problem.agents(network), numbers, draws)
        else:
            names = ["average of all"]
            own, gradients = averaged_gradients(gossip, problem.agents(network), draws)
    directions = model_directions(problem)
    pairs = [
        [departures(z @ v, G @ v) for v in directions] for z, G in zip(own, gradients, strict=True)
    ]
    found = np.moveaxis(np.array(pairs), (2, 3), (0, 1))  # (shift or stretch, number, agent, v)
    return Stein(
        names,
        problem.coordinate_names,
        int(np.prod(draws.shape[:2])),
        *found.reshape(-1, *found.shape[2:]),
        **vars(gossip.ledger),
    )


def checked_agents(gossip: Gossip, draws: np.ndarray) -> list[int]:
    """Return agent 0 and those of the two farthest from the average that are not `NEAR` it.

    The agents sum their means and standard deviations over the network, and then the vectors of
    their distances from the average.
    """
    chains_and_draws = (0, 1)
    own = np.concatenate([draws.mean(chains_and_draws), draws.std(chains_and_draws)], axis=-1)
    local, size = gossip.network.local, gossip.network.size
    average = np.asarray(gossip.sum(jnp.asarray(own), "mean and sd of draws")) / size
    distances = np.zeros((len(local), size))
    distances[np.arange(len(local)), local] = np.abs(own - average).max(axis=-1)
    announced = np.asarray(gossip.sum(jnp.asarray(distances), DISTANCES))[0]
    farthest = np.argsort(-announced)[:2]
    return sorted({0, *(int(i) for i in farthest if announced[i] > NEAR)})


def summed_gradients(
    gossip: Gossip, agents: Agent, checked: list[int], draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws (checked agent, chain, draw, dim) and the summed gradients G there.

    The draws reach all agents by a sum in which all but their owner add zeros.
    """
    chains, length, local, dim = draws.shape
    offered = np.zeros((local, len(checked), chains, length, dim))
    for index, agent in enumerate(gossip.network.local):
        if agent in checked:
            offered[index, checked.index(agent)] = draws[:, :, index]
    received = gossip.sum(jnp.asarray(offered), SHOWN)
    gossip.ledger.note(SHOWN, 0, [gossip.network.names[agent] for agent in checked])
    gradients = gossip.sum(_gradients(agents, received), "gradients at draws")
    return np.asarray(received[0]), np.asarray(gradients[0])


def averaged_gradients(
    gossip: Gossip, agents: Agent, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the average of the agents' draws (1, chain, draw, dim) and the summed gradients."""
    by_agent = np.moveaxis(draws, 2, 0)[:, None]
    average = gossip.sum(by_agent, "draws") / gossip.network.size
    gradients = gossip.sum(_gradients(agents, jnp.asarray(average)), "gradients at draws")
    return average[0], gradients[0]


@jax.jit
def _gradients(agents: Agent, points: jax.Array) -> jax.Array:
    """Return the gradient of every local agent at its points (agent, ..., dim)."""

    def one(agent, points):
        return jax.lax.map(agent.gradient, points, batch_size=GRADIENT_BATCH)

    flat = points.reshape(len(points), -1, points.shape[-1])
    return jax.vmap(one)(agents, flat).reshape(points.shape)


def model_directions(problem: Problem) -> np.ndarray:
    """Return for each coordinate of the model's flat vector the unit vector of z that raises it."""
    frame = problem.frame
    if frame is None or np.ndim(frame.scale) == 1:
        return np.eye(problem.dim)
    return frame.scale / np.linalg.norm(frame.scale, axis=1, keepdims=True)


def _by_chain(problem: Problem, positions: Any) -> np.ndarray:
    draws = np.asarray(positions, float)
    draws = draws[None] if draws.ndim == 3 else draws
    wanted = (len(problem.local), problem.dim)
    if draws.ndim != 4 or draws.shape[2:] != wanted or 0 in draws.shape:
        raise ValueError(
            "`positions` must have shape (chain, draw, agent, dim) with (agent, dim) = "
            f"{wanted}, got {np.shape(positions)}."
        )
    return draws


def _thinned(draws: np.ndarray, most: int) -> np.ndarray:
    """Thin the draws so that at most `most` remain, over all chains."""
    chains, length = draws.shape[:2]
    return draws[:, :: -(-chains * length // most)]
