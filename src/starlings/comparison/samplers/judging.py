"""What becomes of a trial: its best setting, its exact law if that is known, and its chains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from starlings.comparison.samplers.choosing import Choice, Judged
from starlings.comparison.samplers.exact import ExactRun, rounds_of_curve
from starlings.comparison.samplers.measures import (
    MEASURES,
    WORST,
    GaussianMeasure,
    Measure,
    posterior_floor,
)
from starlings.comparison.samplers.settings import Trial
from starlings.comparison.samplers.simulated import Simulated, simulate
from starlings.errors import NoLawError, StabilityError
from starlings.problem import Problem
from starlings.samplers import Sampler
from starlings.theory import has_law, law, quadratic_model

CHAINS, CANDIDATE_CHAINS = 256, 64
"""Chains of a simulated curve by default, and of a candidate that has no law."""
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

    def outcome(self, trial: Trial) -> Outcome:
        """The best of the candidates, its exact law and its chains."""
        known = self._is_known(trial, trial.moved)
        if not known and self.chains == 0:
            raise NoLawError(
                "no exact law is known here, and `chains` is 0, so that nothing is simulated."
            )
        choice = self._chosen(trial, known)
        sampler, exact, chains = choice.best.sampler, None, None
        if known:
            run = self._run(trial, trial.moved, sampler)
            rounds = rounds_of_curve(self.rounds, sampler.cycle)
            exact = Exact(rounds, run.curve(rounds))
        if self.chains or not known:
            number = self.chains or CHAINS
            chains = self._simulated(trial, sampler, number)
            if not known:
                choice = Choice(self._of_chains(sampler, chains, number), choice.tried)
        return Outcome(trial, choice, exact, chains)

    def floor(self, chains: int) -> float:
        """What so many draws of the posterior itself would show for one agent."""
        return posterior_floor(self.measure, chains, self.seed)

    def _is_known(self, trial: Trial, problem: Problem) -> bool:
        """Whether the law of all candidates is known on a problem of this kind."""
        if not isinstance(self.measure, GaussianMeasure) or problem.quadratic is None:
            return False
        return trial.place.network.faults is None and all(map(has_law, trial.candidates))

    def _chosen(self, trial: Trial, known: bool) -> Choice:
        """The best candidate: by exact laws, by those of a Gaussian approximation, or by chains."""
        if known:
            judged = (self._by_law(trial, trial.moved, self.measure, s) for s in trial.candidates)
        elif len(trial.candidates) == 1:
            judged = (Judged(s, EXPLODED, np.nan, np.nan) for s in trial.candidates)
        elif trial.place.network.faults is None and all(map(has_law, trial.candidates)):
            model = quadratic_model(trial.place.problem)
            near = GaussianMeasure.of(model)
            judged = (self._by_law(trial, model, near, s) for s in trial.candidates)
        else:
            judged = (
                self._of_chains(s, self._simulated(trial, s, CANDIDATE_CHAINS), CANDIDATE_CHAINS)
                for s in trial.candidates
            )
        return Choice.among(list(judged))

    def _by_law(self, trial: Trial, problem: Problem, measure: Measure, sampler: Sampler) -> Judged:
        """One candidate by its exact law on a quadratic problem."""
        run = self._run(trial, problem, sampler, measure)
        try:
            limit = run.limit(self.rounds)
        except StabilityError:
            radius = run.law.whole_cycle().spectral_radius()
            reason = f"it explodes: its slowest mode grows by {radius:.4g} in each round."
            return Judged(sampler, EXPLODED, np.nan, np.nan, reason)
        reached = np.nan
        if limit[WORST] <= self.target:
            reached = run.reached(self.target, self.rounds)
        return Judged(sampler, limit, reached, run.relaxation())

    def _run(
        self, trial: Trial, problem: Problem, sampler: Sampler, measure: Measure | None = None
    ) -> ExactRun:
        measure = self.measure if measure is None else measure
        assert isinstance(measure, GaussianMeasure)
        found = law(problem, trial.place.network, sampler)
        return ExactRun(found, measure, trial.place.counted, trial.frame)

    def _simulated(self, trial: Trial, sampler: Sampler, chains: int) -> Simulated:
        return simulate(trial, sampler, self.measure, self.simulated_rounds, chains, self.seed)

    def _of_chains(self, sampler: Sampler, chains: Simulated, number: int) -> Judged:
        """One candidate by its chains."""
        if chains.divergence is not None:
            return Judged(sampler, EXPLODED, np.nan, np.nan, chains.divergence)
        reached = chains.reached(self.target, self.floor(number))
        return Judged(sampler, chains.limit(), reached, np.nan)
