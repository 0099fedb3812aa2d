"""Distances between the law of the draws in a round and the posterior.

The posterior is N(m, C), and its radius r = sqrt(tr C) the distance of the mode alone from it. For
an agent whose draw is N(m_i, S_i),

    W_i^2 = (|m_i - m|^2 + tr(S_i + C - 2 (C^1/2 S_i C^1/2)^1/2)) / r^2                        (1)

in posterior radii, and in one parameter, in posterior standard deviations,

    w_ij^2 = ((m_ij - m_j)^2 + (S_ijj^1/2 - C_jj^1/2)^2) / C_jj                                (2)

Reported are the mean of (1) over the agents, the worst, that of the average over the agents, and
the worst of (2) over agents and parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from starlings.problem import Problem
from starlings.theory import Moments

MEASURES = ("mean_agent", "worst_agent", "average", "worst_parameter")
"""The columns of distances, in this order."""
WORST = MEASURES.index("worst_agent")
"""The measure by which settings are judged."""
FLOOR_SAMPLES = 40
"""Samples of exact draws over which the distance is averaged that they show."""


class Measure(Protocol):
    """Distances from one posterior, in the order of `MEASURES`."""

    unit: str
    """The unit of the first three."""

    def of_draws(self, draws: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """The distances of draws (chain, agent, dim), of the agents that count."""

    def exact_draws(self, number: int, random: np.random.Generator) -> np.ndarray:
        """Draws (draw, dim) of the posterior."""

    def about(self) -> dict[str, Any]:
        """What stands for the posterior, in types that JSON has."""


@dataclass(frozen=True)
class GaussianMeasure:
    """Distances from a Gaussian posterior, eqs. (1) and (2)."""

    mean: np.ndarray
    """m."""
    covariance: np.ndarray
    """C."""
    unit = "posterior radii"

    @classmethod
    def of(cls, problem: Problem) -> GaussianMeasure:
        """The distances from the posterior of a quadratic problem."""
        return cls(*problem.exact_posterior())

    @cached_property
    def radius(self) -> float:
        """r."""
        return float(np.sqrt(np.trace(self.covariance)))

    @cached_property
    def _root(self) -> np.ndarray:
        """C^1/2."""
        values, vectors = np.linalg.eigh(self.covariance)
        return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T

    def of_gaussians(self, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
        """Eq. (1) for means (agent, dim) and covariances (agent, dim, dim)."""
        cross = np.linalg.eigvalsh(self._root @ covariances @ self._root)
        traces = np.trace(covariances, axis1=-2, axis2=-1) + np.trace(self.covariance)
        squares = np.sum((means - self.mean) ** 2, axis=-1) + traces
        squares -= 2 * np.sqrt(np.maximum(cross, 0)).sum(axis=-1)
        return np.sqrt(np.maximum(squares, 0)) / self.radius  # (1)

    def of_moments(self, moments: Moments, counted: np.ndarray) -> np.ndarray:
        """The distances of exact laws, of the agents that count."""
        size, dim = moments.mean.shape
        blocks = moments.covariance.reshape(size, dim, size, dim)[counted][:, :, counted]
        means, own = moments.mean[counted], np.arange(len(counted))
        of_average = blocks.mean(axis=(0, 2))
        return self._summarised(means, blocks[own, :, own], means.mean(axis=0), of_average)

    def of_draws(self, draws: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """The distances of Gaussians that are fitted to draws (chain, agent, dim)."""
        chosen = draws[:, counted]
        average = chosen.mean(axis=1)
        means, covariance = fitted(chosen.swapaxes(0, 1))
        return self._summarised(means, covariance, *fitted(average))

    def exact_draws(self, number: int, random: np.random.Generator) -> np.ndarray:
        """Draws (draw, dim) of the posterior."""
        return self.mean + random.standard_normal((number, len(self.mean))) @ self._root

    def about(self) -> dict[str, Any]:
        """The posterior is known, and so is its radius."""
        return {"reference": "exact", "radius": self.radius, "reference_floor": 0.0}

    def _summarised(
        self,
        means: np.ndarray,
        covariances: np.ndarray,
        average: np.ndarray,
        of_average: np.ndarray,
    ) -> np.ndarray:
        agents = self.of_gaussians(means, covariances)
        both = self.of_gaussians(average[None], of_average[None])
        variances = np.diagonal(covariances, axis1=-2, axis2=-1)
        own = np.diagonal(self.covariance)
        apart = (means - self.mean) ** 2 + (np.sqrt(np.maximum(variances, 0)) - np.sqrt(own)) ** 2
        worst = np.sqrt(apart / own).max()  # (2)
        return np.array([agents.mean(), agents.max(), both[0], worst])


def fitted(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances of draws (..., draw, dim)."""
    means = draws.mean(axis=-2)
    apart = draws - means[..., None, :]
    return means, apart.swapaxes(-1, -2) @ apart / draws.shape[-2]


def posterior_floor(measure: Measure, chains: int, seed: int) -> float:
    """The mean distance of `chains` exact draws of the posterior, which is not zero."""
    random = np.random.default_rng(seed)
    draws = measure.exact_draws(chains * FLOOR_SAMPLES, random)
    samples = draws.reshape(chains, FLOOR_SAMPLES, -1)
    return float(measure.of_draws(samples, np.arange(FLOOR_SAMPLES))[0])
