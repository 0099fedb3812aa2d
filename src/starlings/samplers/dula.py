"""D-ULA: the decentralised unadjusted Langevin algorithm (Parayil, Bai, George, Gurram 2020).

With d_i neighbours, N agents, and steps alpha_k and zeta_k that may decay,

    x_i' = x_i - zeta_k (d_i x_i - sum_j x_j) - alpha_k N g_i(x_i) + sqrt(2 alpha_k N) u_i   (1)

    alpha_k, zeta_k = scale / (k + offset)^exponent,   k = 0, 1, ...                         (2)

where u_i is `LangevinSampler.unit_noise`. The network's average takes Langevin steps of alpha_k on
sum_i f_i.
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
from starlings.samplers.units import Units
from starlings.solvers.gradients import gradient

MANY = 50
"""Agents from which on Tzikas et al. (2024) let steps fall faster on complete networks."""
CONSENSUS_STEPS = (0.5, 1.0)
"""Consensus steps that a comparison tries, times the largest eigenvalue of the Laplacian."""


@pytree
@dataclass(frozen=True)
class Decay:
    """A step that falls as a power of the round, eq. (2)."""

    scale: Any
    """The numerator, in units of the step."""
    offset: Any = 1.0
    """Rounds that are added to k."""
    exponent: Any = 0.0
    """Between 0 (a constant step) and 1."""

    def __post_init__(self) -> None:
        check_positive(scale=self.scale, offset=self.offset)
        number = not isinstance(self.exponent, (bool, str))
        if not number or (isinstance(self.exponent, (int, float)) and not 0 <= self.exponent <= 1):
            raise ValueError(f"`exponent` must be between 0 and 1, got {self.exponent!r}.")

    def at(self, k: Any) -> Any:
        """The step of round k, counted from 0."""
        return self.scale / (k + self.offset) ** self.exponent

    def __float__(self) -> float:
        """The step of round 0, the longest of all."""
        return float(self.at(0))


def at_round(step: Any, k: Any) -> Any:
    """A step, or anything else that may be a number or a `Decay`, in round k, counted from 0."""
    return step.at(k) if isinstance(step, Decay) else step


class ConsensusLangevin(LangevinSampler):
    """A sampler with the step (1), and the fields `step_size` and `consensus_step`."""

    step_size: Any
    consensus_step: Any

    def check_steps(self) -> None:
        """Check both steps, which are numbers or `Decay`."""
        for name in ("step_size", "consensus_step"):
            value = getattr(self, name)
            if not isinstance(value, Decay):
                check_positive(**{name: value})

    def moved(self, agent: Agent, x: jax.Array, disagreement: jax.Array, round: Round) -> jax.Array:
        """x_i' of eq. (1), with `disagreement` in the place of d_i x_i - sum_j x_j."""
        n = agent.num_agents
        alpha, zeta = self.steps_at(round.index - 1)
        slope = gradient(agent, x, round, self.batch_size)
        kick = jnp.sqrt(2 * alpha * n) * self.unit_noise(agent, round, x)
        return x - zeta * disagreement - alpha * n * slope + kick  # (1)

    def steps_at(self, k: Any) -> tuple[Any, Any]:
        """The steps alpha_k and zeta_k, eq. (2)."""
        return at_round(self.step_size, k), at_round(self.consensus_step, k)


@pytree
@dataclass(frozen=True)
class DULA(ConsensusLangevin):
    """Consensus steps and gradient steps, each with its own schedule.

    Args:
        step_size: alpha, a number or a `Decay`; exact only as it goes to zero.
        consensus_step: zeta, a number or a `Decay`; stable below 2 / lambda_max(Laplacian).
        noise: "private" (as published) or "coherent".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    consensus_step: Any
    noise: str = choice(default="private")
    batch_size: int | None = choice(default=None)

    card: ClassVar[Card] = Card(
        title="D-ULA",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="first order in the step, gone only as the step decays to zero",
        reference="Parayil, Bai, George, Gurram 2020",
        masked_as="sum",
        public_code="in the code for decentralised MAHMC, noise of variance 1 where N is needed: "
        "the average has an N-th of the variance",
    )

    def __post_init__(self) -> None:
        self.check_steps()
        self.check_choices()

    @classmethod
    def published(cls, problem: Problem, network: Network) -> DULA:
        """The schedules of Tzikas et al. (2024), which fall faster where all are neighbours."""
        gradient, consensus = 0.05, 0.05
        if network.is_complete:
            gradient, consensus = (0.9, 0.9) if network.size >= MANY else (0.05, 0.55)
        return cls(Decay(0.00082, 230.0, gradient), Decay(0.48, 230.0, consensus))

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[DULA]:
        """Constant steps alpha N = g / M, with two constant consensus steps."""
        largest = units.network.laplacian_spectrum()[-1]
        ties = [part / largest for part in CONSENSUS_STEPS]
        steps = units.steps / units.network.size
        return [cls(float(step), float(tie), **fixed) for tie in ties for step in steps]

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PositionState:
        """Start at `position`."""
        return PositionState(position)

    def step(
        self, agent: Agent, state: PositionState, inbox: Inbox, round: Round
    ) -> tuple[PositionState, Info]:
        """One round of eq. (1)."""
        x = state.position
        disagreement = agent.degree * x - inbox.sum
        return PositionState(self.moved(agent, x, disagreement, round)), no_info(x)
