"""A problem on a network on which samplers are tried, and rounds of all agents in a plain loop.

`first_states`, `one_round` and `draws_of` are a second implementation of what the runtimes do, for
one chain, with dense matrices for the inboxes and nothing made fast: what they find is what a
runtime has to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np

from starlings import models
from starlings.errors import ContractError
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.problem.hub import with_hub
from starlings.random.addresses import Round, chain_keys
from starlings.samplers import Info, Sampler

ROWS = (1, 40, 3, 7, 20, 2)
"""Number of rows at each of the six sites of the example problems: very unequal."""
TRIAL_SEED = 0
"""The seed of all runs that are compared with each other."""


class Keys(NamedTuple):
    """The keys of one chain, from which rounds draw their noise."""

    agents: jax.Array
    """One key for each agent, (agent,)."""
    network: jax.Array
    """The key that all agents share, ()."""


@dataclass(frozen=True)
class Trial:
    """A problem on a network, on which a sampler is tried."""

    problem: Problem
    network: Network
    """In the order of the problem's sites."""
    curved: Problem
    """A problem on the same network that need not be quadratic."""

    @classmethod
    def of(
        cls,
        problem: Problem | None = None,
        network: Network | None = None,
        sampler: Sampler | None = None,
    ) -> Trial:
        """The example problems and network, or what is given instead.

        Args:
            problem: the problem; by default two examples.
            network: the network; by default an irregular one.
            sampler: what is to be tried. Where it needs a hub, or all rows at one place, and the
                network is not given, problems and network are made so.
        """
        given, curved = (problem, problem) if problem else (linear_problem(), logistic_problem())
        if network is None and sampler is not None and sampler.needs_hub:
            prior = getattr(sampler, "prior_at", "sites")
            (given, network), (curved, _) = (with_hub(p, prior=prior) for p in (given, curved))
        elif network is None and sampler is not None and sampler.needs_one_place:
            given, curved, network = given.pooled(), curved.pooled(), Network.path(1)
        network = irregular_network() if network is None else network
        return cls(given, network.matched_to(given.sites), curved)

    @cached_property
    def farthest(self) -> tuple[int, int, int]:
        """Two agents as far from each other as can be, and the number of links between them."""
        distances = dict(nx.all_pairs_shortest_path_length(self.network.graph))
        place = {node: i for i, node in enumerate(self.network.nodes)}
        far = [(d, place[a], place[b]) for a, row in distances.items() for b, d in row.items()]
        distance, one, other = max(far)
        return one, other, distance

    def agents(self, sampler: Sampler, dtype: Any = np.float64) -> Agent:
        """All agents, stacked, with what `Sampler.prepare` computes."""
        agents = self.problem.agents(self.network, dtype)
        agents = replace(agents, slots=int(self.network.degrees.max()))
        return jax.vmap(sampler.prepare)(sampler.placed(agents, self.network))

    def keys(self, chain: int = 0) -> Keys:
        """The keys of one chain."""
        private, shared = chain_keys(TRIAL_SEED, chain + 1, self.network.size)
        return Keys(private[chain], shared[chain])

    def positions(self, sampler: Sampler, chains: int = 1, dtype: Any = np.float64) -> np.ndarray:
        """Where chains start, (chain, agent, dim): independent standard normal numbers.

        All agents of a chain start at one point where the sampler needs that.
        """
        shape = (chains, self.network.size, self.problem.dim)
        drawn = np.random.default_rng(TRIAL_SEED).normal(size=shape)
        drawn = np.broadcast_to(drawn[:, :1], shape) if sampler.common_start else drawn
        return drawn.astype(dtype)


def first_states(sampler: Sampler, agents: Agent, positions: Any, keys: Keys) -> Any:
    """The states of all agents in round 0, from positions (agent, dim)."""

    def one(agent: Agent, position: jax.Array, key: jax.Array) -> Any:
        return sampler.init(agent, position, Round(0, key, keys.network))

    return jax.vmap(one)(agents, jnp.asarray(positions), keys.agents)


def may_be_silent(trial: Trial, sampler: Sampler) -> bool:
    """Whether agents may leave out messages, see `Sampler.broadcasts`."""
    with jax.enable_x64(True):
        agents = trial.agents(sampler)
        states = first_states(sampler, agents, trial.positions(sampler)[0], trial.keys())
        return jax.vmap(sampler.broadcasts)(states) is not None


