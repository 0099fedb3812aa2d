"""How lock-step HMC finds its step, its trajectory length and its metric, from its own chains.

All that is used here, positions, momenta and acceptance probabilities of all chains, is known at
every site, so that warming up costs no message besides the sums of its leapfrogs.

The step eps is chosen by dual averaging (Hoffman and Gelman 2014), so that the mean acceptance
probability a over the chains becomes `TARGET_ACCEPTANCE`:

    E_t = (1 - 1/(t + t0)) E_{t-1} + (TARGET_ACCEPTANCE - a) / (t + t0)                     (1)
    log eps = mu - sqrt(t) E_t / gamma,   log eps-bar = t^-k log eps + (1 - t^-k) log eps-bar   (2)

The trajectory length T follows ChEES (Hoffman, Radul and Sountsov 2021), the expected squared
change of the squared distance from the mean: with u = A^-1 (q - m) at the beginning (u) and at the
end (u') of a trajectory of length h T, m the mean of the chains' last positions (of several
trajectories, where chains are few), and means over chains weighted by acceptance,

    C = mean (|u'|^2 - |u|^2)^2 / 4,     g = dC / dlog T = h T mean (|u'|^2 - |u|^2) (u' . p')  (3)

Since a long trajectory costs more sums, log C - PRICE log T is maximised, by steps in log T of

    RATE (g / C - PRICE),   with averages of g and C over some trajectories                 (4)

and slower by a factor, the pace, for few chains.

The fractions h are those of van der Corput's sequence, so that trajectories are of all lengths
between 0 and T.

The metric A is a Cholesky root of the pooled covariance of all chains in the second half of a
window; it has the standard deviations only, where there are more than `LARGEST_DENSE_METRIC`
parameters or fewer than `DRAWS_PER_PARAMETER` draws for each. Windows become longer, and the last
one is repeated until the chains have forgotten where they started.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from starlings.methods.phase import Phase, SplitPhase

TARGET_ACCEPTANCE = 0.85
"""Mean probability with which trajectories are accepted. Higher than what is best for Gaussian
posteriors (0.65), since those that need this method are not."""
ROUGH_ACCEPTANCE = 0.5
"""The same for the chains that move least, in the first windows of a warm-up."""
DAMPING, SHRINKAGE, FORGETTING = 10.0, 0.05, 0.75
"""t0, gamma and k of eqs. (1) and (2)."""
LARGEST_STEP = 2.0
"""Largest step, in posterior standard deviations: leapfrogs on N(0, 1) are unstable above it."""
MOST_LEAPFROGS = 1024
"""Largest number of leapfrogs in a trajectory."""
FIRST_LEAPFROGS = 64
"""Largest number of leapfrogs in a trajectory of the first two windows, whose metric is rough."""
PRICE = 0.25
"""Weight of the logarithm of the trajectory length against that of C. By C alone trajectories grow
without end on some posteriors, since nothing is lost by passing over the other side twice."""
RATE, LARGEST_CHANGE = 0.2, 0.15
"""Step length and largest step of eq. (4), in units of log T."""
MEMORY = 0.8
"""Weight of the past in the averages of eq. (4)."""
LARGEST_DENSE_METRIC = 150
"""Number of parameters up to which the metric is dense."""
DRAWS_PER_PARAMETER = 5
"""Draws for each parameter from which on the metric is dense: fewer do not tell correlations."""
PRIOR_DRAWS, PRIOR_VARIANCE = 5.0, 1e-3
"""Weight, in draws, and variance of the diagonal matrix towards which a covariance is shrunk."""
LARGEST_LENGTH = 8.0
"""Largest trajectory length T, in posterior standard deviations. On N(0, I) a trajectory of pi
comes out on the other side; what is not Gaussian is sometimes worth two or three times as much."""
FIRST_LENGTH = 1.5
"""First trajectory length T, in posterior standard deviations: about a quarter of a period."""


@dataclass(frozen=True)
class Settings:
    """What warming up chooses; all numbers and arrays, so that it can be saved."""

    step: float
    """eps, in units in which the metric makes the posterior's standard deviation one."""
    length: float = FIRST_LENGTH
    """T, in the same units."""
    metric: Any = 1.0
    """A, (dim, dim), or (dim,) for a diagonal matrix."""
    centre: Any = 0.0
    """m of eq. (3), (dim,)."""
    centre_updates: int = 0
    """Trajectories over which m is the mean."""
    log_anchor: float = 0.0
    """mu of eq. (2)."""
    log_average: float = 0.0
    """log eps-bar of eq. (2)."""
    error: float = 0.0
    """E_t of eq. (1)."""
    step_updates: int = 0
    """t of eq. (1)."""
    slope: float = 0.0
    """The average of g in eq. (4)."""
    change: float = 0.0
    """The average of C in eq. (4)."""

    def with_step(self, acceptance: float, is_rough: bool = False) -> Settings:
        """The settings after one more trajectory, with its acceptance probability.

        That is the mean over all chains or, if `is_rough`, over the chains that move least.
        """
        target = ROUGH_ACCEPTANCE if is_rough else TARGET_ACCEPTANCE
        t = self.step_updates + 1
        weight = 1 / (t + DAMPING)
        error = (1 - weight) * self.error + weight * (target - acceptance)  # (1)
        log_step = min(self.log_anchor - np.sqrt(t) / SHRINKAGE * error, np.log(LARGEST_STEP))
        log_average = t**-FORGETTING * log_step + (1 - t**-FORGETTING) * self.log_average  # (2)
        return replace(
            self,
            step=float(np.exp(log_step)),
            log_average=float(log_average),
            error=float(error),
            step_updates=t,
        )

    def with_length(
        self,
        before: Phase | SplitPhase,
        after: Phase | SplitPhase,
        acceptance: np.ndarray,
        fraction: float,
        pace: float = 1.0,
    ) -> Settings:
        """The settings after one step of eq. (4)."""
        settings = self._with_centre(np.asarray(before.position), pace)
        found = settings._change_and_slope(before, after, acceptance)
        if found is None:
            return settings
        change, slope = found
        return settings._moved(change, fraction * self.length * slope, pace)

    def _with_centre(self, positions: np.ndarray, pace: float) -> Settings:
        """The settings with these positions (chain, dim) in the mean m."""
        count = self.centre_updates + 1
        weight = max(1 / count, pace**2)
        centre = self.centre + weight * (positions.mean(axis=0) - self.centre)
        return replace(self, centre=centre, centre_updates=count)

    def _moved(self, change: float, slope: float, pace: float) -> Settings:
        """The settings with another length, by C and g of the last trajectory."""
        weight, largest = pace * (1 - MEMORY), pace * LARGEST_CHANGE
        change = self.change + weight * (change - self.change)
        slope = self.slope + weight * (slope - self.slope)
        move = np.clip(pace * RATE * (slope / change - PRICE), -largest, largest)  # (4)
        longest = max(self.step, min(LARGEST_LENGTH, MOST_LEAPFROGS * self.step))
        length = np.clip(self.length * np.exp(move), self.step, longest)
        return replace(self, length=float(length), slope=slope, change=change)

    def _change_and_slope(
        self, before: Phase | SplitPhase, after: Phase | SplitPhase, acceptance: np.ndarray
    ) -> tuple[float, float] | None:
        """C and g / (h T) of eq. (3); None if no chain has moved."""
        weights = acceptance / max(acceptance.sum(), np.finfo(float).tiny)
        moved = weights > 0
        start, end = (self.standardised(np.asarray(p.position)[moved]) for p in (before, after))
        change = np.sum(end**2 - start**2, axis=1)
        if not change.any():
            return None
        speed = np.sum(end * np.asarray(after.momentum)[moved], axis=1)
        squares, slope = weights[moved] @ change**2, weights[moved] @ (change * speed)
        return float(squares) / 4, float(slope)  # (3)

    def standardised(self, positions: np.ndarray) -> np.ndarray:
        """u = A^-1 (q - m) for positions (chain, dim)."""
        metric, centred = np.asarray(self.metric), positions - self.centre
        return centred / metric if metric.ndim < 2 else np.linalg.solve(metric, centred.T).T

    def fixed(self) -> Settings:
        """The settings with the averaged step, for draws that are kept."""
        return replace(self, step=float(np.exp(self.log_average)))

    def with_metric(self, metric: np.ndarray) -> Settings:
        """Another metric, in whose units length and step are chosen anew, the step near this one.

        By a rough metric the best trajectories are long, and from there it is a long way back: on a
        Gaussian log C - PRICE log T has a second maximum, beyond one turn.
        """
        step = self.fixed().step
        return Settings(metric=metric, **_first_step(step), log_anchor=float(np.log(2 * step)))

    def num_leapfrogs(self, fraction: float, most: int = MOST_LEAPFROGS) -> int:
        """Leapfrogs of a trajectory of length `fraction` T, at least one."""
        return int(np.clip(np.ceil(fraction * self.length / self.step), 1, most))


