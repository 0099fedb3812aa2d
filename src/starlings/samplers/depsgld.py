"""DE-PSGLD: D-SGLD with a penalty or on a constrained support (Islam, Zhu 2026).

With Metropolis weights W, step eta, a penalty h with the proximal map prox, and a smoothing s,

    x_i' = sum_j W_ij x_j - eta (g_i(x_i) + (x_i - prox_{s h}(x_i)) / (N s)) + sqrt(2 eta) u_i  (1)

where g_i is a full or minibatch gradient and u_i is `LangevinSampler.unit_noise`. Summed over the N
agents, the pull of the penalty is the gradient of its Moreau envelope h^s: the network's average
takes Langevin steps of eta / N on

    sum_i f_i(x) + h^s(x),      h^s(x) = min_z h(z) + |z - x|^2 / 2s                        (2)

which comes to the posterior with the penalty as s goes to zero, with steps that have to be shorter
than N s. The paper has this for a convex set K, whose proximal map is the projection P, so that h^s
is |x - P(x)|^2 / 2s. Draws are then outside of K by about the root of s, and `penalty.project`
brings a draw to the nearest point. Under a `Lasso` no draw is exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.problem.penalties import Penalty, check_fits, check_is_penalty, envelope_pull
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, PositionState, no_info
from starlings.samplers.langevin import LangevinSampler
from starlings.samplers.units import Units, along_main_knob
from starlings.solvers.gradients import gradient


@pytree
@dataclass(frozen=True)
class DEPSGLD(LangevinSampler):
    """Gossip, then a Langevin step with the pull of a smoothed penalty.

    Args:
        step_size: eta; stable below (1 + lambda_min(W)) / (L + 1 / (N s)) for potentials with
            curvature up to L.
        penalty: h, a support such as `starlings.Box(0.0, 1.0)`, or a penalty such as
            `starlings.Lasso(2.0)`, in the model's unconstrained coordinates; with None it is
            D-SGLD.
        smoothing: s, in units of squared parameters: the variance of a Gaussian edge of a support.
        noise: "private" (as published) or "coherent".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    penalty: Penalty | None
    smoothing: Any
    noise: str = choice(default="private")
    batch_size: int | None = choice(default=None)

    card: ClassVar[Card] = Card(
        title="DE-PSGLD",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="the penalty is smoothed, a support has soft edges; that of D-SGLD: agents pulled to "
        "their own modes, over-dispersed",
        reference="Islam, Zhu 2026",
        masked_as="mix",
        public_code="agents are moved one after the other, and some read new positions of others",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size, smoothing=self.smoothing)
        check_is_penalty(self.penalty, may_be_none=True)
        self.check_choices()

    @classmethod
    def candidates(cls, units: Units, **fixed: Any) -> list[DEPSGLD]:
        """Steps g / M and the smoothing 1 / M, in the unit of a pull of curvature M.

        There is no penalty unless one is given: the posterior is that of the problem.
        """
        own = {"penalty": None, "smoothing": 1 / units.curvature} | fixed
        return along_main_knob(cls, units, **own)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse other coordinates, in which the penalty would be another one, and its size."""
        check_fits(self.penalty, problem, self.card.title)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PositionState:
        """Start at `position`."""
        return PositionState(position)

    def step(
        self, agent: Agent, state: PositionState, inbox: Inbox, round: Round
    ) -> tuple[PositionState, Info]:
        """One round of eq. (1)."""
        x, eta = state.position, self.step_size
        slope = gradient(agent, x, round, self.batch_size)
        pull = envelope_pull(self.penalty, x, self.smoothing) / agent.num_agents
        kick = jnp.sqrt(2 * eta) * self.unit_noise(agent, round, x)
        position = inbox.mix - eta * (slope + pull) + kick  # (1)
        return PositionState(position), no_info(x)
