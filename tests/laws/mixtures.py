"""The moments of chains whose rounds are drawn at random from a few linear ones, exactly.

In one round, with the probability of one of several cases,

    s' = T s + c + B w,     w ~ N(0, I)                                                     (1)

so that the law is a mixture of Gaussians, whose first two moments follow a linear recursion:

    E s' = E[T s + c],      E s's'' = E[(T s + c)(T s + c)' + B B']                         (2)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.theory import Recursion


class Case(NamedTuple):
    """Eq. (1) with a probability."""

    probability: float
    step: Recursion


def stationary_of_mixture(rounds: Sequence[Recursion]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance where each round is one of these with equal probability."""
    return stationary([Case(1 / len(rounds), step) for step in rounds])


def stationary(cases: Sequence[Case]) -> tuple[np.ndarray, np.ndarray]:
    """The fixed point of (2): mean and covariance."""
    size = len(cases[0].step.offset)
    T = sum(p * step.transition for p, step in cases)
    mean = np.linalg.solve(np.eye(size) - T, sum(p * step.offset for p, step in cases))
    square, rest = np.zeros((size**2, size**2)), np.zeros((size, size))
    for p, (A, c, B) in cases:
        square += p * np.kron(A, A)
        cross = np.outer(A @ mean, c)
        rest += p * (cross + cross.T + np.outer(c, c) + B @ B.T)
    assert np.abs(np.linalg.eigvals(square)).max() < 1
    second = np.linalg.solve(np.eye(size**2) - square, rest.ravel()).reshape(size, size)
    return mean, second - np.outer(mean, mean)


def iterates(problem, network, sampler, chains, burn_in, draws=1, apart=1, seed=0):
    """The hub's draws after so many cycles, (draw, chain, dim), and then every `apart` cycles."""
    shape = (chains, problem.num_agents, problem.dim)
    start = np.random.default_rng(1).normal(size=shape)
    how = Schedule(draws=draws, burn_in=2 * burn_in, thin=2 * apart)
    with jax.enable_x64(True):
        agents = problem.agents(network)
        run = loop.run(sampler, agents, network, jax.numpy.asarray(start), seed, how)
        return np.asarray(run.joined().position[:, :, 0])


def moment_scores(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Distances of means and second moments from exact ones, in estimated standard errors."""
    away = draws - mean
    products = (away[:, :, None] * away[:, None, :]).reshape(len(away), -1) - covariance.ravel()
    every = np.hstack([away, products])
    return every.mean(axis=0) / (every.std(axis=0, ddof=1) / np.sqrt(len(every)))
