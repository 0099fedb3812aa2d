"""Draws held against Stein's identities (see `stein`), by sums over the network.

Cost: the draws of an examined agent have to be sent to all the others, and their gradients summed
on the way back: two sums over the network (see `gossip`), with 4 floats over every link and in
each direction for every coordinate of every draw examined. Agent 0 is always examined, and of the
others at most the two whose means and spreads are farthest from the average, if they are farther
than `NEAR`. Whatever passes can be read by those it passes.
"""

from __future__ import annotations

from dataclasses import asdict
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
"""Agents whose mean and sd are nearer than this to the average, in posterior sd, need no
examination of their own."""
BATCH = 8
"""Number of draws whose gradients are computed at once."""


def examine(problem: Problem, network: Network, positions: Any, most_draws: int = 1000) -> Stein:
    """Hold draws against Stein's identities, by sums over a connected network.

    Args:
        problem: the posterior, in coordinates of about unit curvature.
        network: who talks to whom.
        positions: draws in those coordinates, (chain, draw, agent, dim); of one chain also
            (draw, agent, dim).
        most_draws: how many draws of an agent to examine at most, in equal distances.
    """
    check_count(1, most_draws=most_draws)
    network = network.matched_to(problem.sites)
    draws = _thinned(_by_chain(problem, positions), most_draws)
    with jax.enable_x64(True):
        gossip = Gossip(network)
        agents = examined_agents(gossip, draws)
        own, gradients = summed_gradients(gossip, problem.agents(network), agents, draws)
    directions = model_directions(problem)
    pairs = [
        [departures(z @ v, G @ v) for v in directions] for z, G in zip(own, gradients, strict=True)
    ]
    found = np.moveaxis(np.array(pairs), (2, 3), (0, 1))  # (shift or stretch, number, agent, v)
    return Stein(
        [network.names[i] for i in agents],
        problem.coordinate_names,
        int(np.prod(draws.shape[:2])),
        *found.reshape(-1, *found.shape[2:]),
        **asdict(gossip.ledger),
    )


def examined_agents(gossip: Gossip, draws: np.ndarray) -> list[int]:
    """Agent 0, and those of the two farthest from the average that are not near it.

    Each agent sends its means and standard deviations into one sum, and its distance from their
    average into another.
    """
    chains_and_draws = (0, 1)
    own = np.concatenate([draws.mean(chains_and_draws), draws.std(chains_and_draws)], axis=-1)
    held, size = gossip.network.local, gossip.network.size
    average = np.asarray(gossip.sum(jnp.asarray(own))) / size
    distances = np.zeros((len(held), size))
    distances[np.arange(len(held)), held] = np.abs(own - average).max(axis=-1)
    announced = np.asarray(gossip.sum(jnp.asarray(distances)))[0]
    farthest = np.argsort(-announced)[:2]
    return sorted({0, *(int(i) for i in farthest if announced[i] > NEAR)})


def summed_gradients(
    gossip: Gossip, agents: Agent, examined: list[int], draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The draws (examined agent, chain, draw, dim) of some agents, and the summed G there.

    The draws reach everybody by a sum to which only their owners have something to add.
    """
    chains, length, held, dim = draws.shape
    offered = np.zeros((held, len(examined), chains, length, dim))
    for place, agent in enumerate(gossip.network.local):
        if agent in examined:
            offered[place, examined.index(agent)] = draws[:, :, place]
    received = gossip.sum(jnp.asarray(offered))
    gradients = gossip.sum(_gradients(agents, received))
    return np.asarray(received[0]), np.asarray(gradients[0])


@jax.jit
def _gradients(agents: Agent, points: jax.Array) -> jax.Array:
    """Every agent's own gradient at the points (agent, ..., dim) that it holds."""

    def one(agent, points):
        return jax.lax.map(agent.gradient, points, batch_size=BATCH)

    flat = points.reshape(len(points), -1, points.shape[-1])
    return jax.vmap(one)(agents, flat).reshape(points.shape)


def model_directions(problem: Problem) -> np.ndarray:
    """For each coordinate of the model's flat vector, the unit vector of z in which it grows."""
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
    """Every so-many-th draw, so that no more than `most` remain of all chains together."""
    chains, length = draws.shape[:2]
    return draws[:, :: -(-chains * length // most)]
