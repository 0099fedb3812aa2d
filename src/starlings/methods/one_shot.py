"""One shot: every agent draws from its own potential, and one exchange combines the draws.

Agent m of M has draws x_mt, t = 1..T, from its subposterior exp(-f_m): its rows, and its share 1/M
of the prior. With mean mu_m and covariance S_m of these draws, consensus Monte Carlo (Scott et al.
2016) makes the t-th draw of all

    x_t = (sum_m S_m^-1)^-1 sum_m S_m^-1 x_mt                                               (1)

and the parametric product (Neiswanger, Wang and Xing 2014) draws from N(mu, S) with

    S = (sum_m S_m^-1)^-1,      mu = S sum_m S_m^-1 mu_m                                    (2)

Both are sums over the agents, and exact where every subposterior is Gaussian. Two further products
of the same paper smooth the draws of every agent with Gaussian kernels of width h. Their product is
a mixture of T^M Gaussians, one for each choice t = (t_1, .., t_M) of a draw of every agent, with

    w_t = prod_m N(x_{m t_m}; xbar_t, h^2 I),      component N(xbar_t, h^2 I / M)           (3)

where xbar_t is the mean of the draws chosen (nonparametric), or, corrected by Gaussians,

    W_t = w_t N(xbar_t; mu, S + h^2 I / M) / prod_m N(x_{m t_m}; mu_m, S_m),
    component N(C (M h^-2 xbar_t + S^-1 mu), C),   C = (M h^-2 I + S^-1)^-1                 (4)

(semiparametric; the paper prints h for h^2 in (4)). Choices are drawn by Metropolis steps that
propose another draw of one agent after the other, h = i^(-1/(4 + dim)) for the i-th draw. The paper
leaves open in which unit h is. Here coordinates are such that mu = 0 and S = I / M, in which the
subposteriors have a standard deviation of about one. Both need the draws of every agent at every
agent, which cannot be masked.

Subposteriors that do not overlap, or have several modes, are combined wrongly by all four, and
nothing in the draws shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

COMBINATIONS = ("consensus", "parametric", "nonparametric", "semiparametric")
"""The names of the combinations, as values of the argument `method` of `sample`."""
BY_ALL_DRAWS = ("nonparametric", "semiparametric")
"""Those for which every agent needs the draws of all others."""


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian by its mean (dim,) and its precision, the inverse of its covariance."""

    mean: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> Gaussian:
        """The Gaussian with the mean and the covariance of draws (..., dim)."""
        flat = draws.reshape(-1, draws.shape[-1])
        return cls(flat.mean(axis=0), np.linalg.inv(np.atleast_2d(np.cov(flat.T))))

    @property
    def sums(self) -> np.ndarray:
        """What an agent adds to the sums of eq. (2): S_m^-1 and S_m^-1 mu_m, flat."""
        return np.concatenate([self.precision.ravel(), self.precision @ self.mean])

    @classmethod
    def product(cls, total: np.ndarray, dim: int) -> Gaussian:
        """The Gaussian of eq. (2), from the total of `sums`."""
        precision = total[: dim * dim].reshape(dim, dim)
        return cls(np.linalg.solve(precision, total[dim * dim :]), precision)  # (2)

    def at(self, standard: np.ndarray) -> np.ndarray:
        """The draws for standard normal numbers (..., dim)."""
        root = np.linalg.cholesky(self.precision)
        return self.mean + np.linalg.solve(root.T, standard[..., None])[..., 0]


def weighted(draws: np.ndarray) -> np.ndarray:
    """What an agent adds to the sums of eq. (1): S_m^-1, and S_m^-1 x_mt of its draws, flat."""
    precision = Gaussian.of(draws).precision
    return np.concatenate([precision.ravel(), (draws @ precision).ravel()])


