"""DIGing-SGLD: D-SGLD along a tracked gradient (Bajwa, Gurbuzbalaban, Kutbay, Zhu et al. 2025).

With Metropolis weights W, step eta and a full or minibatch gradient g_i,

    x_i' = sum_j W_ij x_j - eta y_i + sqrt(2 eta) u_i                               (1)
    y_i' = sum_j W_ij y_j + g_i(x_i') - g_i(x_i),     y_i = g_i(x_i) at the start   (2)

where u_i is `LangevinSampler.unit_noise`. The tracker y_i follows the network's average gradient,
so that no agent is pulled to the mode of its own data, and the means of all agents are the
posterior's on Gaussians. The average of the trackers is that of the gradients in every round, and
the network's average takes Langevin steps of eta / N on sum_i f_i. Neighbours need both x and y.
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


class DIGingState(NamedTuple):
    """What an agent needs from one round to the next."""

    position: Any
    """x_i."""
    tracker: Any
    """y_i."""
    slope: Any
    """g_i(x_i), which is not sent; a minibatch is drawn once for each position."""


@pytree
@dataclass(frozen=True)
class DIGing(LangevinSampler):
    """Gossip on positions and on gradients, then a Langevin step.

    Args:
        step_size: eta; stable below (1 + lambda_min(W))^2 / 2L for potentials of equal curvature L,
            where `DSGLD` is stable below (1 + lambda_min(W)) / L.
        noise: "private" (as published) or "coherent".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    noise: str = choice(default="private")
    batch_size: int | None = choice(default=None)

    card: ClassVar[Card] = Card(
        title="DIGing-SGLD",
        exchanged="position x_i, tracker y_i",
        floats_per_parameter=2,
        bias="first order in the step: over-dispersed; means are right on Gaussians",
        reference="Bajwa, Gurbuzbalaban, Kutbay, Zhu, Zulqarnain 2025",
        masked_as="mix",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size)
        self.check_choices()

    def init(self, agent: Agent, position: jax.Array, round: Round) -> DIGingState:
        """Start at `position`, with the agent's own gradient in the tracker."""
        slope = gradient(agent, position, round, self.batch_size)
        return DIGingState(position, slope, slope)

    def message(self, state: DIGingState) -> jax.Array:
        """The position x_i and the tracker y_i."""
        return jnp.concatenate([state.position, state.tracker])

    def step(
        self, agent: Agent, state: DIGingState, inbox: Inbox, round: Round
    ) -> tuple[DIGingState, Info]:
        """One round of eqs. (1) and (2)."""
        eta = self.step_size
        positions, trackers = jnp.split(inbox.mix, 2)
        kick = jnp.sqrt(2 * eta) * self.unit_noise(agent, round, positions)
        position = positions - eta * state.tracker + kick  # (1)
        slope = gradient(agent, position, round, self.batch_size)
        tracker = trackers + slope - state.slope  # (2)
        return DIGingState(position, tracker, slope), no_info(position)
