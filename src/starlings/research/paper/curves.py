"""Curves of W2 against the round: from trials, from the exact law, and the error of the former.

A Monte Carlo curve fits a Gaussian to n trials and takes its distance from the posterior. The fit
is off by O(n^-1/2), so the distance is biased upwards and never falls to zero. What n trials would
show if the exact law N(m, S) were true is therefore drawn again and again (parametric bootstrap):

    mean ~ N(m, S / n),     n covariance ~ Wishart(S, n - 1),     independent              (1)

which is the law of mean and covariance (with divisor n) of n draws. With Bartlett's factor C, lower
triangular with c_jj^2 ~ chi2(n - j) for j = 1..d and N(0, 1) below the diagonal, and S = F F',

    n covariance = F C C' F'                                                                 (2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from starlings.network import Network
from starlings.problem import Problem
from starlings.random.addresses import chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.theory import law

AGENT = 0
"""The agent whose curve is shown, as in the released results."""
REPLICATES = 300
"""Repetitions of the bootstrap (1)."""
BOOTSTRAP_PERCENTILES = (2.5, 97.5)
"""Percentiles of the estimator that bound its band."""


@dataclass(frozen=True)
class Start:
    """The law N(mean, covariance) of every agent's first position, independent over agents."""

    mean: Any = 0.0
    covariance: Any = 1.0

    def draw(self, shape: tuple[int, int, int], seed: int) -> np.ndarray:
        """Positions (trial, agent, dim)."""
        spread = np.asarray(self.covariance, float)
        spread = spread * np.eye(shape[-1]) if spread.ndim == 0 else spread
        standard = np.random.default_rng(seed).normal(size=shape)
        return np.asarray(self.mean, float) + standard @ np.linalg.cholesky(spread).T


STANDARD = Start()


@dataclass(frozen=True)
class Path:
    """Gaussians N(means[k], covariances[k]) after rounds k = 0, 1, ...; any axes may lead."""

    means: np.ndarray
    covariances: np.ndarray

    @classmethod
    def fitted(cls, draws: np.ndarray) -> Path:
        """Gaussian fits to draws (..., round, trial, dim), covariances with divisor n."""
        means = draws.mean(axis=-2)
        centred = draws - means[..., None, :]
        return cls(means, centred.swapaxes(-1, -2) @ centred / draws.shape[-2])

    def refitted(self, trials: int, replicates: int, random: np.random.Generator) -> Path:
        """What fits to `trials` draws would be, eqs. (1) and (2), with replicates leading."""
        *_, rounds, dim = self.means.shape
        factors = _factors(self.covariances)
        shape = (replicates, rounds, dim)
        noise = random.normal(size=shape) / np.sqrt(trials)
        bartlett = np.tril(random.normal(size=(*shape, dim)), -1)
        degrees = trials - 1 - np.arange(dim)
        bartlett[..., range(dim), range(dim)] = np.sqrt(random.chisquare(degrees, size=shape))
        scaled = factors @ bartlett
        means = self.means + np.einsum("kij,rkj->rki", factors, noise)
        return Path(means, scaled @ scaled.swapaxes(-1, -2) / trials)

    def w2(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Distances from one Gaussian, for d = 2.

        With P = S^1/2 S' S^1/2, tr P^1/2 = (tr P + 2 det(P)^1/2)^1/2 and tr P = tr S S'.
        """
        apart = np.sum((self.means - mean) ** 2, axis=-1)
        traces = np.trace(self.covariances, axis1=-2, axis2=-1) + np.trace(covariance)
        product = np.einsum("...ij,ji->...", self.covariances, covariance)
        determinant = np.maximum(_determinant(self.covariances), 0) * _determinant(covariance)
        cross = np.sqrt(np.maximum(product + 2 * np.sqrt(determinant), 0))
        return np.sqrt(np.maximum(apart + traces - 2 * cross, 0))


def simulate(
    problem: Problem,
    network: Network,
    sampler: Any,
    start: np.ndarray,
    rounds: int,
    seed: int,
) -> np.ndarray:
    """Draws (round, trial, agent, dim) from round 0 on, all trials in one vectorised run.

    Unlike `sample` this neither refuses an unstable step nor stops when positions explode: a
    method that diverges is part of what the figures show.
    """
    network = network.matched_to(problem.sites)
    with jax.enable_x64(True):
        agents, positions = problem.agents(network), jnp.asarray(start)
        keys = chain_keys(seed, *start.shape[:2])
        together = loop.prepared(sampler, agents)
        states = loop.start(sampler, together, positions, keys).states
        first = np.array(loop.draws_of(sampler, together, states, 1, keys))
        recording = loop.run(
            sampler, agents, network, positions, seed, Schedule(draws=rounds), limit=np.inf
        )
    return np.concatenate([first[None], recording.joined().position])


def exact_paths(
    problem: Problem, network: Network, sampler: Any, rounds: int, start: Start
) -> dict[str, Path]:
    """The exact laws of the shown agent's draws and of their average over the agents."""
    moments = law(problem, network, sampler).moments(rounds, start.mean, start.covariance)
    pairs = [(m.agent(AGENT), m.average()) for m in moments]
    agent, average = (zip(*column, strict=True) for column in zip(*pairs, strict=True))
    return {
        "agent": Path(*(np.array(part) for part in agent)),
        "average": Path(*(np.array(part) for part in average)),
    }


def fitted_paths(draws: np.ndarray) -> dict[str, Path]:
    """Gaussian fits over the trials to the shown agent's draws and to their average."""
    return {"agent": Path.fitted(draws[:, :, AGENT]), "average": Path.fitted(draws.mean(axis=2))}


def w2_table(
    problem: Problem,
    network: Network,
    sampler: Any,
    *,
    rounds: int,
    trials: int,
    seed: int,
    start: Start = STANDARD,
) -> pd.DataFrame:
    """W2 from the posterior by target and round: estimated, exact, and the estimator's band."""
    first = start.draw((trials, problem.num_agents, problem.dim), seed)
    fits = fitted_paths(simulate(problem, network, sampler, first, rounds, seed))
    exact = exact_paths(problem, network, sampler, rounds, start)
    posterior = problem.exact_posterior()
    tables = [
        _target_table(exact[target], fits[target], posterior, trials, seed).assign(target=target)
        for target in exact
    ]
    return pd.concat(tables, ignore_index=True)


def _target_table(exact: Path, fit: Path, posterior: Any, trials: int, seed: int) -> pd.DataFrame:
    replicates = exact.refitted(trials, REPLICATES, np.random.default_rng(seed))
    table = band(replicates.w2(*posterior))
    return table.assign(monte_carlo=fit.w2(*posterior), exact=exact.w2(*posterior))


def band(replicates: np.ndarray) -> pd.DataFrame:
    """Expectation and band of the estimator by round, from replicates (replicate, round)."""
    low, high = np.percentile(replicates, BOOTSTRAP_PERCENTILES, axis=0)
    rounds = np.arange(replicates.shape[1])
    return pd.DataFrame(
        {"round": rounds, "expected": replicates.mean(axis=0), "low": low, "high": high}
    )


def _factors(covariances: np.ndarray) -> np.ndarray:
    """F with F F' = S, also where S is singular: ADMM's law shrinks to a point."""
    values, vectors = np.linalg.eigh(covariances)
    return vectors * np.sqrt(np.maximum(values, 0))[..., None, :]


def _determinant(matrices: np.ndarray) -> np.ndarray:
    a, b, c, d = (matrices[..., i, j] for i in (0, 1) for j in (0, 1))
    return a * d - b * c
