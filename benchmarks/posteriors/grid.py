"""The search for the best step of a method that has no tuning of its own: a grid of paces.

A pace is the number of rounds for one independent draw (see `methods`).
Steps that diverge are failed points of the grid. The grid grows at an end for as long as the end is
the best, up to `SLOWEST` and down to `FASTEST`; then two points beside the best are tried as well.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from starlings.errors import DivergenceError, StabilityError

from .runs import Outcome, Plan, Setting, draws_wanted, enough, from_the_mode, plan_of
from .score import worst_w2

PACES = (16.0, 32.0, 64.0, 128.0)
"""The first points of a grid: rounds for one independent draw."""
FASTEST, SLOWEST = 4.0, 512.0
"""The ends to which a grid may grow, in rounds for one independent draw."""
TRIAL_DRAWS = 40
"""Draws of each chain at a point of the grid, half a pace from one to the next."""
TRIAL_BURN_IN = 10
"""Paces of burn-in before the first draw at a point of the grid."""
SEARCH_ROUNDS = 12_000
"""Rounds of a search whose best point is in the middle of the grid, for each chain."""
FEWEST_CHAINS = 8
"""Chains of a search, even where there is too little time for them."""


class NothingWorkedError(RuntimeError):
    """Every point of a grid diverged."""


Family = Callable[[float], Any]
"""Maps a pace, in rounds for one independent draw, to the sampler that has it."""


def best_of(setting: Setting, families: Sequence[Family]) -> Outcome:
    """Draws of the best of all families of samplers at its best pace; the grids go to the notes."""
    cost = cost_of_a_round(setting, families[-1](SLOWEST))
    chains = affordable_chains(setting, cost)
    grids = [search(lambda pace, at=at: trial(setting, at(pace), pace, chains)) for at in families]
    points = {(f, pace): w2 for f, grid in enumerate(grids) for pace, w2 in grid.items()}
    family, pace = min(points, key=points.__getitem__)
    tried = {str(families[f](p)): w2 for (f, p), w2 in points.items()}
    if math.isinf(points[family, pace]):
        raise NothingWorkedError(f"every point of the grid diverged: {', '.join(tried)}.")
    sampler, plan = families[family](pace), full_plan(setting, pace, chains, cost)
    draws = enough(setting, lambda longer: from_the_mode(setting, sampler, plan.longer(longer)))
    finite = {name: w2 if math.isfinite(w2) else None for name, w2 in tried.items()}
    return Outcome(draws, {"sampler": str(sampler), "pace": pace, "grid": finite})


def search(w2_of: Callable[[float], float]) -> dict[float, float]:
    """W2 at the paces of a grid that grows towards the best, and beside the best."""
    found = {pace: w2_of(pace) for pace in PACES}
    while True:
        best = min(found, key=lambda pace: (found[pace], -pace))  # the slowest if all diverge
        following = 2 * best if best == max(found) else best / 2
        if following in found or not FASTEST <= following <= SLOWEST:
            break
        found[following] = w2_of(following)
    beside = [best * factor for factor in (2**-0.5, 2**0.5)]
    found |= {pace: w2_of(pace) for pace in beside if FASTEST <= pace <= SLOWEST}
    return dict(sorted(found.items()))


def trial(setting: Setting, sampler: Any, pace: float, chains: int) -> float:
    """The worst W2 of a short run, infinite if it diverges."""
    plan = plan_of(chains, TRIAL_DRAWS, pace, TRIAL_BURN_IN)
    try:
        w2 = worst_w2(setting.case, from_the_mode(setting, sampler, plan))
    except (DivergenceError, StabilityError):
        return math.inf
    return w2 if math.isfinite(w2) else math.inf


def cost_of_a_round(setting: Setting, sampler: Any) -> float:
    """Seconds for one round of one chain; zero if it diverges, and cannot be timed."""
    plan = Plan(FEWEST_CHAINS, draws=2, thin=20, burn_in=0)
    try:
        from_the_mode(setting, sampler, plan)  # compiles
        began = time.perf_counter()
        from_the_mode(setting, sampler, plan)
    except (DivergenceError, StabilityError):
        return 0.0
    return (time.perf_counter() - began) / (plan.chains * plan.draws * plan.thin)


def affordable_chains(setting: Setting, cost: float) -> int:
    """All chains, or as many as a search has the time for."""
    affordable = 60 * setting.minutes / max(cost * SEARCH_ROUNDS, 1e-9)
    return min(setting.chains, max(FEWEST_CHAINS, int(affordable)))


def full_plan(setting: Setting, pace: float, chains: int, cost: float) -> Plan:
    """As many draws as are wanted, or as there is time for."""
    plan = plan_of(chains, draws_wanted(setting, chains), pace)
    affordable = 60 * setting.minutes / max(cost * chains * plan.thin, 1e-9)
    return replace(plan, draws=min(plan.draws, max(TRIAL_DRAWS, int(affordable))))
