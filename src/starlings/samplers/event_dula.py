"""Event-triggered D-ULA: agents speak when they have moved (Bhar, Bai, George, Busart 2023).

Agent i, its d_i neighbours and whoever sums up have the same b_i, the position that it has sent
last. In round k = 0, 1, ... with steps alpha_k and zeta_k and a threshold eps_k, which may decay,

    b_i is x_i from now on, and is sent,     if k = 0 or |x_i - b_i| > eps_k                (1)
    x_i' = x_i - zeta_k (d_i b_i - sum_j b_j) - alpha_k N g_i(x_i) + sqrt(2 alpha_k N) u_i   (2)

where u_i is `LangevinSampler.unit_noise`. Without a threshold this is D-ULA. What is subtracted in
(2) sums to zero over the network, whatever b is: the network's average takes Langevin steps of
alpha_k on sum_i f_i as that of D-ULA does. On quadratic potentials with constant steps the
positions x_k of all agents, stacked, differ from those y_k of D-ULA with the same noise by

    x_k - y_k = -zeta sum_{j<k} T^(k-1-j) L (b_j - x_j),     T = I - zeta L - alpha N H      (3)

with Hessians H and the Laplacian L of the graph, and |b_j - x_j| <= sqrt(N) eps_j by (1). Where T
is stable, the difference goes to zero with eps_j. A round moves an agent by about the root of
2 alpha_k N in every coordinate: thresholds far below that save nothing.

A silent agent tells its neighbours something, too: that it is no further than eps_k from b_i.
A masked sum needs a number from every agent in every round. Nothing would be saved, and agents that
are silent could not hide it without sending: this sampler does not run where messages are masked.
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
from starlings.samplers.dula import DULA, ConsensusLangevin, Decay, at_round
from starlings.samplers.units import Units

THRESHOLDS = (0.3, 1.0)
"""Thresholds that a comparison tries, in units of what a round moves an agent by."""


class EventDULAState(NamedTuple):
    """What an agent needs from one round to the next."""

    position: Any
    """x_i."""
    last_sent: Any
    """b_i, which is what neighbours know."""
    is_due: Any
    """Whether b_i is new, and is sent in the next round."""
    broadcasts: Any
    """The number of times that it was sent so far."""


@pytree
@dataclass(frozen=True)
class EventDULA(ConsensusLangevin):
    """D-ULA with messages only where a position has moved by more than a threshold.

    Args:
        step_size: alpha, a number or a `Decay`; exact only as it goes to zero.
        consensus_step: zeta, a number or a `Decay`; stable below 2 / lambda_max(Laplacian).
        threshold: eps, a number or a `Decay`, in the unit of positions; 0 is D-ULA. As published
            it decays at least as fast as the root of `step_size`.
        noise: "private" (as published) or "coherent".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    consensus_step: Any
    threshold: Any
    noise: str = choice(default="private")
    batch_size: int | None = choice(default=None)

    card: ClassVar[Card] = Card(
        title="Event-triggered D-ULA",
        exchanged="position x_i, in rounds in which it has moved",
        floats_per_parameter=1,
        bias="that of D-ULA, agents further apart by about the threshold; the average is that of "
        "D-ULA where potentials are equal and quadratic",
        reference="Bhar, Bai, George, Busart 2023",
        not_masked="a masked sum needs a number from every agent in every round, so that silence "
        "would neither save messages nor be hidden",
    )

    def __post_init__(self) -> None:
        self.check_steps()
        self.check_choices()
        if not isinstance(self.threshold, Decay) and not _is_zero(self.threshold):
            check_positive(threshold=self.threshold)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[EventDULA]:
        """Those of `DULA`, with thresholds in units of what a round moves an agent by."""
        return [
            cls(each.step_size, each.consensus_step, part * _moved(each, units), **fixed)
            for part in THRESHOLDS
            for each in DULA.candidates(units)
        ]

    def init(self, agent: Agent, position: jax.Array, round: Round) -> EventDULAState:
        """Start at `position`, which is sent in the first round."""
        return EventDULAState(position, position, jnp.array(True), jnp.zeros((), jnp.int32))

    def message(self, state: EventDULAState) -> jax.Array:
        """b_i, which is not sent again where it is not due."""
        return state.last_sent

    def broadcasts(self, state: EventDULAState) -> jax.Array:
        """How often b_i was sent."""
        return state.broadcasts

    def step(
        self, agent: Agent, state: EventDULAState, inbox: Inbox, round: Round
    ) -> tuple[EventDULAState, Info]:
        """Eq. (2) of one round, and then eq. (1) of the next one."""
        disagreement = agent.degree * state.last_sent - inbox.sum
        position = self.moved(agent, state.position, disagreement, round)  # (2)
        away = jnp.linalg.norm(position - state.last_sent)
        is_due = away > at_round(self.threshold, round.index)  # (1)
        last_sent = jnp.where(is_due, position, state.last_sent)
        broadcasts = state.broadcasts + state.is_due
        return EventDULAState(position, last_sent, is_due, broadcasts), no_info(position)


def _is_zero(threshold: Any) -> bool:
    """Whether this is the number 0, and not False."""
    is_number = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
    return is_number and threshold == 0


def _moved(sampler: DULA, units: Units) -> float:
    """The root of 2 alpha N dim: how far noise moves an agent in a round."""
    return float(2 * sampler.step_size * units.network.size * units.problem.dim) ** 0.5
