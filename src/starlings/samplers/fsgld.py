"""FSGLD: Distributed SGLD with conducive gradients (El Mekkaoui, Mesquita, Blomstedt, Kaski 2021).

Each site approximates its own likelihood once by a Gaussian exp(-k_s), the surrogate, with

    k_s(x) = x' A_s x / 2 - a_s'x                                                           (1)

and all sites learn the sum k = sum_s k_s. A step of the chain at site s, see `DistributedSGLD`, is
then made with the gradient

    g_s(x) = grad p(x) + grad l_s(x) / q_s + c (grad k(x) - grad k_s(x) / q_s)              (2)

for c = 1. On average over the steps the last term is zero, whatever the surrogates. Where they are
good it cancels what site s differs by from the others, so that walks can be long: if all l_s are
quadratic, the surrogates are exact, (2) is the gradient of the posterior at every site, and what is
left are Langevin steps on the posterior, for every number of local steps.

The surrogate here is the second-order Taylor series of l_s at the mode of

    l_s(x) + p(x) / S                                                                       (3)

the site's own posterior with its share of the prior. In cycle 1 all sites send A_s and a_s, and the
hub returns their sums in cycle 2, in which the chain begins to move.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_positive
from starlings.network import Network
from starlings.problem import Agent, Problem
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card
from starlings.samplers.distributed_sgld import DistributedSGLD
from starlings.samplers.hub import HubState, num_sites
from starlings.solvers.newton import minimise
from starlings.solvers.objective import Objective


class Surrogates(NamedTuple):
    """Two surrogates of eq. (1), as in a message: a, and then the upper triangle of A."""

    own: Any
    """k_s."""
    total: Any
    """k, zero until it is heard."""


@pytree
@dataclass(frozen=True)
class FSGLD(DistributedSGLD):
    """Distributed SGLD, with each site's gradient corrected towards that of all sites.

    Args:
        step_size: eta.
        local_steps: tau_s, one number for all sites or one for each in the problem's order.
        visits: "random" or "cyclic".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
        correction: c of eq. (2), 1 as published.
    """

    correction: Any = 1.0

    idle_cycles = 1
    card: ClassVar[Card] = Card(
        title="FSGLD",
        exchanged="the chain x, to the visited site and back; once the surrogates and their sums",
        floats_per_parameter=1,
        floats_per_pair=1,
        bias="first order in the step; with many local steps where surrogates are poor, towards a "
        "mixture of local posteriors",
        reference="El Mekkaoui, Mesquita, Blomstedt, Kaski 2021",
        not_masked=DistributedSGLD.card.not_masked,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(correction=self.correction)

    def memory(self, agent: Agent, position: jax.Array, round: Round) -> Surrogates:
        """The own surrogate, and none of all sites yet."""
        precision, linear = _fitted(agent, position)
        own = self.packed(linear, precision[jnp.triu_indices(linear.size)])
        return Surrogates(own, jnp.zeros_like(own))

    def at_site(self, agent: Agent, state: HubState, heard: jax.Array, round: Round) -> HubState:
        """Send the surrogate in cycle 1, learn the sum in cycle 2, and walk from then on."""
        own, total = state.memory
        is_sum = round.index == 3
        memory = Surrogates(own, jnp.where(is_sum, heard, total))
        x = jnp.where(is_sum, state.position, heard[: state.position.size])
        moved = self.packed(self.walked(agent, x, memory, round))
        outgoing = jnp.where(round.index == 1, own, self.if_visited(agent, round, moved))
        return HubState(x, outgoing, memory)

    def at_hub(self, agent: Agent, state: HubState, total: jax.Array, round: Round) -> HubState:
        """Pass on the sum of the surrogates in cycle 1, and the chain from then on."""
        x = jnp.where(round.index == 2, state.position, total[: state.position.size])
        return HubState(x, total, state.memory)

    def slope(
        self, agent: Agent, memory: Any, x: jax.Array, share: Any, key: jax.Array
    ) -> jax.Array:
        """g_s(x), eq. (2)."""
        apart = _slope(memory.total, x) - _slope(memory.own, x) / share
        return super().slope(agent, memory, x, share, key) + self.correction * apart  # (2)

    def messages_until(self, rounds: np.ndarray, network: Network) -> np.ndarray:
        """From and to all sites in the first three rounds, and then as in Distributed SGLD."""
        rounds, sites = np.asarray(rounds), network.size - 1
        sent = super().messages_until(np.maximum(rounds - 2, 0), network)
        sent += np.where(rounds >= 2, 1, 0)[..., None]
        down = (rounds + 1) // 2
        sent[..., network.centre] = sites * np.minimum(down, 2) + np.maximum(down - 2, 0)
        return sent

    def gradients_until(self, rounds: np.ndarray, problem: Problem) -> np.ndarray:
        """The fit of the surrogate, a search and derivatives, and then what walks need."""
        walks = np.maximum(np.asarray(rounds) - 2, 0) * self.gradients_per_round(problem)
        return np.where(np.asarray(rounds) > 0, 2, 0) + walks

    def numbers_until(self, rounds: np.ndarray, network: Network, dim: int) -> np.ndarray:
        """Numbers that every agent has sent until these rounds, without padding, (round, agent).

        Only messages with surrogates are as long as the card says; the chain has `dim` numbers.
        """
        rounds = np.asarray(rounds)
        messages = self.messages_until(rounds, network)
        long = np.where(rounds >= 2, 1, 0)[..., None] * np.ones(network.size)
        long[..., network.centre] = np.where(rounds >= 3, network.size - 1, 0)
        return dim * messages + (self.floats(dim) - dim) * long


def _fitted(agent: Agent, start: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A_s and a_s, from the derivatives of l_s at the mode of (3)."""
    if agent.quadratic is not None:
        return agent.quadratic.hessian, agent.quadratic.linear
    tempered = replace(agent, prior_share=1 / num_sites(agent))
    objective = Objective(tempered.potential, tempered.derivatives)
    mode = minimise(objective, jnp.zeros_like(start)).point  # (3), the same in all chains
    _, slope, hessian = agent.derivatives(mode)
    return hessian, hessian @ mode - slope


def _slope(surrogate: jax.Array, x: jax.Array) -> jax.Array:
    """The gradient of a surrogate, A x - a."""
    linear, triangle = surrogate[: x.size], surrogate[x.size :]
    upper = jnp.zeros((x.size, x.size), x.dtype).at[jnp.triu_indices(x.size)].set(triangle)
    return (upper + jnp.triu(upper, 1).T) @ x - linear
