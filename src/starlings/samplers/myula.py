"""MYULA: the Moreau-Yosida unadjusted Langevin algorithm (Durmus, Moulines, Pereyra 2018).

With all rows at one place, the smooth potential f of their posterior, a penalty g that may have
kinks or be infinite, a step gamma and a smoothing s,

    x' = x - gamma grad f(x) - (gamma / s) (x - prox_{s g}(x)) + sqrt(2 gamma) xi           (1)

with xi ~ N(0, I): Langevin steps on the posterior whose g is replaced by its Moreau envelope,

    exp(-f - g^s),      g^s(x) = min_z g(z) + |z - x|^2 / 2s                                (2)

There are two errors, of the order of s and of the order of gamma: that of (2), in total variation
at most s K^2 for a g with slopes up to K, and that of Euler steps. Where g is a support, (2) has
soft edges, and draws are outside by about the root of s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox
from starlings.problem import Agent
from starlings.problem.penalties import Penalty, check_is_penalty, envelope_pull
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, PositionState, no_info
from starlings.samplers.one_place import OnePlaceSampler
from starlings.samplers.units import Units, along_main_knob


@pytree
@dataclass(frozen=True)
class MYULA(OnePlaceSampler):
    """Langevin steps with a smoothed penalty, at one place.

    Args:
        step_size: gamma, at most 1 / (L + 1 / s) for potentials with curvature up to L; stable
            below twice that.
        penalty: g, such as `starlings.Lasso(2.0)` or `starlings.Box(0.0, 1.0)`; with None it
            is unadjusted Langevin dynamics.
        smoothing: s, in units of squared parameters; 1 / L as published.
    """

    step_size: Any
    penalty: Penalty | None
    smoothing: Any

    noises = ("private",)
    card: ClassVar[Card] = Card(
        title="MYULA",
        exchanged="nothing: all rows are at one place",
        floats_per_parameter=0,
        bias="first order in the smoothing of the penalty, and in the step",
        reference="Durmus, Moulines, Pereyra 2018",
        not_masked="it runs at one place, and sends nothing",
        public_code="the Matlab code of split Gibbs has the noise sqrt(2 s) in place of "
        "sqrt(2 gamma): twice the standard deviation",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size, smoothing=self.smoothing)
        check_is_penalty(self.penalty, may_be_none=True)

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[MYULA]:
        """Steps g / M and the smoothing 1 / M, with the largest curvature M of the potential.

        There is no penalty unless one is given: the posterior is that of the problem.
        """
        own = {"penalty": None, "smoothing": 1 / units.curvature} | fixed
        return along_main_knob(cls, units, **own)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PositionState:
        """Start at `position`."""
        return PositionState(position)

    def step(
        self, agent: Agent, state: PositionState, inbox: Inbox, round: Round
    ) -> tuple[PositionState, Info]:
        """One round of eq. (1)."""
        x, gamma = state.position, self.step_size
        pull = agent.gradient(x) + envelope_pull(self.penalty, x, self.smoothing)
        position = x - gamma * pull + jnp.sqrt(2 * gamma) * round.private_noise(x)  # (1)
        return PositionState(position), no_info(x)