def consensus(total: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The draws of eq. (1) of this shape (..., dim), from the total of `weighted`."""
    dim = shape[-1]
    precision, summed = total[: dim * dim].reshape(dim, dim), total[dim * dim :].reshape(shape)
    return np.linalg.solve(precision, summed[..., None])[..., 0]  # (1)


def combine(draws: np.ndarray) -> np.ndarray:
    """The draws of eq. (1) from those of all agents (agent, ..., dim)."""
    return consensus(np.sum([weighted(own) for own in draws], axis=0), draws.shape[1:])


class Randomness(NamedTuple):
    """Random numbers of one chain of draws by eq. (3) or (4)."""

    proposals: Any
    """The draw of each agent that is proposed, (draw, agent)."""
    log_chances: Any
    """Logarithms of uniform numbers, which accept the proposals, (draw, agent)."""
    standard: Any
    """Standard normal numbers, (draw, dim)."""


def mixture(draws: np.ndarray, randomness: Randomness, is_corrected: bool) -> np.ndarray:
    """Draws of one chain by eq. (3), or by eq. (4) if `is_corrected`: (draw, dim).

    Args:
        draws: those of all agents, (agent, candidate, dim).
        randomness: all random numbers, which decide on everything.
        is_corrected: whether Gaussians correct the kernels.
    """
    agents, _, dim = draws.shape
    own = [Gaussian.of(one) for one in draws]
    product = Gaussian.product(np.sum([one.sums for one in own], axis=0), dim)
    scale = np.linalg.inv(np.linalg.cholesky(product.precision)).T * np.sqrt(agents)
    z = np.linalg.solve(scale, (draws - product.mean)[..., None])[..., 0]
    log_own = np.array([_log_density(g, x) for g, x in zip(own, draws, strict=True)])
    steps = np.arange(1, len(randomness.standard) + 1)
    widths = steps ** (-1 / (4 + dim))
    log_own = log_own if is_corrected else np.zeros_like(log_own)
    mixed, _ = mixed_by_kernels(z, log_own, widths, randomness, is_corrected)
    return product.mean + np.asarray(mixed) @ scale.T


def _log_density(law: Gaussian, points: np.ndarray) -> np.ndarray:
    """log N(x; mu_m, S_m) up to a constant, (point,)."""
    deviations = points - law.mean
    return -0.5 * np.einsum("ta,ab,tb->t", deviations, law.precision, deviations)


class _Choice(NamedTuple):
    """A choice t of a draw of every agent, and sums over the agents of what is chosen."""

    numbers: Any
    """(agent,)"""
    total: Any
    """sum_m x_m, (dim,)."""
    squares: Any
    """sum_m |x_m|^2."""
    log_own: Any
    """sum_m log N(x_m; mu_m, S_m)."""


@partial(jax.jit, static_argnames="is_corrected")
def mixed_by_kernels(z, log_own, widths, randomness, is_corrected):
    """Draws by eq. (3) or (4) where mu = 0 and S = I / M, and the choices: (draw, dim), (draw, M).

    Args:
        z: draws of all agents in those coordinates, (agent, candidate, dim).
        log_own: log N(x; mu_m, S_m) of them, (agent, candidate).
        widths: the width h of each draw, (draw,).
        randomness: all random numbers.
        is_corrected: whether (4) is meant.
    """
    agents = len(z)
    squares = jnp.sum(z**2, axis=-1)

    def log_weight(choice: _Choice, h):
        mean = choice.total / agents
        spread = choice.squares - agents * mean @ mean
        log_w = -spread / (2 * h**2)  # (3)
        if not is_corrected:
            return log_w
        variance = (1 + h**2) / agents
        return log_w - mean @ mean / (2 * variance) - choice.log_own  # (4)

    def replaced(choice: _Choice, agent, number) -> _Choice:
        before = choice.numbers[agent]
        return _Choice(
            choice.numbers.at[agent].set(number),
            choice.total + z[agent, number] - z[agent, before],
            choice.squares + squares[agent, number] - squares[agent, before],
            choice.log_own + log_own[agent, number] - log_own[agent, before],
        )

    def sweep(choice: _Choice, step):
        h, (proposals, log_chances, standard) = step

        def one(agent, choice):
            other = replaced(choice, agent, proposals[agent])
            is_taken = log_chances[agent] < log_weight(other, h) - log_weight(choice, h)
            return jax.tree.map(lambda new, old: jnp.where(is_taken, new, old), other, choice)

        choice = jax.lax.fori_loop(0, agents, one, choice)
        mean, variance = choice.total / agents, h**2 / agents  # (3)
        if is_corrected:
            mean, variance = mean / (1 + h**2), variance / (1 + h**2)  # (4), C of these coordinates
        return choice, (mean + jnp.sqrt(variance) * standard, choice.numbers)

    first = jnp.zeros(agents, int)
    begun = _Choice(first, z[:, 0].sum(axis=0), squares[:, 0].sum(), log_own[:, 0].sum())
    return jax.lax.scan(sweep, begun, (widths, randomness))[1]
