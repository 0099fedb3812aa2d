"""The columns of the table: six methods, each a function of a `Setting`.

    tuned      `starlings.sample(problem, network)`: nothing is set by hand
    paper      D-ADMMS as published; the best rho of a grid
    dsgld      D-SGLD as published; the best step of a grid
    dsghmc     D-SGHMC as published; the best step and friction of a grid
    consensus  consensus Monte Carlo: one upload to a coordinator (see `consensus`)
    nuts       NUTS on the pooled rows: the errors of nearly perfect draws

The three of the literature have no tuning of their own, so they are given all that can be given:

- coordinates: x = c + L z with the mode c and the metric L that `tuned` found, where the posterior
  has unit curvature, for in raw coordinates some cases have a condition number of 1e11. They do
  not get the tilts by which `tuned` makes the agents alike: those belong to the method;
- a start at the mode, and a burn-in of twenty predicted autocorrelation times;
- the best of a grid, judged by the W2 of the worst agent and parameter with the reference in hand.

Grids are laid out by pace: the rounds that the average of N agents needs for one independent draw
from a Gaussian of unit curvature, if its Langevin steps are small,

    paper     step h = 1 / (4 rho |E|),   pace = 2 / h,   so rho = pace / (8 |E|)               (1)
    dsgld     step h = eta / N,           pace = 2 / h,   so eta = 2 N / pace                   (2)
    dsghmc    x'' = -gamma x' - x / N decays at the rate r = (gamma - sqrt(gamma^2 - 4/N)) / 2
              (its real part), pace = 2 / (r eta),        so eta = 2 / (r pace)                 (3)

Steps that diverge are failed points of the grid. The grid grows at an end for as long as the end is
the best, up to `SLOWEST` and down to `FASTEST`; then two points beside the best are tried as well.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np

import starlings as st
from starlings.errors import DivergenceError, InterruptedWarning, StabilityError, TuningError
from starlings.research.nuts import nuts as run_nuts
from starlings.tuning import Tuning, tune
from starlings.tuning.pilot import refine

from .cases import Case
from .consensus import ImproperError, combine, refuse_improper, refuse_unmixed
from .draws import Draws
from .score import effective_draws, worst_w2

PACES = (16.0, 32.0, 64.0, 128.0)
"""The first points of a grid: rounds for one independent draw."""
FASTEST, SLOWEST = 4.0, 512.0
"""The ends to which a grid may grow, in rounds for one independent draw."""
FRICTIONS = (7.0, 1.0)
"""Frictions of D-SGHMC: the paper's, and one nearer to critical damping of the curvature 1/N that
an agent has here."""
SLOWEST_TUNED = 4096.0
"""The slowest pace of `tuned` for which draws are spaced, in rounds for one independent draw."""
TRIAL_DRAWS = 40
"""Draws of each chain at a point of the grid, half a pace from one to the next."""
TRIAL_BURN_IN, BURN_IN = 10, 20
"""Paces of burn-in before the first draw, at a point of the grid and in a full run."""
SEARCH_ROUNDS = 12_000
"""Rounds of a search whose best point is in the middle of the grid, for each chain."""
FEWEST_CHAINS = 8
"""Chains of a search, even where there is too little time for them."""
EFFECTIVE_SHARE = 0.4
"""Effective draws for one draw, with half an autocorrelation time from one draw to the next.

