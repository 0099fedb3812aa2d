"""The exact law of a sampler along the rounds: no simulation, and no Monte Carlo error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from starlings.comparison.samplers.measures import MEASURES, WORST, GaussianMeasure
from starlings.theory import Law, Moments, moments_at

EXPLODED = 1e100
"""A mean or a covariance above which the draws are infinitely far away."""
PER_DECADE = 12
"""Rounds of a curve in each decade."""


class Frame(NamedTuple):
    """Coordinates z in which a sampler moves: the parameters are centre + scale z."""

    centre: np.ndarray
    scale: np.ndarray

    def moments(self, moments: Moments) -> Moments:
        """Moments of the parameters, from those of z."""
        size, dim = moments.mean.shape
        blocks = moments.covariance.reshape(size, dim, size, dim)
        scale = np.diag(self.scale) if self.scale.ndim == 1 else self.scale
        moved = np.einsum("ab,ibjc,dc->iajd", scale, blocks, scale)
        flat = moved.reshape(size * dim, size * dim)
        return Moments(self.centre + moments.mean @ scale.T, flat)

    def draws(self, draws: np.ndarray) -> np.ndarray:
        """Draws (..., dim) of the parameters, from those of z."""
        scale = np.diag(self.scale) if self.scale.ndim == 1 else self.scale
        return self.centre + draws @ scale.T


@dataclass(frozen=True)
class ExactRun:
    """The exact law of one sampler, judged against the posterior."""

    law: Law
    measure: GaussianMeasure
    counted: np.ndarray
    """The numbers of the agents that count."""
    frame: Frame | None = None
    """The coordinates in which the law is; None for the parameters' own."""

    def distances(self, moments: Moments) -> np.ndarray:
        """The distances of draws with these moments, in the order of `MEASURES`.

        They are infinite from where on their squares would be no numbers.
        """
        size = max(np.abs(moments.mean).max(), np.abs(moments.covariance).max())
        if not size < EXPLODED:
            return np.full(len(MEASURES), np.inf)
        moved = moments if self.frame is None else self.frame.moments(moments)
        return self.measure.of_moments(moved, self.counted)

    def curve(self, rounds: np.ndarray) -> np.ndarray:
        """The distances after these rounds, (round, measure)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([self.distances(each) for each in moments_at(self.law, list(rounds))])

    def limit(self, rounds: int) -> np.ndarray:
        """The distances that remain: of the stationary law, or after `rounds` where there is none.

        A sampler that explodes raises `StabilityError`.
        """
        if self.law.varies:
            return self.curve(np.array([rounds]))[0]
        return self.distances(self.law.stationary())

    def relaxation(self) -> float:
        """Rounds in which the slowest mode shrinks by a factor e; nan where rounds vary."""
        if self.law.varies:
            return np.nan
        radius = self.law.whole_cycle().spectral_radius()
        return self.law.cycle / -np.log(radius) if radius > 0 else 0.0

    def reached(self, goal: float, most: int) -> float:
        """The first round from which on the worst agent stays within `goal`; nan if not by `most`.

        It is found by halving intervals of the rounds of a curve.
        """
        rounds = rounds_of_curve(most, self.law.cycle)
        worst = self.curve(rounds)[:, WORST]
        above = np.flatnonzero(~(worst <= goal))
        if len(above) == 0:
            return 0.0
        if above[-1] == len(rounds) - 1:
            return np.nan
        low, high = (int(rounds[above[-1] + i]) // self.law.cycle for i in (0, 1))
        while high - low > 1:
            middle = (low + high) // 2
            is_within = self.curve(np.array([middle * self.law.cycle]))[0, WORST] <= goal
            low, high = (low, middle) if is_within else (middle, high)
        return float(high * self.law.cycle)


def whole_cycles(most: int, cycle: int) -> np.ndarray:
    """The last round of a curve alone."""
    return np.array([max(1, most // cycle) * cycle])


def rounds_of_curve(most: int, cycle: int = 1) -> np.ndarray:
    """Rounds on a logarithmic grid, the start and whole cycles only; the last is about `most`."""
    cycles = max(1, most // cycle)
    number = 2 + int(np.ceil(PER_DECADE * np.log10(max(cycles, 2))))
    grid = np.unique(np.geomspace(1, cycles, number).round().astype(int))
    return cycle * np.concatenate([[0], grid])
