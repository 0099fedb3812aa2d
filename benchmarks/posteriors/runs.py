"""Runs of the network: what is wanted of a method, how long its run is, and the draws."""

from __future__ import annotations

import math
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
from starlings.tuning.pilot import refine

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


@dataclass(frozen=True)
class Setting:
    """One case and division on a ring, and how much is wanted of each method."""

    case: Case
    wanted: int = 10_000
    """How many effective draws are wanted of the worst agent and parameter."""
    chains: int = 64
    """Replicas of the network."""
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
    def refined(self) -> Tuning:
        """The tuning after pilot runs: what `starlings.sample` uses."""
        return refine(self.case.problem, self.tuning, self.network, self.seed)

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


def enough(setting: Setting, run: Callable[[float], Draws]) -> Draws:
    """The draws of `run(1)` or, where those are too few, of one longer run."""
    began = time.perf_counter()
    draws = run(1.0)
    reached = effective_draws(setting.case, draws)
    if not 0 < reached < setting.wanted:
        return draws
    affordable = 60 * setting.minutes / (time.perf_counter() - began)
    longer = min(1.1 * setting.wanted / reached, affordable, LONGEST)
    return run(longer) if longer > 1 else draws


def draws_wanted(setting: Setting, chains: int) -> int:
    """Draws of each chain, if the pace is what it should be."""
    return math.ceil(setting.wanted / (EFFECTIVE_SHARE * chains))


def from_the_mode(setting: Setting, sampler: Any, plan: Plan) -> Draws:
    """A run in the tuned coordinates with every agent started at the mode."""
    mode = np.zeros(setting.moved.dim)
    return sample(setting, setting.moved, sampler, plan, initial=mode)


def sample(
    setting: Setting, problem: st.Problem, sampler: Any, plan: Plan, initial: Any = None
) -> Draws:
    """Call `starlings.sample`, where Ctrl-C ends everything: no half a run enters the table."""
    options = asdict(plan) | {"seed": setting.seed, "initial": initial, "progress": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", InterruptedWarning)
            return Draws.of(st.sample(problem, setting.network, sampler, **options))
    except InterruptedWarning:
        raise KeyboardInterrupt from None
