"""Linear-Gaussian recursions: the exact law of a sampler on quadratic potentials, round by round.

With quadratic potentials f_i(x) = x'H_i x / 2 - b_i'x, one round of a sampler whose step is linear
in its state and in its noise is, for the states s of all agents stacked into one vector,

    s' = T s + c + B w,      w ~ N(0, I)                                                  (1)
    draws = E s + e,         e ~ N(0, R)                                                  (2)

where E picks the positions, which come first in s, and e is noise that only the recorded draws
have (R = 0 for most samplers). Means and covariances then are known at every round and in the
limit:

    mean' = T mean + c,      cov' = T cov T' + B B'                                       (3)

Stacked vectors hold the parameters of agent 0, then those of agent 1, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from starlings.errors import StabilityError

NEGLIGIBLE_POWER = 1e-18
"""Largest entry of T^k below which the sum of T^k B B' T'^k has converged in float64; no unit."""

ROUNDING_OF_1 = 1e-10
"""Largest distance from 1 at which a computed eigenvalue of a round counts as 1; no unit."""


class Recursion(NamedTuple):
    """The matrices of one round, eq. (1)."""

    transition: np.ndarray
    """T, (state, state)."""
    offset: np.ndarray
    """c, (state,)."""
    noise: np.ndarray
    """B, (state, number of independent standard normal variables)."""

    def spectral_radius(self) -> float:
        """The largest modulus of an eigenvalue of T: the factor of the slowest mode per round."""
        return float(np.max(np.abs(np.linalg.eigvals(self.transition))))

    def followed_by(self, other: Recursion) -> Recursion:
        """This round and then another one, as one round."""
        T, c, B = other
        noise = np.hstack([T @ self.noise, B])
        return Recursion(T @ self.transition, T @ self.offset + c, noise)

    def has_eigenvalue_1(self) -> bool:
        """Whether T has the eigenvalue 1, up to rounding: a combination of the state stays."""
        return bool(np.min(np.abs(np.linalg.eigvals(self.transition) - 1)) < ROUNDING_OF_1)


@dataclass(frozen=True)
class Moments:
    """Mean and covariance of the draws of all agents together, at one round."""

    mean: np.ndarray
    """(agents, dim)."""
    covariance: np.ndarray
    """(agents dim, agents dim), of the stacked draws."""

    def agent(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Mean (dim,) and covariance (dim, dim) of the draw of one agent."""
        dim = self.mean.shape[1]
        block = slice(index * dim, (index + 1) * dim)
        return self.mean[index], self.covariance[block, block]

    def average(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (dim,) and covariance (dim, dim) of the average draw over the agents."""
        size, dim = self.mean.shape
        blocks = self.covariance.reshape(size, dim, size, dim)
        return self.mean.mean(axis=0), blocks.mean(axis=(0, 2))

    def worst_agent_w2(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        """The largest 2-Wasserstein distance between the law of an agent's draw and a Gaussian."""
        agents = range(len(self.mean))
        return max(gaussian_w2(*self.agent(i), mean, covariance) for i in agents)


@dataclass(frozen=True)
class Law:
    """The law of one sampler on one quadratic problem and network.

    With s the states of all agents in one vector, the positions of all agents first, one round is
    s' = T s + c + B w with w ~ N(0, I), and the draws are the positions plus noise e ~ N(0, R).

    A combination of the state that no round changes, such as a sum of duals that stays zero, gives
    T the eigenvalue 1, and then there is no stationary law. Leave it out: write that part of the
    state in a basis of what can change.

    Args:
        shape: (agents, dim), with dim the number of parameters.
        recursion: gives T, c and B of round k = 1, 2, ... as a `Recursion`. The first agents x dim
            entries of the state are the positions; `Law.constant` takes one `Recursion` for all k.
        readout_covariance: R, the covariance of noise that only the recorded draws have,
            (agents dim, agents dim); None for zero.
        varies: whether the matrices change from round to round, as where a step size decays.
        rest_covariance: the covariance, at the start, of the entries of the state after the
            positions, such as velocities; their mean is zero. None for zero, as for duals.
        mean_only: None if mean and covariance both follow from T, c, B and R. Otherwise one
            sentence that says why only the mean does, as for minibatches, whose noise depends on
            the state.
        cycle: after how many rounds the same matrices come again, from the second cycle on. The
            stationary law is then that of the draws at the ends of cycles.
    """

    shape: tuple[int, int]
    recursion: Callable[[int], Recursion]
    readout_covariance: np.ndarray | None = None
    varies: bool = False
    rest_covariance: np.ndarray | None = None
    mean_only: str | None = None
    cycle: int = 1

    @classmethod
    def constant(cls, shape: tuple[int, int], step: Recursion, **fields: Any) -> Law:
        """The law of a sampler whose rounds all have the same matrices."""
        return cls(shape, lambda k: step, **fields)

    def whole_cycle(self) -> Recursion:
        """All rounds of a cycle after the first one as one round."""
        first, *rest = (self.recursion(self.cycle + 1 + k) for k in range(self.cycle))
        for step in rest:
            first = first.followed_by(step)
        return first

    def moments(
        self, rounds: int, initial_mean: Any = 0.0, initial_covariance: Any = 1.0
    ) -> Iterator[Moments]:
        """Mean and covariance of the draws after 0, 1, ..., `rounds` rounds.

        Args:
            rounds: the number of rounds.
            initial_mean: positions start independently at every agent from a Gaussian; this is
                its mean for one agent, a vector or one number for all parameters.
            initial_covariance: its covariance, a matrix or a multiple of the identity.
        """
        mean, covariance = self.begun(initial_mean, initial_covariance)
        yield self.read(mean, covariance)
        for k in range(1, rounds + 1):
            T, c, B = self.recursion(k)
            mean, covariance = T @ mean + c, T @ covariance @ T.T + B @ B.T  # (3)
            yield self.read(mean, covariance)

    def stationary(self) -> Moments:
        """The limit of (3): the fixed point of the mean, and the sum of T^k B B' T'^k."""
        return self.read(*self._stationary_state())

    def autocorrelation_rounds(self, agent: int = 0) -> np.ndarray:
        """The integrated autocorrelation time of each parameter at one agent, in rounds.

        It is the time of the position, without the noise e of (2). With S the stationary
        covariance of the state, S_k = T^k S the covariance at lag k,

            1 + 2 sum_{k>0} corr_k = (2 (I - T)^-1 S - S) / S,  on the diagonal           (4)
        """
        _, covariance = self._stationary_state()
        T = self.whole_cycle().transition
        summed = 2 * np.linalg.solve(np.eye(len(T)) - T, covariance) - covariance
        block = slice(agent * self.shape[1], (agent + 1) * self.shape[1])
        return self.cycle * np.diag(summed)[block] / np.diag(covariance)[block]  # (4)

    def relaxation_rounds(self) -> float:
        """The number of rounds in which the slowest mode shrinks by a factor e."""
        return -self.cycle / np.log(self.whole_cycle().spectral_radius())

    def _stationary_state(self) -> tuple[np.ndarray, np.ndarray]:
        if self.varies:
            raise ValueError(
                "a sampler whose steps decay has no stationary law; give it constant steps, or ask "
                "for `moments` after some rounds."
            )
        step = self.whole_cycle()
        radius = step.spectral_radius()
        if radius >= 1:
            raise StabilityError(
                f"no stationary law: the spectral radius of one round is {radius:.6g}, and it must "
                "be below 1. A smaller step size may help, unless a combination of the state never "
                "changes: leave it out of the state, see `help(starlings.theory.Law)`."
            )
        T, c, B = step
        mean = np.linalg.solve(np.eye(len(T)) - T, c)
        covariance, power = B @ B.T, T
        while np.abs(power).max() > NEGLIGIBLE_POWER:  # doubles the number of terms
            covariance = covariance + power @ covariance @ power.T
            power = power @ power
        return mean, covariance

    def begun(
        self, initial_mean: Any = 0.0, initial_covariance: Any = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of the whole state before round 1, from those of `moments`."""
        size, dim = self.shape
        position = np.broadcast_to(np.asarray(initial_mean, float), (size, dim)).ravel()
        spread = np.asarray(initial_covariance, float)
        spread = np.kron(np.eye(size), spread * np.eye(dim) if spread.ndim == 0 else spread)
        extra = len(self.recursion(1).offset) - len(position)
        rest = np.zeros((extra, extra)) if self.rest_covariance is None else self.rest_covariance
        mean = np.concatenate([position, np.zeros(extra)])
        return mean, scipy.linalg.block_diag(spread, rest)

    def read(self, mean: np.ndarray, covariance: np.ndarray) -> Moments:
        """Mean and covariance of the draws, from those of the state."""
        count = self.shape[0] * self.shape[1]
        draws = covariance[:count, :count]
        if self.readout_covariance is not None:
            draws = draws + self.readout_covariance  # (2)
        return Moments(mean[:count].reshape(self.shape), draws)


def gaussian_w2(
    mean: np.ndarray, covariance: np.ndarray, other_mean: np.ndarray, other_covariance: np.ndarray
) -> float:
    """The 2-Wasserstein distance between two Gaussians.

    W2^2 = |m - m'|^2 + tr(S + S' - 2 (S^1/2 S' S^1/2)^1/2)

    >>> import numpy as np
    >>> gaussian_w2(np.zeros(1), np.eye(1), np.full(1, 3.0), 25 * np.eye(1))
    5.0
    """
    values, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    cross = np.linalg.eigvalsh(root @ other_covariance @ root)
    trace = np.trace(covariance) + np.trace(other_covariance)
    trace -= 2 * np.sqrt(np.maximum(cross, 0)).sum()
    return float(np.sqrt(max(0.0, np.sum((mean - other_mean) ** 2) + trace)))