It is (e-1)/(e+1), less something for parameters that are slower than a Gaussian's.
"""
LONGEST = 50.0
"""A second run is at most this many times as long as the first."""
NUTS_CHAINS, NUTS_WARMUP, NUTS_FEWEST = 16, 1000, 200
"""Chains of NUTS, steps of warm-up, and the fewest draws of each chain."""
NUTS_DENSE = 20
"""Up to this dimension NUTS adapts a whole covariance matrix, and above it a diagonal."""
NUTS_SHARE = 0.6
"""Effective draws for one draw of NUTS, cautiously."""


class NothingWorkedError(RuntimeError):
    """Every point of a grid diverged."""


FAILURES = (TuningError, DivergenceError, StabilityError, NothingWorkedError, ImproperError)
"""The errors that a method may end with instead of draws; they become cells of the table."""


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


def tuned(setting: Setting) -> Outcome:
    """Draw with nothing set by hand except the number of draws."""
    problem, sampler, found = setting.case.problem, None, setting.refined
    if setting.case.model.start is not None:  # the mode would not be found from anywhere
        problem, sampler = found.problem(problem), found.sampler
    pace = min(found.predicted_rounds_per_draw, SLOWEST_TUNED)
    plan = plan_of(setting.chains, draws_wanted(setting, setting.chains), pace)
    draws = enough(setting, lambda longer: sample(setting, problem, sampler, plan.longer(longer)))
    notes = {k: v for k, v in found.record().items() if k not in ("centre", "scale")}
    return Outcome(draws, notes | {"sampler": str(found.sampler)})


def paper(setting: Setting) -> Outcome:
    """Draw by D-ADMMS as published, with the best rho of a grid."""
    edges = setting.network.num_edges

    def at_pace(pace: float) -> st.DADMMS:
        return st.DADMMS(rho=pace / (8 * edges), noise="paper", output="iterate")  # (1)

    return best_of(setting, [at_pace])


def dsgld(setting: Setting) -> Outcome:
    """Draw by D-SGLD as published, with full gradients and the best step of a grid."""
    agents = setting.network.size
    return best_of(setting, [lambda pace: st.DSGLD(step_size=2 * agents / pace)])  # (2)


def dsghmc(setting: Setting) -> Outcome:
    """Draw by D-SGHMC as published, with full gradients and the best of two grids."""
    return best_of(setting, [_hamiltonian(setting.network.size, g) for g in FRICTIONS])


def _hamiltonian(agents: int, friction: float) -> Family:
    rate = (friction - math.sqrt(max(0.0, friction**2 - 4 / agents))) / 2
    return lambda pace: st.DSGHMC(step_size=2 / (rate * pace), friction=friction)  # (3)


def consensus(setting: Setting) -> Outcome:
    """Draw by consensus Monte Carlo: NUTS at every agent by itself, averaged by a coordinator."""
    problem = setting.moved
    with jax.enable_x64(True):
        refuse_improper(problem.agents(), problem.dim)

    def run(longer: float) -> Draws:
        drawn = nuts_draws(setting, problem, longer)
        refuse_unmixed(drawn)
        floats = drawn.size + len(drawn) * problem.dim * (problem.dim + 1) / 2
        return Draws(as_one_agent(problem, combine(drawn)), bytes_sent=8 * floats)

    return Outcome(enough(setting, run))


def nuts(setting: Setting) -> Outcome:
    """Draw by NUTS on the pooled rows."""
    problem = setting.moved.pooled()

    def run(longer: float) -> Draws:
        return Draws(as_one_agent(problem, nuts_draws(setting, problem, longer)[0]))

    return Outcome(enough(setting, run))


METHODS: dict[str, Callable[[Setting], Outcome]] = {
    "tuned": tuned,
    "paper": paper,
    "dsgld": dsgld,
    "dsghmc": dsghmc,
    "consensus": consensus,
    "nuts": nuts,
}
DECENTRALISED = ("tuned", "paper", "dsgld", "dsghmc")
"""The methods in which agents exchange messages in rounds."""


def nuts_draws(setting: Setting, problem: st.Problem, longer: float) -> np.ndarray:
    """Draws of every agent of a problem by itself: (agent, chain, draw, dim)."""
    draws = math.ceil(longer * max(NUTS_FEWEST, setting.wanted / (NUTS_SHARE * NUTS_CHAINS)))
    how = {"warmup": NUTS_WARMUP, "dense": problem.dim <= NUTS_DENSE}
    with jax.enable_x64(True):
        agents = problem.agents()
        drawn = run_nuts(agents, problem.dim, draws, NUTS_CHAINS, setting.seed, **how)
    return np.asarray(drawn)


def as_one_agent(problem: st.Problem, draws: np.ndarray) -> dict[str, np.ndarray]:
    """Draws (chain, draw, dim) by name, as of a single agent."""
    return {name: values[:, :, None] for name, values in problem.constrain(draws).items()}


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
