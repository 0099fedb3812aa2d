"""Generalized EXTRA-SGLD: D-SGLD with a memory (Gurbuzbalaban, Islam, Wang, Zhu 2024).

With Metropolis weights W, V = h I + (1 - h) W, step eta and a full or minibatch gradient g_i,

    x_i'' = x_i' + sum_j W_ij x_j' - sum_j V_ij x_j - eta (g_i' - g_i) + sqrt(2 eta) (u_i' - u_i)

from x_i' = sum_j W_ij x_j - eta g_i + sqrt(2 eta) u_i, where u_i is `LangevinSampler.unit_noise`.
The noise is differenced as the gradients are: with new noise in every round the network's average
would be a sum of sums of noise, and leave any bound. Added up over the rounds this is

    x_i' = sum_j W_ij x_j - eta g_i(x_i) + sqrt(2 eta) u_i + m_i           (1)
    m_i' = m_i + h (sum_j W_ij x_j - x_i),         m_i = 0 at the start    (2)

The memory m_i comes to cancel what pulls agent i to the mode of its own data, so that the means of
all agents are the posterior's on Gaussians. It sums to zero over the network, whose average takes
Langevin steps of eta / N on sum_i f_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox
from starlings.problem.agent import Agent
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, no_info
from starlings.samplers.langevin import LangevinSampler
from starlings.solvers.gradients import gradient

LARGEST_MEMORY = 0.5
"""The largest h for which the round is known to be stable on every graph, with a small step."""


class GEXTRAState(NamedTuple):
    """What an agent needs from one round to the next."""

    position: Any
    """x_i."""
    memory: Any
    """m_i, which is not sent."""


@pytree
@dataclass(frozen=True)
class GEXTRA(LangevinSampler):
    """Gossip, a Langevin step, and a memory of what gossip has changed.

    Args:
        step_size: eta; stable below 2 lambda_min(V) / L for potentials with curvature up to L. With
            h = 1/2 that is the limit of `DSGLD`. Potentials of equal curvature L allow more:
            (1 + lambda_min(W) + h (1 - lambda_min(W)) / 2) / L.
        memory: h in (0, 1/2]; 1/2 is EXTRA. Smaller values scatter the agents less, and take longer
            to cancel the pull of an agent's own data.
        noise: "private" (as published) or "coherent".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    memory: Any = LARGEST_MEMORY
    noise: str = choice(default="private")
    batch_size: int | None = choice(default=None)

    card: ClassVar[Card] = Card(
        title="Generalized EXTRA-SGLD",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="first order in the step: over-dispersed; means are right on Gaussians",
        reference="Gurbuzbalaban, Islam, Wang, Zhu 2024",
        masked_as="mix",
        public_code="two D-SGLD rounds in place, with V and with W, and no memory",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size, memory=self.memory)
        is_traced = isinstance(self.memory, jax.core.Tracer)
        if not is_traced and float(self.memory) > LARGEST_MEMORY:
            raise ValueError(f"`memory` must be in (0, 1/2], got {self.memory}.")
        self.check_choices()

    def init(self, agent: Agent, position: jax.Array, round: Round) -> GEXTRAState:
        """Start at `position` with m_i = 0."""
        return GEXTRAState(position, jnp.zeros_like(position))

    def step(
        self, agent: Agent, state: GEXTRAState, inbox: Inbox, round: Round
    ) -> tuple[GEXTRAState, Info]:
        """One round of eqs. (1) and (2)."""
        x, eta = state.position, self.step_size
        slope = gradient(agent, x, round, self.batch_size)
        kick = jnp.sqrt(2 * eta) * self.unit_noise(agent, round, x)
        position = inbox.mix - eta * slope + kick + state.memory  # (1)
        memory = state.memory + self.memory * (inbox.mix - x)  # (2)
        return GEXTRAState(position, memory), no_info(x)
