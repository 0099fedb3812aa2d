"""The base of samplers with a coordinator: the hub of a star, which hears all sites.

The hub is an agent without rows; `starlings.with_hub` adds one to a problem. A cycle has two
rounds:

    odd rounds     the hub's message reaches every site; sites compute with what they hear     (1)
    even rounds    the hub hears the sum of the messages of all sites, and computes with it    (2)

so that the hub sends to every site in odd rounds and every site to the hub in even ones. The
position of the hub after the k-th cycle is the k-th iterate of the published algorithm. The sites
have it one round later, in (1).
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.random.addresses import Round
from starlings.samplers.base import Info, Sampler, no_info

IN_ONE_PROCESS = "samplers with a hub are for comparisons, with all sites in one process"
"""Why cards of samplers with a hub say that messages are not masked."""


class HubState(NamedTuple):
    """What the hub or a site remembers from one round to the next."""

    position: Any
    """The hub's iterate; at a site the last one that it has heard of."""
    outgoing: Any
    """The next message, (floats,): from the hub to all sites, or from a site to the hub."""
    memory: Any = ()
    """Whatever else a sampler keeps, with the same shapes at the hub and at all sites."""


class HubSampler(Sampler):
    """A sampler with a hub: what a site does with what it hears, and what the hub does.

    `at_site` and `at_hub` have to be written. Both are computed by every agent in each of their
    rounds, and an agent keeps what belongs to its part.
    """

    needs_hub: ClassVar[bool] = True
    prior_at: ClassVar[str] = "sites"
    """Who has to have the prior: the "sites" or the "hub", see `starlings.with_hub`."""

    @abc.abstractmethod
    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Eq. (1): the state of a site, from the hub's message `heard`, (floats,)."""

    @abc.abstractmethod
    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """Eq. (2): the state of the hub, from the sum `total` of the messages of all sites."""

    def memory(self, agent: Agent, position: jax.Array, round: Round) -> Any:
        """What an agent remembers at the start; nothing by default."""
        return ()

    @property
    def cycle(self) -> int:
        """Rounds from one iterate to the next."""
        return 2

    def placed(self, agents: Agent, network: Network) -> Agent:
        """Tell every agent whether it is the hub."""
        return dataclasses.replace(agents, place=jnp.asarray(network.local == network.centre))

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse problems without a hub, and networks of which it is not the centre."""
        hub, sites = problem.hub, network.size - 1
        is_star = network.num_edges == sites and network.degrees.max() == sites
        if hub is None or not is_star or network.names[network.centre] != hub.name:
            raise ValueError(
                f"{self.card.title} needs a coordinator, to which all sites are linked and nobody "
                f"else: take `problem, network = starlings.with_hub(problem{self._of_prior})`, in "
                'a study `graph = "hub"`.'
            )
        if network.is_distributed:
            raise ValueError(
                f"{self.card.title} runs with all sites in one process: a hub has no rows, and "
                "would need a process of its own."
            )
        if hub.has_prior != (self.prior_at == "hub"):
            raise ValueError(
                f"{self.card.title} needs the prior at the {self.prior_at}: take "
                f"`starlings.with_hub(problem{self._of_prior})`."
            )
        frame = problem.frame
        if frame is not None and (frame.linear_tilt.any() or frame.quadratic_tilt.any()):
            raise ValueError(
                f"{self.card.title} asks the sites alone for the data, and tuning gave the hub a "
                "part of their potentials: give the original problem."
            )

    @property
    def _of_prior(self) -> str:
        """The argument of `with_hub` for who has the prior, if it is not the default."""
        return "" if self.prior_at == "sites" else f', prior="{self.prior_at}"'

    def init(self, agent: Agent, position: jax.Array, round: Round) -> HubState:
        """Start at `position`, which the hub sends first."""
        outgoing = self.packed(position)
        return HubState(position, outgoing, self.memory(agent, position, round))

    def packed(self, *vectors: jax.Array) -> jax.Array:
        """One or several vectors as a message, with zeros after them, (floats,)."""
        flat = jnp.concatenate([jnp.atleast_1d(vector) for vector in vectors])
        return jnp.pad(flat, (0, self.floats(vectors[0].size) - flat.size))

    def message(self, state: HubState) -> jax.Array:
        """What is sent next."""
        return state.outgoing

    def step(
        self, agent: Agent, state: HubState, inbox: Inbox, round: Round
    ) -> tuple[HubState, Info]:
        """One round of eq. (1) or (2)."""
        is_hub = agent.place

        def down(state: HubState) -> HubState:
            found = self.at_site(agent, state, inbox.sum, round)  # (1): the hub is alone
            return jax.tree.map(lambda new, old: jnp.where(is_hub, old, new), found, state)

        def up(state: HubState) -> HubState:
            found = self.at_hub(agent, state, inbox.sum, round)  # (2)
            return jax.tree.map(lambda new, old: jnp.where(is_hub, new, old), found, state)

        return jax.lax.cond(round.index % 2 == 1, down, up, state), no_info(state.position)

    def messages_until(self, rounds: np.ndarray, network: Network) -> np.ndarray:
        """Messages of the hub in odd rounds, and of the sites in even ones, (round, agent)."""
        is_hub = np.arange(network.size) == network.centre
        return (np.add.outer(rounds, is_hub.astype(int)) // 2) * network.degrees

    def gradients_per_round(self, problem: Problem) -> float:
        """How often a site goes through its rows in one round, on average: once in two rounds."""
        return 0.5


def num_sites(agent: Agent) -> Any:
    """The number of all agents but the hub."""
    return agent.num_agents - 1
