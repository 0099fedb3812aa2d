"""D-SGLD: decentralised stochastic gradient Langevin dynamics (Gurbuzbalaban et al. 2021).

With Metropolis weights W, step eta and a full or minibatch gradient g_i,

    x_i' = sum_j W_ij x_j - eta g_i(x_i) + sqrt(2 eta) u_i                 (1)

where u_i is `LangevinSampler.unit_noise`: N(0, I) drawn by each agent, or w / sqrt(N) with one w
for all. Either way the network's average takes Langevin steps of eta / N on sum_i f_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, PositionState, no_info
from starlings.samplers.langevin import LangevinSampler
from starlings.solvers.gradients import gradient


@pytree
@dataclass(frozen=True)
class DSGLD(LangevinSampler):
    """Gossip, then a Langevin step.

    Args:
        step_size: eta; stable below (1 + lambda_min(W)) / L for potentials with curvature up to L.
        noise: "private" (as published) or "coherent".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    noise: str = choice(default="private")
    batch_size: int | None = choice(default=None)

    card: ClassVar[Card] = Card(
        title="D-SGLD",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="first order in the step: agents pulled to their own modes, over-dispersed",
        reference="Gurbuzbalaban, Gao, Hu, Zhu 2021",
        public_code="agents are moved one after the other, and some read new positions of others",
        masked_as="mix",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        self.check_choices()

    @classmethod
    def published(cls, problem: Problem, network: Network) -> DSGLD:
        """The step of Tzikas et al. (2024) for linear regressions, and for others."""
        return cls(0.009 if problem.is_quadratic else 0.0003)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PositionState:
        """Start at `position`."""
        return PositionState(position)

    def step(
        self, agent: Agent, state: PositionState, inbox: Inbox, round: Round
    ) -> tuple[PositionState, Info]:
        """One round of eq. (1)."""
        x, eta = state.position, self.step_size
        slope = gradient(agent, x, round, self.batch_size)
        kick = jnp.sqrt(2 * eta) * self.unit_noise(agent, round, x)
        position = inbox.mix - eta * slope + kick  # (1)
        return PositionState(position), no_info(x)
