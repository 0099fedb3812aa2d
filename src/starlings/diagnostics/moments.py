"""Means and variances of all draws, accumulated while they are read in pieces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from starlings.diagnostics.draws import READ_LIMITS, Draws, ReadLimits, all_entries, split_along


@dataclass
class HalfChainMoments:
    """Means and variances of the two halves of every chain.

    With an odd number of draws the last draw is a third part, which counts for the moments of an
    agent and not for the comparison of the halves.
    """

    count: np.ndarray
    """Number of draws of one chain in each part, with shape (part,)."""
    mean: np.ndarray
    """Means, with shape (part, chain, agent, entry)."""
    square: np.ndarray
    """Sums of squares about those means, with the same shape."""
    scatter: np.ndarray
    """Sums of squares of all draws about the average of the agents, with shape (entry,)."""

    @classmethod
    def read(cls, posterior: xr.Dataset, limits: ReadLimits = READ_LIMITS) -> HalfChainMoments:
        """Compute the moments in one pass through the draws."""
        half, entries = posterior.sizes["draw"] // 2, len(all_entries(posterior))
        shape = (3, posterior.sizes["chain"], posterior.sizes["agent"], entries)
        moments = cls(np.zeros(3), np.zeros(shape), np.zeros(shape), np.zeros(entries))
        for part, (first, last) in enumerate([(0, half), (half, 2 * half), (2 * half, None)]):
            draws = posterior.isel(draw=slice(first, last))
            for piece in split_along(draws, "draw", limits.block_bytes):
                moments._add(part, Draws.from_posterior(piece).values)
        return moments

    def _add(self, part: int, values: np.ndarray) -> None:
        """Add the next draws (chain, draw, agent, entry) of a part."""
        before, more = self.count[part], values.shape[1]
        mean = values.mean(axis=1)
        change = mean - self.mean[part]
        self.count[part] += more
        self.mean[part] += change * more / self.count[part]
        self.square[part] += ((values - mean[:, None]) ** 2).sum(axis=1)
        self.square[part] += change**2 * before * more / self.count[part]
        deviations = values - values.mean(axis=2, keepdims=True)
        self.scatter += (deviations**2).sum(axis=(0, 1, 2))

    def by_agent(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and the variance of all draws of every agent, each (agent, entry)."""
        weight = self.count[:, None, None, None]
        total = self.count.sum() * self.mean.shape[1]
        mean = (weight * self.mean).sum(axis=(0, 1)) / total
        square = self.square + weight * (self.mean - mean) ** 2
        return mean, square.sum(axis=(0, 1)) / total

    def mean_square_scatter(self) -> np.ndarray:
        """Return the mean squared distance of the agents from their average, (entry,)."""
        _, chains, agents, _ = self.mean.shape
        return self.scatter / (self.count.sum() * chains * agents)

    def least_stationary_agents(self) -> np.ndarray:
        """Return for each entry the agent whose half-chains have the most different means.

        It is the agent with the largest ratio of the variance between half-chains to the variance
        within them, and so the likeliest to have the largest R-hat.
        """
        within = (self.square[:2] / self.count[:2, None, None, None]).mean(axis=(0, 1))
        between = self.mean[:2].var(axis=(0, 1))
        return (between / np.maximum(within, np.finfo(float).tiny)).argmax(axis=0)
