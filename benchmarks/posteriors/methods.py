"""The columns of the table, each a function of a `Setting`.

    auto       `starlings.sample(problem, network)`: nothing is set by hand
    hmc        the same with method="hmc": lock-step Hamiltonian Monte Carlo on sums
    dadmms     the same with method="dadmms": D-ADMMS, tuned by the agents, many short chains
    paper      D-ADMMS as published; the best rho of a grid
    dsgld      D-SGLD as published; the best step of a grid
    dsghmc     D-SGHMC as published; the best step and friction of a grid
    consensus  consensus Monte Carlo: one upload to a coordinator (see `consensus`)
    nuts       NUTS on the pooled rows: the errors of nearly perfect draws, and the pace of a
               sampler that has all rows in one place

The first three are given `initial` where the model has a start of its own, and are asked for as
many effective draws as are wanted.

The three of the literature have no tuning of their own, so they are given all that can be given:

- coordinates: x = c + L z with the mode c and the metric L that `starlings.tune` finds, where the
  posterior has unit curvature, for in raw coordinates some cases have a condition number of 1e11.
  They do not get the tilts by which it makes the agents alike: those belong to D-ADMMS;
- a start at the mode, and a burn-in of twenty predicted autocorrelation times;
- the best of a grid, judged by the W2 of the worst agent and parameter with the reference in hand
  (see `grid`). The network rounds of tuning and of the search are not counted.

Grids are laid out by pace: the rounds that the average of N agents needs for one independent draw
from a Gaussian of unit curvature, if its Langevin steps are small,

    paper     step h = 1 / (4 rho |E|),   pace = 2 / h,   so rho = pace / (8 |E|)               (1)
    dsgld     step h = eta / N,           pace = 2 / h,   so eta = 2 N / pace                   (2)
    dsghmc    x'' = -gamma x' - x / N decays at the rate r = (gamma - sqrt(gamma^2 - 4/N)) / 2
              (its real part), pace = 2 / (r eta),        so eta = 2 / (r pace)                 (3)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

import starlings as st
from starlings.errors import DivergenceError, StabilityError, TuningError
from starlings.methods.nuts import nuts as run_nuts
from starlings.methods.one_shot import combine

from .consensus import ImproperError, refuse_improper, refuse_unmixed
from .draws import Draws
from .grid import Family, NothingWorkedError, best_of
from .runs import Outcome, Setting, enough, sample

FRICTIONS = (7.0, 1.0)
"""Frictions of D-SGHMC: the paper's, and one nearer to critical damping of the curvature 1/N that
an agent has here."""
USUAL_CHAINS = 4
"""A run whose chains are not given is worth this many times `draws` effective draws."""
NUTS_CHAINS, NUTS_WARMUP, NUTS_FEWEST = 4, 1000, 500
"""Chains of NUTS, steps of warm-up, and the fewest draws of each chain."""
NUTS_DENSE = 20
"""Up to this dimension NUTS adapts a whole covariance matrix, and above it a diagonal."""


FAILURES = (TuningError, DivergenceError, StabilityError, NothingWorkedError, ImproperError)
"""The errors that a method may end with instead of draws; they become cells of the table."""

NOTED = ("pareto_k", "effective_candidates", "newton_iterations", "divergent_share")
"""Attributes of a result that enter the notes, where it has them."""


def by_name(setting: Setting, method: str) -> Outcome:
    """Draw by a method of `starlings.sample`, with nothing set by hand except how many draws."""
    case = setting.case

    def run(longer: float, **options: Any) -> Draws:
        draws = math.ceil(longer * setting.wanted / USUAL_CHAINS)
        options |= {"method": method, "draws": draws, "initial": case.model.start}
        return sample(setting, case.problem, **options)

    drawn = enough(setting, run, timed=partial(run, check=False))
    found = {name: drawn.attributes[name] for name in NOTED if name in drawn.attributes}
    chosen = {"chosen": drawn.attributes["method"], "chains": drawn.lead[0]}
    return Outcome(drawn, chosen | found | {"warnings": drawn.warnings})


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

    return Outcome(enough(setting, run, timed=run))


METHODS: dict[str, Callable[[Setting], Outcome]] = {
    "auto": partial(by_name, method="auto"),
    "hmc": partial(by_name, method="hmc"),
    "dadmms": partial(by_name, method="dadmms"),
    "paper": paper,
    "dsgld": dsgld,
    "dsghmc": dsghmc,
    "consensus": consensus,
    "nuts": nuts,
}
WITH_ROUNDS = ("auto", "hmc", "dadmms", "paper", "dsgld", "dsghmc")
"""The methods in which agents exchange messages in rounds."""


def nuts_draws(setting: Setting, problem: st.Problem, longer: float) -> np.ndarray:
    """Draws of every agent of a problem by itself: (agent, chain, draw, dim)."""
    draws = math.ceil(longer * max(NUTS_FEWEST, setting.wanted / NUTS_CHAINS))
    how = {"warmup": NUTS_WARMUP, "dense": problem.dim <= NUTS_DENSE}
    with jax.enable_x64(True):
        agents = problem.agents()
        drawn = run_nuts(agents, problem.dim, draws, NUTS_CHAINS, setting.seed, **how)
    return np.asarray(drawn)


def as_one_agent(problem: st.Problem, draws: np.ndarray) -> dict[str, np.ndarray]:
    """Draws (chain, draw, dim) by name, as of a single agent."""
    return {name: values[:, :, None] for name, values in problem.constrain(draws).items()}
