"""Peer-to-peer Bayesian learning (Lalitha, Shekhar, Javidi, Koushanfar 2018; Lalitha et al. 2019).

Every agent has a belief, a Gaussian with precision P_i and mean m_i, and no belief in the
beginning: P_i = 0. In each of its first T rounds it takes up a T-th of its own data,

    b_i(x) ~ q_i(x) exp(-(kappa f_i(x) + (N - kappa) p_i(x)) / T)                           (1)

where f_i is its potential, and p_i the part of the prior in f_i, 1/N of it. b_i is then replaced by
a Gaussian about its mode,

    full         P_i = -Hess log b_i at the mode m_i                                        (2)
    mean-field   the diagonal of that matrix                                                (3)

Neighbours mix the logarithms of their beliefs with the Metropolis weights W,

    log q_i' = sum_j W_ij log b_j,  so that  P_i' = sum_j W_ij P_j,                         (4)
                                             P_i' m_i' = sum_j W_ij P_j m_j

and an agent draws from what it believes,

    x_i = m_i + P_i^-1/2 w_i,     w_i ~ N(0, I)                                             (5)

Mixing makes averages over the N agents where the posterior has sums. With kappa = N ("network") the
beliefs become the posterior, each row counted once; with kappa = 1 ("published") they become that
of data which are N times weaker. Beliefs come together at the rate of gossip, and stay then: draws
of an agent are independent of each other from the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_choice, check_count
from starlings.network import Inbox, Network
from starlings.problem import Agent, Problem
from starlings.problem.likelihood import Derivatives, derivatives_of
from starlings.pytrees import choice, pytree
from starlings.random.addresses import Round
from starlings.samplers.base import Card, Info, Sampler, no_info
from starlings.solvers.newton import minimise
from starlings.solvers.objective import Objective

FAMILIES = ("full", "mean-field")
"""The families of beliefs, eqs. (2) and (3)."""
CALIBRATIONS = ("network", "published")
"""How often a row counts before beliefs are averaged, kappa of eq. (1): N times, or once."""
BELIEF_NOISES = ("private", "coherent")
"""w_i of eq. (5): drawn by each agent, or the same at all."""


class Belief(NamedTuple):
    """A Gaussian by the numbers that neighbours mix, eq. (4)."""

    precision: Any
    """P_i, (dim, dim); or its diagonal, (dim,)."""
    shift: Any
    """P_i m_i, (dim,)."""


class PeerLearningState(NamedTuple):
    """What an agent needs from one round to the next."""

    position: Any
    """x_i."""
    mean: Any
    """m_i, where the next mode is searched for; the starting point before there is a belief."""
    belief: Belief
    """What is sent."""


@pytree
@dataclass(frozen=True)
class PeerLearning(Sampler):
    """Gossip on Gaussian beliefs, from which every agent draws.

    Args:
        family: "full", or "mean-field" for beliefs without correlations, in fewer numbers.
        calibration: "network" for the posterior, or "published".
        updates: T, the rounds in which data are taken up. With more of them, modes are searched
            for where the network's posterior is, and not each site's own.
        noise: "private", or "coherent" for draws that agree.
    """

    family: str = choice(default="full")
    calibration: str = choice(default="network")
    updates: int = choice(default=1)
    noise: str = choice(default="private")

    card: ClassVar[Card] = Card(
        title="Peer-to-peer learning",
        exchanged="Gaussian belief: precisions and means",
        floats_per_parameter=1,
        floats_per_pair=1,
        bias="Gaussian beliefs about modes of single sites; mean-field: correlations are lost; "
        "published: data are weaker by the number of agents",
        reference="Lalitha, Shekhar, Javidi, Koushanfar 2018; Lalitha et al. 2019",
        masked_as="mix",
    )

    def __post_init__(self) -> None:
        check_choice(FAMILIES, family=self.family)
        check_choice(CALIBRATIONS, calibration=self.calibration)
        check_choice(BELIEF_NOISES, noise=self.noise)
        check_count(1, updates=self.updates)

    @property
    def noises(self) -> tuple[str, ...]:
        """The noise of eq. (5)."""
        return ("shared",) if self.noise == "coherent" else ("private",)

    def check(self, problem: Problem, network: Network) -> None:
        """Refuse tilts where the prior has to be told from the data."""
        frame = problem.frame
        is_tilted = frame is not None and (frame.linear_tilt.any() or frame.quadratic_tilt.any())
        if self.calibration == "published" and is_tilted:
            raise ValueError(
                "calibration='published' counts the prior N times and the data once, and cannot "
                "tell them apart in a tuned problem: give the original problem."
            )

    def floats(self, dim: int) -> int:
        """Numbers in one message about `dim` parameters."""
        return 2 * dim if self.family == "mean-field" else self.card.floats(dim)

    def gradients_per_round(self, problem: Problem) -> float:
        """None in the long run; see `gradients_until`."""
        return 0.0

    def gradients_until(self, rounds: np.ndarray, problem: Problem) -> np.ndarray:
        """A search for a mode, and the Hessian there, in each of the first T rounds."""
        return 2.0 * np.minimum(rounds, self.updates)

    @classmethod
    def published(cls, problem: Problem, network: Network) -> PeerLearning:
        """Every row counts once before beliefs are averaged."""
        return cls(calibration="published")

    def init(self, agent: Agent, position: jax.Array, round: Round) -> PeerLearningState:
        """Start without a belief; `position` is where the first mode is searched for."""
        shape = position.shape if self.family == "mean-field" else 2 * position.shape
        nothing = Belief(jnp.zeros(shape, position.dtype), jnp.zeros_like(position))
        return PeerLearningState(position, position, nothing)

    def message(self, state: PeerLearningState) -> jax.Array:
        """P_i, of which the upper triangle if it is a matrix, and P_i m_i."""
        precision, shift = state.belief
        if precision.ndim == 2:
            precision = precision[jnp.triu_indices(shift.size)]
        return jnp.concatenate([precision, shift])

    def step(
        self, agent: Agent, state: PeerLearningState, inbox: Inbox, round: Round
    ) -> tuple[PeerLearningState, Info]:
        """One round: eq. (4), then eqs. (1) to (3) if there are data left, and eq. (5)."""
        mixed = self._unpacked(inbox.mix, state.mean.size)  # (4)
        has_data = round.index <= self.updates
        learn = partial(self._learned, agent)
        belief, mean, info = jax.lax.cond(has_data, learn, _kept, mixed, state.mean)
        is_shared = self.noise == "coherent"
        noise = round.shared_noise(mean) if is_shared else round.private_noise(mean)
        position = mean + _over_root(belief.precision, noise)  # (5)
        return PeerLearningState(position, mean, belief), info

    def _unpacked(self, message: jax.Array, dim: int) -> Belief:
        """The belief of a message, or of a mix of messages."""
        packed, shift = message[:-dim], message[-dim:]
        if self.family == "mean-field":
            return Belief(packed, shift)
        upper = jnp.zeros((dim, dim), message.dtype).at[jnp.triu_indices(dim)].set(packed)
        return Belief(upper + jnp.triu(upper, 1).T, shift)

    def _learned(
        self, agent: Agent, belief: Belief, start: jax.Array
    ) -> tuple[Belief, jax.Array, Info]:
        """The belief with a T-th of the agent's data, its mean, and how well that was found."""
        precision, shift = _as_matrix(belief.precision), belief.shift

        def derivatives(z: jax.Array) -> Derivatives:
            value, slope, hessian = self._weighed(agent, z)
            product = precision @ z
            return (
                value + product @ z / 2 - shift @ z,
                slope + product - shift,
                hessian + precision,
            )

        cancelling = jnp.abs(shift @ start) + start @ precision @ start
        objective = Objective(lambda z: derivatives(z)[0], derivatives)
        found = minimise(objective, start, cancelling)
        bend = self._weighed(agent, found.point)[2] + precision  # (2)
        own = jnp.diagonal(bend) if self.family == "mean-field" else bend  # (3)
        learned = Belief(own, _as_matrix(own) @ found.point)
        return learned, found.point, Info(found.residual, found.iterations)

    def _weighed(self, agent: Agent, z: jax.Array) -> Derivatives:
        """What is taken up in one round, eq. (1), with its gradient and Hessian."""
        size = agent.num_agents / self.updates
        found = agent.derivatives(z)
        if self.calibration == "network":
            return jax.tree.map(lambda part: size * part, found)  # (1), kappa = N
        prior = derivatives_of(agent.prior_potential, z)
        rest = size - 1 / self.updates
        return jax.tree.map(lambda f, p: f / self.updates + rest * p, found, prior)  # (1)


def _kept(belief: Belief, start: jax.Array) -> tuple[Belief, jax.Array, Info]:
    """A belief that has no data to take up, with its mean."""
    mean = _solved(belief.precision, belief.shift)
    return belief, mean, no_info(mean)


def _as_matrix(precision: jax.Array) -> jax.Array:
    return jnp.diag(precision) if precision.ndim == 1 else precision


def _solved(precision: jax.Array, vector: jax.Array) -> jax.Array:
    """P^-1 v."""
    if precision.ndim == 1:
        return vector / precision
    return jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(precision), True), vector)


def _over_root(precision: jax.Array, noise: jax.Array) -> jax.Array:
    """L'^-1 w, of covariance P^-1 = (L L')^-1, with a triangular L."""
    if precision.ndim == 1:
        return noise / jnp.sqrt(precision)
    return jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(precision).T, noise, lower=False)
