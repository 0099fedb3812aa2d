"""DE-PSGLD: D-SGLD on a constrained support (Islam, Zhu 2026).

With Metropolis weights W, step eta, a convex set K with the projection P, and a smoothing s,

    x_i' = sum_j W_ij x_j - eta (g_i(x_i) + (x_i - P(x_i)) / (N s)) + sqrt(2 eta) u_i       (1)

where g_i is a full or minibatch gradient and u_i is `LangevinSampler.unit_noise`. Summed over the N
agents, the pull to the support is the gradient of the potential |x - P(x)|^2 / 2s: the network's
average takes Langevin steps of eta / N on

    sum_i f_i(x) + |x - P(x)|^2 / 2s                                                        (2)

which comes to the posterior on K as s goes to zero, with steps that have to be shorter than N s.
Draws are outside of K by about the root of s; `support.project` brings a draw to the nearest point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.problem.supports import Support
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, PositionState, no_info
from starlings.samplers.langevin import LangevinSampler
from starlings.solvers.gradients import gradient


@pytree
@dataclass(frozen=True)
class DEPSGLD(LangevinSampler):
    """Gossip, then a Langevin step with a pull to the support.

    Args:
        step_size: eta; stable below (1 + lambda_min(W)) / (L + 1 / (N s)) for potentials with
            curvature up to L.
        support: K, such as `starlings.Box(0.0, 1.0)`, in the model's unconstrained coordinates.
        smoothing: s, in units of squared parameters: the variance of a Gaussian edge of the
            support.
        noise: "private" (as published) or "coherent".
        batch_size: rows of a minibatch, drawn with replacement; all rows if None.
    """

    step_size: Any
    support: Support
    smoothing: Any
    noise: str = choice(default="private")
    batch_size: int | None = choice(default=None)

    card: ClassVar[Card] = Card(
        title="DE-PSGLD",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="the support has soft edges; that of D-SGLD: agents pulled to their own modes, "
        "over-dispersed",
        reference="Islam, Zhu 2026",
        masked_as="mix",
        public_code="agents are moved one after the other, and some read new positions of others",
    )

    def __post_init__(self) -> None:
        check_positive(step_size=self.step_size, smoothing=self.smoothing)
        if not isinstance(self.support, Support):
            raise TypeError(
                "`support` must be a `starlings.Box`, `Ball` or `Simplex`, such as "
                f"`Box(0.0, 1.0)`, got {self.support!r}."
            )
        self.check_choices()

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse other coordinates, in which the support would be another set, and its size."""
        if problem.frame is not None:
            raise ValueError(
                "the support of DE-PSGLD is a set in the model's own coordinates, and the problem "
                "was moved to others: give the original problem."
            )
        try:
            jax.eval_shape(self.support.project, jax.ShapeDtypeStruct((problem.dim,), jnp.float32))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`support` does not fit a model of {problem.dim} parameters: {error}"
            ) from None

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PositionState:
        """Start at `position`."""
        return PositionState(position)

    def step(
        self, agent: Agent, state: PositionState, inbox: Inbox, round: Round
    ) -> tuple[PositionState, Info]:
        """One round of eq. (1)."""
        x, eta = state.position, self.step_size
        slope = gradient(agent, x, round, self.batch_size)
        pull = self.support.outside(x) / (agent.num_agents * self.smoothing)
        kick = jnp.sqrt(2 * eta) * self.unit_noise(agent, round, x)
        position = inbox.mix - eta * (slope + pull) + kick  # (1)
        return PositionState(position), no_info(x)
