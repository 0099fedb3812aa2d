"""D-SGHMC: decentralised stochastic gradient Hamiltonian Monte Carlo (Gurbuzbalaban et al. 2021).

With Metropolis weights W, step eta, friction gamma and a full or minibatch gradient g_i,

    v_i' = v_i - eta (gamma v_i + g_i(x_i)) + sqrt(2 gamma eta) u_i        (1)
    x_i' = sum_j W_ij x_j + eta v_i'                                       (2)

where u_i is `LangevinSampler.unit_noise`. Velocities start at N(0, I).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, no_info
from starlings.samplers.langevin import LangevinSampler
from starlings.samplers.units import Units
from starlings.solvers.gradients import gradient

FRICTIONS = 2.0 ** np.arange(-1, 4)
"""Frictions that a comparison tries, in units of the square root of the largest curvature."""


class DSGHMCState(NamedTuple):
    """What an agent needs from one round to the next."""

    position: Any
    """x_i."""
    velocity: Any
    """v_i, which is not sent."""


@pytree
@dataclass(frozen=True)
class DSGHMC(LangevinSampler):
    """Gossip on positions, underdamped Langevin on velocities.

    Args:
        step_size: eta.
        friction: gamma.
        noise: "private" (as published) or "coherent".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    friction: Any
    noise: str = choice(default="private")
    batch_size: int | None = choice(default=None)

    card: ClassVar[Card] = Card(
        title="D-SGHMC",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="first order in the step: agents pulled to their own modes, over-dispersed",
        reference="Gurbuzbalaban, Gao, Hu, Zhu 2021",
        masked_as="mix",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size, friction=self.friction)
        self.check_choices()

    @classmethod
    def published(cls, problem: Problem, network: Network) -> DSGHMC:
        """Step and friction of Tzikas et al. (2024) for linear regressions, and for others."""
        return cls(0.1, 7.0) if problem.is_quadratic else cls(0.02, 30.0)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[DSGHMC]:
        """Steps eta with eta^2 M = g, each with several frictions in units of sqrt(M)."""
        steps = np.sqrt(units.grid / units.curvature)
        frictions = FRICTIONS * np.sqrt(units.curvature)
        return [cls(float(e), float(f), **fixed) for f in frictions for e in steps if e * f <= 1]

    def init(self, agent: Agent, position: jax.Array, round: Round) -> DSGHMCState:
        """Start at `position` with a velocity from N(0, I)."""
        velocity = jax.random.normal(round.batch_key(), position.shape, position.dtype)
        return DSGHMCState(position, velocity)

    def step(
        self, agent: Agent, state: DSGHMCState, inbox: Inbox, round: Round
    ) -> tuple[DSGHMCState, Info]:
        """One round of eqs. (1) and (2)."""
        x, v = state
        eta, gamma = self.step_size, self.friction
        slope = gradient(agent, x, round, self.batch_size)
        kick = jnp.sqrt(2 * gamma * eta) * self.unit_noise(agent, round, x)
        velocity = v - eta * (gamma * v + slope) + kick  # (1)
        position = inbox.mix + eta * velocity  # (2)
        return DSGHMCState(position, velocity), no_info(x)
