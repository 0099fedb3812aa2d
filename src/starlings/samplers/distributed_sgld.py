"""Distributed SGLD: a chain that walks on the data of one site at a time (Ahn et al. 2014).

The posterior is exp(-p(x) - sum_s l_s(x)), with the prior in p, which everybody knows, and the
rows of site s in l_s; there are S sites. The hub sends the chain x to one site, which makes tau_s
steps with its own rows,

    x <- x - eta g_s(x) + sqrt(2 eta) w,    w ~ N(0, I)                                     (1)
    g_s(x) = grad p(x) + grad l_s(x) / q_s,     q_s = tau_s / sum_t tau_t                   (2)

and sends the chain back. q_s is the part of all steps that is made at site s, so that (2) has the
gradient of the posterior on average over the steps. Equal tau_s give q_s = 1/S; a slow site is
given fewer steps, each of which counts for more. A gradient of l_s may be that of a minibatch. The
step of the publication is 2 eta. The visited site is, in cycle c = 1, 2, ...,

    random    any of the S sites, with equal probabilities                                  (3)
    cyclic    number c - 1 modulo S                                                         (4)

The publication runs several chains at once and sends them to different sites by a random
permutation of the sites. One chain of these has the law of (3), and is one chain here: chains do
not wait for each other, and two of them may be at one site. The publication leaves chains
uncoupled too, but for the sites at which they are.

With steps of a constant length the draws have a bias of first order in eta. A second one grows with
tau_s: between two visits elsewhere the chain draws from exp(-p - l_s / q_s), the prior with the
rows of one site counted 1 / q_s times. With long walks the draws are a mixture of these local
posteriors, whatever eta. `FSGLD` corrects that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_choice, check_count, check_positive
from starlings.network import Network
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card
from starlings.samplers.hub import HubSampler, HubState, num_sites

VISITS = ("random", "cyclic")
"""The orders in which sites are visited, eqs. (3) and (4)."""


@pytree
@dataclass(frozen=True)
class DistributedSGLD(HubSampler):
    """Each cycle the chain goes to one site, makes Langevin steps there, and comes back.

    Args:
        step_size: eta, half of the published step.
        local_steps: tau_s, one number for all sites or one for each in the problem's order.
        visits: "random" or "cyclic".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    local_steps: int | Sequence[int] = choice(default=1)
    visits: str = choice(default="random")
    batch_size: int | None = choice(default=None)

    prior_at = "hub"
    step_field = "step_size"
    idle_cycles: ClassVar[int] = 0
    """Cycles before the first one in which the chain moves."""
    card: ClassVar[Card] = Card(
        title="Distributed SGLD",
        exchanged="the chain x: to the visited site, and back",
        floats_per_parameter=1,
        bias="first order in the step; with many local steps a mixture of local posteriors",
        reference="Ahn, Shahbaba, Welling 2014",
        public_code="there is none by the authors; in one by others the noise has the standard "
        "deviation eps^2 and is one number for all parameters",
        not_masked="one site at a time sends anything, so that a sum would be its message",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        check_choice(VISITS, visits=self.visits)
        if self.batch_size is not None:
            check_count(1, batch_size=self.batch_size)
        if np.ndim(self.local_steps) == 1:
            counts = tuple(np.asarray(self.local_steps, object))  # an array cannot select code
            object.__setattr__(self, "local_steps", counts)
        for count in np.atleast_1d(np.asarray(self.local_steps, object)):
            check_count(1, local_steps=count)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse problems without a hub, and numbers of steps for another number of sites."""
        super().check(problem, network)
        given, sites = np.size(self.local_steps), network.size - 1
        if np.ndim(self.local_steps) == 1 and given != sites:
            raise ValueError(
                f"`local_steps` has {given} numbers, and there are {sites} sites: give one number, "
                "or one for each site."
            )

    def steps_of(self, sites: int) -> np.ndarray:
        """tau_s of so many sites, (site,)."""
        return np.resize(np.asarray(self.local_steps), sites)

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Walk with the own rows; the site that is visited sends where it came to."""
        moved = self.walked(agent, heard, state.memory, round)
        return HubState(heard, self.if_visited(agent, round, moved), state.memory)

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """The chain, which comes from one site; the others send zeros."""
        return HubState(total, total, state.memory)

    def walked(self, agent: Agent, x: jax.Array, memory: Any, round: Round) -> jax.Array:
        """tau_s steps of eq. (1)."""
        counts = jnp.asarray(self.local_steps)
        own = counts if counts.ndim == 0 else counts[agent.index - 1]
        share = 1 / num_sites(agent) if counts.ndim == 0 else own / counts.sum()
        keys = jax.random.split(round.batch_key(), int(np.max(self.local_steps)))
        eta = self.step_size

        def step(x: jax.Array, numbered: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            number, key = numbered
            for_noise, for_batch = jax.random.split(key)
            slope = self.slope(agent, memory, x, share, for_batch)
            noise = jax.random.normal(for_noise, x.shape, x.dtype)
            moved = x - eta * slope + jnp.sqrt(2 * eta) * noise  # (1)
            return jnp.where(number < own, moved, x), None

        return jax.lax.scan(step, x, (jnp.arange(len(keys)), keys))[0]

    def slope(
        self, agent: Agent, memory: Any, x: jax.Array, share: Any, key: jax.Array
    ) -> jax.Array:
        """g_s(x), eq. (2), with `share` for q_s."""
        return jax.grad(partial(_prior, agent))(x) + self._of_rows(agent, x, key) / share  # (2)

    def _of_rows(self, agent: Agent, x: jax.Array, key: jax.Array) -> jax.Array:
        """The gradient of l_s, or its estimate from a minibatch; the site has no part of p."""
        if self.batch_size is None:
            return agent.gradient(x)
        batch = jax.random.randint(key, (self.batch_size,), 0, agent.num_rows)
        return jax.grad(agent.batch_potential)(x, batch)

    def if_visited(self, agent: Agent, round: Round, message: jax.Array) -> jax.Array:
        """A message at the site that is visited in this cycle, and zeros at all others."""
        sites = jnp.asarray(num_sites(agent), int)
        if self.visits == "random":
            turn = jax.random.randint(round.shared_key(), (), 0, sites)  # (3)
        else:
            turn = ((round.index - 1) // 2 - self.idle_cycles) % sites  # (4)
        return jnp.where(agent.index - 1 == turn, message, jnp.zeros_like(message))

    def messages_until(self, rounds: np.ndarray, network: Network) -> np.ndarray:
        """One message down and one up in each cycle, (round, agent).

        Only the visited site takes part, which hub and sites know from shared randomness. The
        other sites hear the chain too, to have draws; that is not counted, since no step needs it.
        With random visits the messages of a site are the expected ones, 1/S in a cycle, since
        chains visit it at different times.
        """
        down, up = (np.asarray(rounds) + 1) // 2, np.asarray(rounds) // 2
        sites = network.size - 1
        if self.visits == "random":
            visits = np.multiply.outer(up, np.full(sites, 1 / sites))
        else:
            visits = np.add.outer(up, sites - 1 - np.arange(sites)) // sites
        return np.insert(visits, network.centre, down, axis=-1)

    def gradients_per_round(self, problem: Problem) -> float:
        """The mean number of local steps over 2 S, or the part that minibatches have of it."""
        sites = problem.num_agents - 1
        rows = 1.0 if self.batch_size is None else self.batch_size * sites / problem.num_rows.sum()
        return float(self.steps_of(sites).mean() * rows) / (2 * sites)


def _prior(agent: Agent, z: jax.Array) -> jax.Array:
    """The whole potential p of the prior, which every site can compute."""
    return -agent.log_prior(z if agent.frame is None else agent.frame.to_original(z))
