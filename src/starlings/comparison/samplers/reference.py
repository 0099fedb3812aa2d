"""What stands for a posterior that is not Gaussian: many draws, by an exact method or by the user.

In each parameter a sample of n draws of an agent is compared with the reference in that parameter,

    w_ij^2 = (1/n) sum_k (x_(k) - q_k)^2 / s_j^2                                              (1)

with x_(k) the draws in ascending order, q_k the quantile (k - 1/2) / n of the reference and s_j its
standard deviation. The distance of an agent is the root of the mean of (1) over the parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from starlings.network import Network
from starlings.problem import Parameters, Problem
from starlings.sampling import sample

REFERENCE_CHAINS, REFERENCE_DRAWS = 64, 250
"""Chains of the reference run, and the draws of each."""
FEWEST_DRAWS = 1000
"""Fewest draws that a reference may have."""


@dataclass(frozen=True)
class MarginalMeasure:
    """Distances from reference draws (draw, dim), parameter by parameter, eq. (1)."""

    draws: np.ndarray
    source: str
    """Who made the draws, in words."""
    error: float
    """The Monte Carlo error of their means, in posterior standard deviations; nan if unknown."""
    unit = "posterior sds"
    _quantiles: dict[int, np.ndarray] = field(default_factory=dict)

    @cached_property
    def spread(self) -> np.ndarray:
        """s_j, (dim,)."""
        return self.draws.std(axis=0)

    @cached_property
    def _sorted(self) -> np.ndarray:
        return np.sort(self.draws, axis=0)

    def of_draws(self, draws: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """The distances of draws (chain, agent, dim), of the agents that count."""
        chosen = draws[:, counted]
        agents = self._by_parameter(chosen)
        of_average = self._by_parameter(chosen.mean(axis=1, keepdims=True))
        whole = np.sqrt((agents**2).mean(axis=-1))
        both = float(np.sqrt((of_average**2).mean()))
        return np.array([whole.mean(), whole.max(), both, agents.max()])

    def exact_draws(self, number: int, random: np.random.Generator) -> np.ndarray:
        """Some of the reference draws."""
        return self.draws[random.integers(len(self.draws), size=number)]

    def about(self) -> dict[str, Any]:
        """Who made the draws, their error, and how far one half of them is from the other."""
        known = {} if math.isnan(self.error) else {"reference_error": self.error}
        counts = {"reference": self.source, "reference_draws": len(self.draws)}
        return counts | known | {"reference_floor": self.halves()}

    def halves(self) -> float:
        """The distance of the first half of the reference draws from the second one."""
        half = len(self.draws) // 2
        second = MarginalMeasure(self.draws[half : 2 * half], self.source, self.error)
        return float(second.of_draws(self.draws[:half, None], np.arange(1))[0])

    def _by_parameter(self, draws: np.ndarray) -> np.ndarray:
        """w of eq. (1), (agent, dim)."""
        number = len(draws)
        if number not in self._quantiles:
            at = (np.arange(number) + 0.5) / number
            self._quantiles[number] = np.quantile(self._sorted, at, axis=0)
        apart = np.sort(draws, axis=0) - self._quantiles[number][:, None]
        return np.sqrt((apart**2).mean(axis=0)) / self.spread  # (1)


def reference_measure(
    problem: Problem, network: Network, reference: Any, seed: int, progress: bool | None
) -> MarginalMeasure:
    """The distances from draws of the user, or else from a long run of an exact method."""
    if reference is None:
        return _own_run(problem, network, seed, progress)
    draws = np.asarray(reference, float)
    if draws.ndim != 2 or draws.shape[1] != problem.dim or len(draws) < FEWEST_DRAWS:
        raise ValueError(
            f"`reference` must be at least {FEWEST_DRAWS} draws of {problem.dim} unconstrained "
            f"coordinates, of shape (draws, {problem.dim}), got shape {draws.shape}."
        )
    if not np.all(np.isfinite(draws)):
        raise ValueError("`reference` must be finite.")
    return MarginalMeasure(draws, "given", math.nan)


def _own_run(
    problem: Problem, network: Network, seed: int, progress: bool | None
) -> MarginalMeasure:
    """Hamiltonian Monte Carlo on sums, which is exact, with the error of its means."""
    if problem.frame is not None:
        raise ValueError(
            "a reference run needs the problem in its own coordinates: give the original one, or "
            "`reference` draws in those of this one."
        )
    densities = (problem.log_likelihoods, problem.log_prior)
    flat = Problem.from_flat(*densities, Parameters({"z": (problem.dim,)}), problem.shards)
    reliable = network if network.faults is None else Network(network.graph)
    length: Any = {"draws": REFERENCE_DRAWS, "chains": REFERENCE_CHAINS, "seed": seed}
    result = sample(flat, reliable, method="hmc", progress=progress, **length)
    draws = result.posterior["z"].isel(agent=0).transpose("chain", "draw", ...).values
    means = draws.mean(axis=1)
    errors = means.std(axis=0, ddof=1) / np.sqrt(len(means)) / draws.std(axis=(0, 1))
    return MarginalMeasure(draws.reshape(-1, problem.dim), "hmc", float(errors.max()))
