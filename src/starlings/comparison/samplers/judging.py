"""What becomes of a trial: its best setting, its exact law if that is known, and its chains."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from starlings.comparison.samplers.choosing import Choice, Judged, judged_near_the_best
from starlings.comparison.samplers.exact import ExactRun, rounds_of_curve, whole_cycles
from starlings.comparison.samplers.measures import (
    MEASURES,
    WORST,
    GaussianMeasure,
    Measure,
    posterior_floor,
)
from starlings.comparison.samplers.settings import Trial
from starlings.comparison.samplers.simulated import RESAMPLES, Simulated, simulate
from starlings.errors import DivergenceError, NoLawError, StabilityError
from starlings.problem import Problem
from starlings.samplers import Sampler
from starlings.theory import has_law, law, quadratic_model

CHAINS, CANDIDATE_CHAINS = 256, 64
"""Chains of a simulated curve by default, and of a candidate that has no law."""
MOST_RUNS = 8
"""Candidates, evenly spaced in the order of their ranks, whose chains are run until those of one do
not explode."""
EXPLODED = np.full(len(MEASURES), np.inf)
"""The distances of a sampler that explodes."""


class Exact(NamedTuple):
    """The exact law of the best setting."""

    rounds: np.ndarray
    distances: np.ndarray
    """(round, measure), in the order of `MEASURES`."""


class Outcome(NamedTuple):
    """What became of a trial."""

    trial: Trial
    choice: Choice
    exact: Exact | None
    """None where no exact law is known."""
    simulated: Simulated | None
    """None where no chains were run."""

    @property
    def sampler(self) -> Sampler:
        """The sampler with its settings."""
        return self.choice.best.sampler


@dataclass(frozen=True)
class Judge:
    """The posterior, the target, and for how long samplers are followed."""

    measure: Measure
    target: float
    """The distance of the worst agent that has to be reached."""
    rounds: int
    """Rounds of exact laws."""
    chains: int | None
    """Chains for every sampler; None for those without a law only, 0 for none."""
    simulated_rounds: int
    """Rounds of those chains."""
    seed: int
    _floors: dict[int, float] = field(default_factory=dict)

    def outcome(self, trial: Trial) -> Outcome:
        """The best of the candidates, its exact law and its chains."""
        known = self._is_known(trial, trial.moved)
        if not known and self.chains == 0:
            raise NoLawError(
                "no exact law is known here, and `chains` is 0, so that nothing is simulated."
            )
        choice = self._chosen(trial, known)
        if not known:
            return self._best_of_chains(trial, choice)
        sampler = choice.best.sampler
        rounds = rounds_of_curve(self.rounds, sampler.cycle)
        exact = Exact(rounds, self._run(trial, trial.moved, sampler, self.measure).curve(rounds))
        chains = self._simulated(trial, sampler, self.chains) if self.chains else None
        return Outcome(trial, choice, exact, chains)

    def _best_of_chains(self, trial: Trial, choice: Choice) -> Outcome:
        """The best of the candidates whose chains do not explode; few of them are tried.

        What is stable on a Gaussian approximation may explode far away from the mode.
        """
        number = self.chains or CHAINS
        for candidate in choice.ranked[:: max(1, len(choice.ranked) // MOST_RUNS)]:
            chains = self._simulated(trial, candidate.sampler, number)
            found = self._of_chains(candidate.sampler, chains, number)
            if not found.reason:
                return Outcome(trial, Choice(found, choice.tried), None, chains)
        raise DivergenceError(found.reason)

    def floor(self, chains: int) -> float:
        """What so many draws of the posterior itself would show for one agent."""
        if chains not in self._floors:
            self._floors[chains] = posterior_floor(self.measure, chains, self.seed)
        return self._floors[chains]

    def goal(self, chains: int) -> float:
        """The distance that chains have to reach: the target, or twice what exact draws show."""
        return max(self.target, 2 * self.floor(chains))

    def _is_known(self, trial: Trial, problem: Problem) -> bool:
        """Whether the law of all candidates is known on a problem of this kind."""
        if not isinstance(self.measure, GaussianMeasure) or problem.quadratic is None:
            return False
        return trial.place.network.faults is None and all(map(has_law, trial.candidates))

    def _chosen(self, trial: Trial, known: bool) -> Choice:
        """The best candidate: by exact laws, by those of a Gaussian approximation, or by chains."""
        if known:
            judged = [self._by_law(trial, s) for s in trial.candidates]
        elif len(trial.candidates) == 1:
            judged = [Judged(s, EXPLODED, np.nan, np.inf, np.nan) for s in trial.candidates]
        elif trial.place.network.faults is None and all(map(has_law, trial.candidates)):
            model = quadratic_model(trial.place.problem)
            near = GaussianMeasure.of(model)
            judged = [self._by_near_law(trial, model, near, s) for s in trial.candidates]
        else:
            judged = judged_near_the_best(trial.candidates, partial(self._by_chains, trial))
        return Choice.among(judged)

    def _by_law(self, trial: Trial, sampler: Sampler) -> Judged:
        """One candidate by its exact law."""
        run = self._run(trial, trial.moved, sampler, self.measure)
        try:
            limit = run.limit(self.rounds)
        except StabilityError:
            return _exploded(run, sampler)
        if not np.isfinite(limit).all():
            reason = f"it explodes within {self.rounds} rounds."
            return Judged(sampler, EXPLODED, np.nan, np.inf, np.nan, reason)
        reached, last = np.nan, np.inf
        if limit[WORST] <= self.target:
            reached = run.reached(self.target, self.rounds)
        if np.isnan(reached):
            last = run.curve(whole_cycles(self.rounds, sampler.cycle))[0, WORST]
        return Judged(sampler, limit, reached, float(last), run.relaxation())

    def _by_near_law(self, trial: Trial, model: Problem, near: Measure, sampler: Sampler) -> Judged:
        """One candidate by its law on a Gaussian approximation, as far as chains will be run.

        The law has to come nearer than the chains, whose distance has what exact draws show on top.
        """
        run, rounds = self._run(trial, model, sampler, near), self.simulated_rounds
        try:
            run.limit(rounds)
        except StabilityError:
            return _exploded(run, sampler)
        last = run.curve(whole_cycles(rounds, sampler.cycle))[0]
        goal, reached = max(self.target, self.floor(self.chains or CHAINS)), np.nan
        if last[WORST] <= goal:
            reached = run.reached(goal, rounds)
        return Judged(sampler, last, reached, float(last[WORST]), run.relaxation())

    def _run(self, trial: Trial, problem: Problem, sampler: Sampler, measure: Measure) -> ExactRun:
        assert isinstance(measure, GaussianMeasure)
        found = law(problem, trial.place.network, sampler)
        return ExactRun(found, measure, trial.place.counted, trial.frame)

    def _simulated(
        self, trial: Trial, sampler: Sampler, chains: int, resamples: int = RESAMPLES
    ) -> Simulated:
        rounds = self.simulated_rounds
        return simulate(trial, sampler, self.measure, rounds, chains, self.seed, resamples)

    def _by_chains(self, trial: Trial, sampler: Sampler) -> Judged:
        """One of several candidates by few chains."""
        chains = self._simulated(trial, sampler, CANDIDATE_CHAINS, resamples=0)
        return self._of_chains(sampler, chains, CANDIDATE_CHAINS)

    def _of_chains(self, sampler: Sampler, chains: Simulated, number: int) -> Judged:
        """One candidate by its chains."""
        if chains.divergence is not None:
            return Judged(sampler, EXPLODED, np.nan, np.inf, np.nan, chains.divergence)
        reached = chains.reached(self.goal(number))
        limit = chains.limit()
        return Judged(sampler, limit, reached, float(limit[WORST]), np.nan)


def _exploded(run: ExactRun, sampler: Sampler) -> Judged:
    radius = run.law.whole_cycle().spectral_radius()
    reason = f"it explodes: its slowest mode grows by {radius:.4g} in each round."
    return Judged(sampler, EXPLODED, np.nan, np.inf, np.nan, reason)