def one_round(
    sampler: Sampler, trial: Trial, agents: Agent, states: Any, index: Any, keys: Keys
) -> tuple[Any, Info]:
    """The states of all agents after one more round, the number `index`, and their reports."""

    def one(agent: Agent, state: Any, inbox: Inbox, key: jax.Array) -> tuple[Any, Info]:
        return stepped(sampler, agent, state, inbox, Round(index, key, keys.network))

    inboxes = delivered(trial.network, jax.vmap(sampler.message)(states))
    return jax.vmap(one)(agents, states, inboxes, keys.agents)


def stepped(
    sampler: Sampler, agent: Agent, state: Any, inbox: Inbox, round: Round
) -> tuple[Any, Info]:
    """What `step` returns, if it is a state and a report."""
    found: Any = sampler.step(agent, state, inbox, round)
    is_pair = isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Info)
    require(
        is_pair,
        "`step` must return (state, info), such as `(PositionState(x), no_info(x))`, got "
        f"{type(found).__name__}.",
    )
    return found


def draws_of(sampler: Sampler, agents: Agent, states: Any, upcoming: Any, keys: Keys) -> jax.Array:
    """What is recorded of all agents, (agent, dim), before the round `upcoming`."""

    def one(agent: Agent, state: Any, key: jax.Array) -> jax.Array:
        return sampler.draw(agent, state, Round(upcoming, key, keys.network))

    return jax.vmap(one)(agents, states, keys.agents)


def delivered(network: Network, messages: jax.Array) -> Inbox:
    """The inboxes of all agents, by dense matrices, where no message is lost.

    Args:
        network: who talks to whom.
        messages: (agent, floats), or (agent, slot, floats) where each neighbour gets its own.
    """
    each, arrived = _one_by_one(network, messages)
    if messages.ndim == 3:
        return Inbox(sum=None, mix=None, each=each, arrived=arrived)
    adjacency = jnp.asarray(network.adjacency.toarray(), messages.dtype)
    mixing = jnp.asarray(network.mixing.toarray(), messages.dtype)
    linked = adjacency[:, :, None] > 0
    largest = jnp.max(jnp.where(linked, messages, -jnp.inf), axis=1)
    return Inbox(adjacency @ messages, mixing @ messages, largest, each, arrived)


def _one_by_one(network: Network, messages: jax.Array) -> tuple[jax.Array, jax.Array]:
    """`Inbox.each` and `Inbox.arrived` of all agents, neighbour by neighbour."""
    neighbours = [row.nonzero()[0].tolist() for row in network.adjacency.toarray()]
    shape = (network.size, max(map(len, neighbours)))
    each = jnp.zeros((*shape, messages.shape[-1]), messages.dtype)
    arrived = np.zeros(shape, bool)
    for i, near in enumerate(neighbours):
        for slot, j in enumerate(near):
            sent = messages[j] if messages.ndim == 2 else messages[j, neighbours[j].index(i)]
            each, arrived[i, slot] = each.at[i, slot].set(sent), True
    return each, jnp.asarray(arrived)


def irregular_network() -> Network:
    """Six agents with one to four neighbours each; agents 1 and 5 are three links apart."""
    links = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (3, 4), (4, 5)]
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(range(len(ROWS)))
    graph.add_edges_from(links)
    return Network(graph)


def linear_problem() -> Problem:
    """A linear regression in three dimensions, with 1 to 40 rows at six sites: quadratic.

    The noise is so large that no potential has a curvature above 2: a gradient step of 0.1 is
    stable.
    """
    X, y, sites = _rows()
    return models.linear_regression(X, y, sites, noise_std=6.0, intercept=False)


def logistic_problem(local: Sequence[int] = range(len(ROWS))) -> Problem:
    """A logistic regression on the same sites: not quadratic, and with rows in several groups.

    Args:
        local: the numbers of the sites whose rows are here.
    """
    X, y, sites = _rows()
    here = np.isin(sites, local)
    rows = (X[here], (y[here] > 0).astype(float), np.array(sites)[here].tolist())
    names = [str(number) for number in range(len(ROWS))]
    return models.logistic_regression(*rows, intercept=False).part_of(names)


def _rows() -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Covariates, outcomes and the site of every row."""
    random = np.random.default_rng(3)
    sites = np.repeat(np.arange(len(ROWS)), ROWS)
    X = random.normal(size=(len(sites), 3))
    return X, X @ [1.0, -2.0, 0.5] + random.normal(size=len(sites)), sites.tolist()


def require(holds: Any, text: str) -> None:
    """Raise a `ContractError` with this text unless the condition holds."""
    if not holds:
        raise ContractError(text)
