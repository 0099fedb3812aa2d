"""Gibbs over networks, on the augmentation of consensus ADMM (after Yuan et al. 2023).

Agents and edges sample together from the law of positions x_i and of two points z of each edge,

    exp(-sum_i f_i(x_i) - (rho / 2) sum over both points z of all edges, both ends i, |x_i - z|^2)

Given the positions, the points of the edge {i, j} are N((x_i + x_j) / 2, I / 2 rho), and both ends
draw them from a seed of the edge; nothing but positions has to be sent. Agent i needs their sum
only. With d_i neighbours and one w_ij = w_ji ~ N(0, I) for each edge, it draws from the law of x_i
given the points,

    x_i' ~ exp(-f_i(x) - rho d_i |x|^2 + l_i'x),                                            (1)
    l_i  = rho (d_i x_i + sum_j x_j) + sqrt(rho) sum_j w_ij                                 (2)

which, but for noise, is the proximal step of ADMM without duals. Quadratic potentials have the new
position drawn from (1), and others two Metropolis steps, see `samplers.conditional`. Either way
each round leaves the augmented law invariant, for every rho, with no step size and no coordinator.
In it the positions have the law

    exp(-sum_i f_i(x_i) - (rho / 2) sum over edges of |x_i - x_j|^2)                        (3)

in which agents differ. It comes to the posterior at all agents as rho grows, and rounds move less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, PositionState, Sampler
from starlings.samplers.conditional import drawn_near, passes_through_rows
from starlings.solvers.proximal import prepared


@pytree
@dataclass(frozen=True)
class NetworkGibbs(Sampler):
    """Each agent draws from its own potential, tied to points that it shares with neighbours.

    Args:
        rho: the strength of the ties. The larger, the nearer are agents to each other and to the
            posterior, and the slower is each of them.
    """

    rho: Any

    draws_edges = True
    card: ClassVar[Card] = Card(
        title="Gibbs over networks",
        exchanged="position x_i",
        floats_per_parameter=1,
        bias="first order in 1/rho: agents over-dispersed; their average is right where potentials "
        "are equal and quadratic",
        reference="Yuan, Fan, Liang, Wibisono, Chen 2023; points of edges as in C-ADMM: starlings",
        masked_as="sum",
    )

    def __post_init__(self) -> None:
        check_positive(rho=self.rho)

    @property
    def noises(self) -> tuple[str, ...]:
        """Private noise for the draw from eq. (1)."""
        return ("private",)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse agents that are tied to nobody."""
        if network.degrees.min() == 0:
            alone = network.names[int(network.degrees.argmin())]
            raise ValueError(
                f"Gibbs over networks ties agents to neighbours, and {alone!r} has none: add links."
            )

    def gradients_per_round(self, problem: Problem) -> float:
        """Those of a draw from eq. (1)."""
        return passes_through_rows(problem)

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PositionState:
        """Start at `position`."""
        return PositionState(position)

    def prepare(self, agent: Agent) -> Agent:
        """Compute the matrix of the mode of (1), if the potential is quadratic."""
        return prepared(agent, 2 * self.rho * agent.degree)

    def step(
        self, agent: Agent, state: PositionState, inbox: Inbox, round: Round
    ) -> tuple[PositionState, Info]:
        """One round of eqs. (1) and (2)."""
        x, pull = state.position, 2 * self.rho * agent.degree
        ties = jnp.sqrt(self.rho) * round.edge_noise(agent.index, agent.neighbours, x)
        linear = self.rho * (agent.degree * x + inbox.sum) + ties  # (2)
        noise, key = round.private_noise(x), round.batch_key()
        position, mode = drawn_near(agent, pull, linear, x, noise, key)  # (1)
        return PositionState(position), Info(residual=mode.residual, iterations=mode.iterations)
