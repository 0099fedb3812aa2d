"""Chains in place of a law: the draws of all chains in a round are a sample of the law there.

The distance of a sample of n draws from the posterior is not zero even where the law is right: see
`Measure.floor`. Its error is the standard deviation over samples of n chains that are drawn from
these with replacement.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from starlings.comparison.samplers.exact import rounds_of_curve
from starlings.comparison.samplers.measures import WORST, Measure
from starlings.comparison.samplers.settings import Trial
from starlings.runtime.snapshots import Snapshot, snapshots
from starlings.samplers import Sampler
from starlings.sampling.starts import start_positions

RESAMPLES = 50
"""Samples by which the Monte Carlo error of a distance is found."""
LAST_SHARE = 4
"""The last 1 / LAST_SHARE of the snapshots, on their logarithmic grid, show what remains."""


class Simulated(NamedTuple):
    """The distances along a run of many chains."""

    rounds: np.ndarray
    """(round,)."""
    distances: np.ndarray
    """(round, measure), in the order of `MEASURES`."""
    errors: np.ndarray
    """The Monte Carlo error of the worst agent's distance, (round,)."""
    messages: np.ndarray | None
    """Messages of all agents until each of the rounds, where they were counted; else None."""
    seconds_per_round: float
    """Of all chains together; nan if there was one snapshot only."""
    compile_seconds: float
    """Of the first rounds, with their compilation."""
    divergence: str | None
    """Why the run ended early; None if it did not."""

    def limit(self) -> np.ndarray:
        """The distances that remain: the median of the last ones, (measure,)."""
        count = max(1, len(self.rounds) // (2 * LAST_SHARE))
        return np.median(self.distances[-count:], axis=0)

    def reached(self, goal: float) -> float:
        """The first round from which on the worst agent is within the goal; nan if never."""
        above = np.flatnonzero(~(self.distances[:, WORST] <= goal))
        if self.divergence is not None or (len(above) and above[-1] == len(self.rounds) - 1):
            return np.nan
        return float(self.rounds[above[-1] + 1]) if len(above) else 0.0


def simulate(
    trial: Trial,
    sampler: Sampler,
    measure: Measure,
    rounds: int,
    chains: int,
    seed: int,
    resamples: int = RESAMPLES,
) -> Simulated:
    """Run chains from N(0, I) in the coordinates of the trial, and judge their draws.

    Args:
        trial: the problem, the network and the coordinates.
        sampler: the sampler with its settings.
        measure: the distances from the posterior.
        rounds: up to where the chains run.
        chains: their number.
        seed: the seed of their starts and of all noise.
        resamples: samples with replacement for the error; it is nan if there are none.
    """
    problem, network = trial.moved, trial.place.network
    grid = rounds_of_curve(rounds, sampler.cycle)
    random = np.random.default_rng(seed)
    with jax.enable_x64(True):
        start = start_positions(problem, sampler, None, chains, seed, np.float64)
        found = list(snapshots(problem, network, sampler, start, seed, list(grid)))
    sound = [each for each in found if each.divergence is None]
    judged = [_judged(trial, measure, each, random, resamples) for each in sound]
    warm = [each for each in found if each.round > 0 and not each.compiles]
    steps = np.diff([0, *(each.round for each in found if each.round > 0)])
    passed = steps[len(steps) - len(warm) :].sum()
    return Simulated(
        np.array([each.round for each in sound]),
        np.array([distances for distances, _ in judged]),
        np.array([error for _, error in judged]),
        _counted(sound),
        sum(each.seconds for each in warm) / passed if passed else np.nan,
        sum(each.seconds for each in found if each.compiles),
        found[-1].divergence,
    )


def _counted(found: list[Snapshot]) -> np.ndarray | None:
    """The messages that were counted; none at the start."""
    if all(each.messages is None for each in found):
        return None
    return np.array([each.messages or 0.0 for each in found])


def _judged(
    trial: Trial,
    measure: Measure,
    snapshot: Snapshot,
    random: np.random.Generator,
    resamples: int,
) -> tuple[np.ndarray, float]:
    """The distances of the draws of one round, and the error of the worst agent's."""
    draws = snapshot.draws if trial.frame is None else trial.frame.draws(snapshot.draws)
    counted, size = trial.place.counted, len(draws)
    again = [
        measure.of_draws(draws[random.integers(size, size=size)], counted)[WORST]
        for _ in range(resamples)
    ]
    return measure.of_draws(draws, counted), float(np.std(again)) if again else np.nan
