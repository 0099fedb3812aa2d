"""Midpoint D-ADMMS: the midpoint rule instead of implicit Euler, for twice the messages.

With d_i neighbours, penalty rho and the coherent noise n_i of `dadmms` divided by sqrt(2),

    p_i = p_i + rho (d_i y_i - sum_j y_j)               (p_i = 0 in the first round)   (1)
    y_i' = argmin_y f_i(y) + rho d_i |y|^2 - l_i'y,                                    (2)
    l_i  = rho (d_i x_i + sum_j x_j) - p_i - n_i / sqrt(2)
    x_i' = 2 y_i' - (d_i x_i + sum_j x_j) / (2 d_i)                                    (3)

If all potentials are equal, (2) is half an implicit step of Langevin dynamics and (3) doubles it:
the midpoint rule, which leaves a Gaussian posterior exactly invariant at any step. The reflection
is about the mean of the neighbourhood; about x_i itself it would be unstable on bipartite graphs.
Neighbours need both x and y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox
from starlings.problem.agent import Agent
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, Sampler, UnitPosterior
from starlings.samplers.dadmms import coherent_noise
from starlings.solvers.proximal import prepared, proximal_point


class MidpointState(NamedTuple):
    """What an agent needs from one round to the next."""

    position: Any
    """x_i."""
    midpoint: Any
    """y_i."""
    dual: Any
    """p_i of the round before."""


@pytree
@dataclass(frozen=True)
class MidpointADMMS(Sampler):
    """D-ADMMS by the midpoint rule, with coherent noise.

    Args:
        rho: the penalty. The step of the network's average is 1 / (2 rho |E|), twice that of
            `DADMMS`.
    """

    rho: Any

    card: ClassVar[Card] = Card(
        title="Midpoint D-ADMMS",
        exchanged="position x_i, midpoint y_i",
        floats_per_parameter=2,
        bias="none for Gaussians where agents are alike, else second order",
        reference="starlings",
        masked_as="sum",
    )

    def __post_init__(self) -> None:
        check_positive(rho=self.rho)

    @classmethod
    def tuned(cls, unit: UnitPosterior, **choices: Any) -> MidpointADMMS:
        """A sampler with the penalty of `DADMMS`, which makes twice the step here."""
        return cls(unit.rho)

    @property
    def noises(self) -> tuple[str, ...]:
        """Shared noise: the noise is coherent."""
        return ("shared",)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> MidpointState:
        """Start at `position` with p_i = 0."""
        return MidpointState(position, position, jnp.zeros_like(position))

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of (2), if the potential is quadratic."""
        return prepared(agent, 2 * self.rho * agent.degree)

    def message(self, state: MidpointState) -> jax.Array:
        """The position x_i and the midpoint y_i."""
        return jnp.concatenate([state.position, state.midpoint])

    def step(
        self, agent: Agent, state: MidpointState, inbox: Inbox, round: Round
    ) -> tuple[MidpointState, Info]:
        """One round of eqs. (1) to (3)."""
        positions, midpoints = jnp.split(inbox.sum, 2)
        gain = jnp.where(round.index == 1, 0.0, self.rho)
        dual = state.dual + gain * (agent.degree * state.midpoint - midpoints)  # (1)
        around = agent.degree * state.position + positions
        noise = coherent_noise(self.rho, agent, round, state.position) / jnp.sqrt(2.0)
        linear = self.rho * around - dual - noise
        curvature = 2 * self.rho * agent.degree
        solution = proximal_point(agent, curvature, linear, start=state.midpoint)  # (2)
        mean = around / (2 * jnp.maximum(agent.degree, 1))
        position = 2 * solution.point - mean  # (3)
        info = Info(residual=solution.residual, iterations=solution.iterations)
        return MidpointState(position, solution.point, dual), info
