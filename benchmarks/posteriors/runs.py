"""Runs of the network: what is wanted of a method, how long its run is, and the draws."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

import starlings as st
from starlings.errors import InterruptedWarning
from starlings.tuning import Tuning, tune

from .cases import Case
from .draws import Draws
from .score import effective_draws

BURN_IN = 20
"""Paces of burn-in before the first draw of a full run."""
EFFECTIVE_SHARE = 0.4
"""Effective draws for one draw, with half an autocorrelation time from one draw to the next.

It is (e-1)/(e+1), less something for parameters that are slower than a Gaussian's.
"""
LONGEST = 50.0
"""A second run is at most this many times as long as the first."""
REPEATS, LONG = 5, 3.0
"""A run is timed this many times, until the times add up to so many seconds."""


@dataclass(frozen=True)
class Setting:
    """One case and division on a ring, and how much is wanted of each method."""

    case: Case
    wanted: int = 4_000
    """How many effective draws are wanted of the worst agent and parameter."""
    chains: int = 64
    """Chains of the methods that have no rule of their own for their number."""
    seed: int = 0
    minutes: float = 20.0
    """Minutes for a search, and again for a full run; if they are too few, so are the draws."""

    @cached_property
    def network(self) -> st.Network:
        """A ring of all agents."""
        return st.Network.ring(self.case.problem.num_agents)

    @cached_property
    def tuning(self) -> Tuning:
        """What the agents tuned, found once and used by all methods for their coordinates."""
        return tune(self.case.problem, self.network, start=start_of(self.case))

    @cached_property
    def moved(self) -> st.Problem:
        """The problem in the tuned coordinates, without tilts."""
        return self.case.problem.affine(self.tuning.centre, self.tuning.scale)


@dataclass(frozen=True)
class Outcome:
    """Draws, and notes on how they were made."""

    draws: Draws
    notes: dict[str, Any] = field(default_factory=dict)


def start_of(case: Case) -> np.ndarray | None:
    """Where the search for the mode begins, as a flat unconstrained vector; None for anywhere."""
    if case.model.start is None:
        return None
    with jax.enable_x64(True):
        return np.asarray(case.problem.parameters.unconstrain(case.model.start))


@dataclass(frozen=True)
class Plan:
    """The length of a run of the network."""

    chains: int
    draws: int
    thin: int
    burn_in: int

    def longer(self, factor: float) -> Plan:
        """The same number of draws, with so many times the rounds between them."""
        thin, burn_in = math.ceil(factor * self.thin), math.ceil(factor * self.burn_in)
        return replace(self, thin=thin, burn_in=burn_in)


def plan_of(chains: int, draws: int, pace: float, burn_in: float = BURN_IN) -> Plan:
    """A plan with half a pace from one draw to the next, after `burn_in` paces."""
    return Plan(chains, math.ceil(draws), max(1, round(pace / 2)), math.ceil(burn_in * pace))


def enough(
    setting: Setting, run: Callable[[float], Draws], timed: Callable[[float], Any] | None = None
) -> Draws:
    """The draws of `run(1)` or, where those are too few, of one longer run.

    Args:
        setting: says how many effective draws are wanted.
        run: makes a run that is so many times as long.
        timed: makes the last run again, to be timed; None if seconds are not wanted.
    """
    began = time.perf_counter(), time.process_time()
    draws = run(1.0)
    wall, first = time.perf_counter() - began[0], time.process_time() - began[1]
    longer = _longer(setting, effective_draws(setting.case, draws), wall)
    if longer > 1:
        draws = run(longer)
    if timed is None:
        return draws
    return replace(draws, seconds=_median_seconds(lambda: timed(longer)), first_seconds=first)


def _median_seconds(run: Callable[[], Any]) -> float:
    """The median CPU seconds of a few runs, or of fewer where they take long."""
    found: list[float] = []
    while len(found) < REPEATS and sum(found) < LONG:
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return statistics.median(found)


def _longer(setting: Setting, reached: float, seconds: float) -> float:
    """How many times as long as a first run of so many seconds a run has to be."""
    if not 0 < reached < setting.wanted:
        return 1.0
    affordable = 60 * setting.minutes / seconds
    return max(1.0, min(1.1 * setting.wanted / reached, affordable, LONGEST))


def draws_wanted(setting: Setting, chains: int) -> int:
    """Draws of each chain, if the pace is what it should be."""
    return math.ceil(setting.wanted / (EFFECTIVE_SHARE * chains))


def from_the_mode(setting: Setting, sampler: Any, plan: Plan) -> Draws:
    """A run in the tuned coordinates with every agent started at the mode."""
    mode = np.zeros(setting.moved.dim)
    return sample(setting, setting.moved, sampler=sampler, initial=mode, **asdict(plan))


def sample(setting: Setting, problem: st.Problem, **options: Any) -> Draws:
    """Call `starlings.sample`; what it warns of is kept beside the draws.

    Ctrl-C ends everything: no half a run enters the table.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = st.sample(problem, setting.network, seed=setting.seed, progress=False, **options)
    if any(issubclass(warning.category, InterruptedWarning) for warning in caught):
        raise KeyboardInterrupt
    draws = Draws.of(result)
    return replace(draws, warnings=[str(warning.message) for warning in caught])