def first_settings(step: float, metric: np.ndarray) -> Settings:
    """The settings with which chains begin."""
    return Settings(metric=metric, **_first_step(step), log_anchor=float(np.log(5 * step)))


def _first_step(step: float) -> dict[str, Any]:
    """A step, with dual averaging begun anew."""
    return {"step": step, "log_average": float(np.log(step)), "error": 0.0, "step_updates": 0}


def pooled_metric(positions: np.ndarray) -> np.ndarray:
    """A from positions (draw, dim) of all chains: a root of their covariance, slightly shrunk."""
    count, dim = positions.shape
    weight = count / (count + PRIOR_DRAWS)
    if dim > LARGEST_DENSE_METRIC or count < DRAWS_PER_PARAMETER * dim:
        return np.sqrt(weight * positions.var(axis=0, ddof=1) + (1 - weight) * PRIOR_VARIANCE)
    covariance = np.cov(positions.T).reshape(dim, dim)
    return np.linalg.cholesky(weight * covariance + (1 - weight) * PRIOR_VARIANCE * np.eye(dim))


def length_fraction(iteration: int) -> float:
    """The fraction h of the iteration 1, 2, ...: van der Corput's sequence in base 2.

    >>> [length_fraction(i) for i in (1, 2, 3, 4)]
    [0.5, 0.25, 0.75, 0.125]
    """
    fraction, place = 0.0, 0.5
    while iteration:
        fraction, iteration, place = fraction + place * (iteration % 2), iteration // 2, place / 2
    return fraction
