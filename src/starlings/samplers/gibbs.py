"""Gibbs over networks, on the augmentation of consensus ADMM (after Yuan et al. 2023).

Agents and edges sample together from the law of positions x_i and of two points z of each edge,

    exp(-sum_i f_i(x_i) - (rho / 2) sum over both points z of all edges, both ends i, |x_i - z|^2)

Given the positions, the points of the edge {i, j} are N((x_i + x_j) / 2, I / 2 rho), and both ends
draw them from a seed of the edge; nothing but positions has to be sent. Agent i needs their sum
only. With d_i neighbours and one w_ij = w_ji ~ N(0, I) for each edge, it draws from the law of x_i
given the points,

    x_i' ~ exp(-f_i(x) - rho d_i |x|^2 + l_i'x),                                            (1)
    l_i  = rho (d_i x_i + sum_j x_j) + sqrt(rho) sum_j w_ij                                 (2)

which, but for noise, is the proximal step of ADMM without duals. With the mode m of (1) and the
Hessian K of -log of (1) at m, quadratic potentials have

    x_i' = m + K^-1/2 v_i,     v_i ~ N(0, I)                                                (3)

and others two Metropolis steps from x_i, the second of which starts where the first one ends:

    wide      candidate N(m, I / (2 rho d_i)): never stuck in a tail where f_i is convex    (4)
    narrow    candidate (3), which is nearly always taken near the mode                     (5)

Both leave (1) invariant, so that each round leaves the augmented law invariant, for every rho, with
no step size and no coordinator. In it the positions have the law

    exp(-sum_i f_i(x_i) - (rho / 2) sum over edges of |x_i - x_j|^2)                        (6)

in which agents differ. It comes to the posterior at all agents as rho grows, and rounds move less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from starlings.errors import check_positive
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.pytrees import pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, PositionState, Sampler
from starlings.solvers.proximal import prepared, proximal_point

LogDensity = Callable[[jax.Array], jax.Array]
"""The logarithm of a density, up to a constant."""


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
        """Private noise for eq. (3)."""
        return ("private",)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse agents that are tied to nobody."""
        if network.degrees.min() == 0:
            alone = network.names[int(network.degrees.argmin())]
            raise ValueError(
                f"Gibbs over networks ties agents to neighbours, and {alone!r} has none: add links."
            )

    def gradients_per_round(self, problem: Problem) -> float:
        """The search for the mode; for (4) and (5) also a Hessian, and the potential 4 times."""
        return 1.0 if problem.is_quadratic else 6.0

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
        mode = proximal_point(agent, pull, linear, start=x)
        info = Info(residual=mode.residual, iterations=mode.iterations)
        noise = round.private_noise(x)
        if agent.quadratic is not None:
            basis, values = agent.quadratic.basis, agent.quadratic.curvatures + pull
            position = mode.point + basis @ ((basis.T @ noise) / jnp.sqrt(values))  # (3)
            return PositionState(position), info

        def log_density(z: jax.Array) -> jax.Array:
            return linear @ z - agent.potential(z) - pull * (z @ z) / 2  # (1)

        kick, *choices = jax.random.split(round.batch_key(), 3)
        root = jnp.sqrt(pull) * jnp.eye(x.size, dtype=x.dtype)
        wide = jax.random.normal(kick, x.shape, x.dtype)
        bend = jnp.linalg.cholesky(
            agent.hessian(mode.point) + pull * jnp.eye(x.size, dtype=x.dtype)
        )
        tried = partial(_tried, log_density, mode.point)
        position = tried(tried(x, root, wide, choices[0]), bend, noise, choices[1])  # (4), (5)
        return PositionState(position), info


def _tried(
    log_density: LogDensity,
    mode: jax.Array,
    x: jax.Array,
    root: jax.Array,
    noise: jax.Array,
    key: jax.Array,
) -> jax.Array:
    """One Metropolis step: a candidate of covariance (L L')^-1 about the mode, with the root L."""

    def log_ratio(z: jax.Array) -> jax.Array:
        away = root.T @ (z - mode)
        return log_density(z) + away @ away / 2

    candidate = mode + jax.scipy.linalg.solve_triangular(root.T, noise, lower=False)
    threshold = -jax.random.exponential(key, dtype=x.dtype)  # the logarithm of a uniform number
    is_taken = log_ratio(candidate) - log_ratio(x) > threshold  # not where it is not a number
    return jnp.where(is_taken, candidate, x)
