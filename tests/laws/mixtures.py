"""The moments of chains whose rounds are drawn at random from a few linear ones."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.theory import Recursion


def stationary_of_mixture(rounds: Sequence[Recursion]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance where each round is one of these with equal probability.

    The mean is a fixed point, and so is the second moment M = E[T M T' + T m c' + c m'T' + c c' +
    B B'], which is linear in M.
    """
    dim = len(rounds[0].offset)
    mean_transition = np.mean([T for T, _, _ in rounds], axis=0)
    m = np.linalg.solve(np.eye(dim) - mean_transition, np.mean([c for _, c, _ in rounds], axis=0))
    operator = np.mean([np.kron(T, T) for T, _, _ in rounds], axis=0)
    known = np.mean(
        [np.outer(T @ m, c) + np.outer(c, T @ m) + np.outer(c, c) + B @ B.T for T, c, B in rounds],
        axis=0,
    )
    second = np.linalg.solve(np.eye(dim**2) - operator, known.ravel()).reshape(dim, dim)
    return m, second - np.outer(m, m)


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
