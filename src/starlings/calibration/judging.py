"""Tests of the ranks of a calibration: are they uniform, and do intervals cover the true value?

Ranks r are whole numbers from 0 to L, one of each of n replications. With o_b ranks in bin b where
e_b are expected,

    X = sum_b (o_b - e_b)^2 / e_b                                                               (1)

is nearly chi-squared, with one degree of freedom less than there are bins.

The central interval that leaves k draws outside on either side covers the true value if

    k <= r <= L - k,   with probability (L + 1 - 2k) / (L + 1)                                  (2)

Coverage at levels between these probabilities is interpolated, which keeps its expectation right.
Over n replications the fraction c of intervals that cover has the Monte Carlo error

    sqrt(c (1 - c) / n)   at the nominal c                                                      (3)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import scipy.stats
import xarray as xr

MOST_BINS = 20
"""Number of bins of a rank histogram at most."""
FEWEST_PER_BIN = 5
"""Expected number of ranks in a bin at least: with fewer, eq. (1) is not chi-squared."""
INTERVALS = (0.5, 0.9)
"""Probabilities of the central intervals whose coverage is reported."""
SIGNIFICANCE = 0.01
"""Probability that the verdict rejects a calibrated sampler, over all tests together."""
NOTABLE = 3.0
"""Standard errors beyond which the verdict says that draws are shifted, too wide or too narrow."""


@dataclass(frozen=True)
class Calibration:
    """The ranks of true values among draws, and tests of their uniformity."""

    ranks: xr.DataArray
    """The ranks, (replication, agent, parameter)."""
    num_draws: int
    """L, the number of draws among which a true value is ranked."""

    @property
    def num_replications(self) -> int:
        """n, the number of replications."""
        return self.ranks.sizes["replication"]

    @cached_property
    def bins(self) -> np.ndarray:
        """Edges of the bins of ranks, as equally spaced as whole numbers can be."""
        possible = self.num_draws + 1
        wanted = min(MOST_BINS, possible, self.num_replications // FEWEST_PER_BIN)
        return np.linspace(0, possible, max(2, wanted) + 1).astype(int)

    @property
    def bin_probabilities(self) -> np.ndarray:
        """The probability of each bin, if ranks are uniform."""
        return np.diff(self.bins) / (self.num_draws + 1)

    @cached_property
    def counts(self) -> xr.DataArray:
        """o_b, the number of ranks in each bin, (agent, parameter, bin)."""
        bin_of = np.searchsorted(self.bins, self.ranks.values, side="right") - 1
        found = bin_of[..., None] == np.arange(len(self.bins) - 1)
        by_entry = self.ranks.isel(replication=0, drop=True)
        return by_entry.expand_dims(bin=found.shape[-1], axis=-1).copy(data=found.sum(axis=0))

    @cached_property
    def p_values(self) -> xr.DataArray:
        """The probability that uniform ranks have a larger X of eq. (1), (agent, parameter)."""
        expected = self.num_replications * self.bin_probabilities
        statistic = ((self.counts - expected) ** 2 / expected).sum("bin")  # (1)
        p_values = scipy.stats.chi2.sf(statistic, len(expected) - 1)
        return statistic.copy(data=p_values).rename("p_value")

    @cached_property
    def coverage_curve(self) -> tuple[np.ndarray, xr.DataArray]:
        """All levels of eq. (2), ascending, and the coverage at each, (level, agent, parameter)."""
        possible = self.num_draws + 1
        outside = range(possible // 2, -1, -1)
        levels = np.array([(possible - 2 * k) / possible for k in outside])
        covers = [(self.ranks >= k) & (self.ranks <= self.num_draws - k) for k in outside]  # (2)
        curve = xr.concat(covers, pd.Index(levels, name="level"))
        return levels, curve.mean("replication")

    def coverage(self, level: float) -> xr.DataArray:
        """The fraction of central intervals that cover the true value, (agent, parameter).

        Args:
            level: the probability of the interval, from 0 to 1.
        """
        return self.coverage_curve[1].interp(level=level)

    def coverage_error(self, level: float) -> float:
        """The Monte Carlo standard error of the coverage at a level, eq. (3)."""
        return float(np.sqrt(level * (1 - level) / self.num_replications))

    def table(self) -> pd.DataFrame:
        """One row for each entry of the parameters, with values of the agent worst in that column.

        Columns are the smallest p-value and its agent, and for each of `INTERVALS` the coverage
        farthest from its level and its Monte Carlo error.
        """
        p_values = self.p_values
        columns = {
            "p_value": p_values.min("agent").values,
            "agent": p_values["agent"].values[p_values.argmin("agent").values],
        }
        for level in INTERVALS:
            covered = self.coverage(level)
            worst = abs(covered - level).argmax("agent")
            columns[f"coverage_{level:.0%}"] = covered.isel(agent=worst).values
            columns[f"error_{level:.0%}"] = np.full(len(worst), self.coverage_error(level))
        return pd.DataFrame(columns, index=pd.Index(p_values["parameter"].values, name="parameter"))

    @property
    def threshold(self) -> float:
        """The p-value below which a test rejects, `SIGNIFICANCE` / number of tests (Bonferroni)."""
        return SIGNIFICANCE / self.p_values.size

    @property
    def ok(self) -> bool:
        """Whether no test of any agent and parameter rejects."""
        return bool(self.p_values.min() >= self.threshold)

    @property
    def verdict(self) -> str:
        """What the tests found, in a few sentences."""
        p_values = self.p_values
        agent, parameter = np.unravel_index(np.argmin(p_values.values), p_values.shape)
        where = f"{p_values['parameter'].values[parameter]} at {p_values['agent'].values[agent]}"
        smallest = (
            f"the smallest of {p_values.size} p-values is {float(p_values.min()):.2g} ({where}), "
            f"against a limit of {self.threshold:.2g}: {100 * SIGNIFICANCE:g} % shared among all"
        )
        if self.ok:
            return f"No problem was found in {self.num_replications} replications: {smallest}."
        failed = int((p_values < self.threshold).sum())
        fault = self._fault(self.ranks.values[:, agent, parameter])
        return (
            f"Not calibrated, for {failed} of {p_values.size} agents and parameters: {smallest}. "
            f"For {where} {fault}."
        )

    def _fault(self, ranks: np.ndarray) -> str:
        """What is wrong with draws, from the first two moments of ranks that are not uniform."""
        uniform = (ranks + 0.5) / (self.num_draws + 1) - 0.5
        root = np.sqrt(len(ranks))
        shift = root * uniform.mean() / np.sqrt(1 / 12)
        spread = root * (np.mean(uniform**2) - 1 / 12) / np.sqrt(1 / 180)
        if max(abs(shift), abs(spread)) < NOTABLE:
            return "the ranks are uneven, but neither shifted nor too wide or narrow"
        if abs(shift) > abs(spread):
            return f"the draws are too {'low' if shift > 0 else 'high'}"
        if spread < 0:
            return "the draws are too wide: the true values crowd in the middle of them"
        return (
            "the draws are too narrow, or not independent: the true values lie too often at their "
            "ends. Try a larger `thin`"
        )
