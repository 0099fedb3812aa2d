"""What every exactness costs, and the error of its draws: `python -m benchmarks ladder`.

Three posteriors are tuned and sampled at every rung of the ladder of exactness (see
`starlings.tuning.ladder`). The errors are those of the worst agent and parameter, against the exact
mean and standard deviation:

    error of mean = |mean - exact mean| / exact sd,     error of sd = |sd / exact sd - 1|       (1)

With n effective draws (of the worst agent and parameter, bulk, by ArviZ) they are about
1 / sqrt(n) by chance, even where the law is right. Rounds, bytes and milliseconds are per effective
draw, without tuning and burn-in: rounds of one replica of the network, bytes that all its agents
send together, and milliseconds of one process that simulates all agents of many replicas at once.

The exact answer of a posterior that is not Gaussian is an average over points z of a t distribution
in the tuned coordinates, weighted by exp(-F(z)) / t(z).                                       (2)

A second table compares the two ways to decide on a candidate of Metropolis, a vote and a sum, on
one set of rows that is divided among more and more sites, with and without even shares.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

import starlings as st
from starlings.research.paper.data import linear_problem
from starlings.samplers.metropolis import change_of_energy
from starlings.tuning import EXACTNESS, Tuning, tune
from starlings.tuning.pilot import refine

from .choosing import chosen

RUNGS = tuple(rung for rung in EXACTNESS if rung != "auto")
CHAINS, BATCHES = 20, 2
"""Chains of a run, and runs of each row; the last of them is timed."""
POINTS, DEGREES_OF_FREEDOM = 2**18, 5
"""The points of eq. (2), and the degrees of freedom of their t distribution."""
SITES, LENGTH = (4, 16, 64), 0.5
"""Numbers of sites of the second table, and the length of its candidates, in posterior sd."""
Named = dict[str, np.ndarray]
"""Arrays by the name of the parameter."""


@dataclass(frozen=True)
class Row:
    """One rung on one posterior; costs are per effective draw."""

    case: str
    rung: str
    floats: int
    """Floats sent to each neighbour in each round."""
    rounds: float
    bytes: float
    milliseconds: float
    taken: float | None
    """The share of candidates that Metropolis takes; None for other samplers."""
    mean_error: float
    sd_error: float
    effective_draws: float


def linear() -> tuple[st.Problem, st.Network]:
    """The paper's linear regression, two coefficients, five agents on a ring."""
    return linear_problem(5, 50), st.Network.ring(5)


def logistic() -> tuple[st.Problem, st.Network]:
    """Four coefficients, eight sites of 4 to 60 rows on a ring; covariates differ by site."""
    random = np.random.default_rng(1)
    sites = np.repeat(np.arange(8), [4, 60, 8, 30, 16, 45, 6, 20])
    shift = random.normal(size=(8, 3))
    X = np.column_stack([np.ones(len(sites)), random.normal(size=(len(sites), 3)) + shift[sites]])
    y = (random.logistic(size=len(sites)) < X @ [-0.5, 1.0, -0.7, 0.4]).astype(float)
    return st.models.logistic_regression(X, y, sites, intercept=False), st.Network.ring(8)


def skewed() -> tuple[st.Problem, st.Network]:
    """Two events of a Poisson variable with one coefficient, 15 rows at five sites on a ring."""
    sizes = [1, 4, 3, 2, 5]
    x, sites = np.repeat([1.0, -0.3, 2.0, -0.2, 1.5], sizes), np.repeat(np.arange(5), sizes)
    y = np.zeros(15)
    y[[0, 5]] = 1.0
    return st.models.poisson_regression(x[:, None], y, sites, intercept=False), st.Network.ring(5)


CASES: dict[str, Callable[[], tuple[st.Problem, st.Network]]] = {
    "linear": linear,
    "logistic": logistic,
    "skewed": skewed,
}


def run(output: Path, *, cases: str | None = None, effective_draws: int = 20_000) -> Path:
    """Measure every rung of every case, and write ladder.json and ladder.md.

    Args:
        output: the folder of both files, made if it does not exist.
        cases: names of `CASES`, separated by commas; all of them if None.
        effective_draws: the number of effective draws of each row, approximately.
    """
    names = chosen("cases", cases, CASES)
    output.mkdir(parents=True, exist_ok=True)
    ballots = [ballot(sites, tilted) for tilted in (True, False) for sites in SITES]
    print(table(BALLOT_COLUMNS, ballots))
    rows = []
    for name in names:
        rows += measure(name, effective_draws)
        print(ladder_table(rows[-len(RUNGS) :]))
    results = {"ladder": [asdict(row) for row in rows], "ballots": [asdict(b) for b in ballots]}
    (output / "ladder.json").write_text(json.dumps(results, indent=1) + "\n")
    text = f"{ladder_table(rows)}\n{table(BALLOT_COLUMNS, ballots)}"
    (output / "ladder.md").write_text(text)
    return output / "ladder.json"


def measure(name: str, wanted: int) -> list[Row]:
    """Measure all rungs of one case."""
    problem, network = CASES[name]()
    exact = moments(problem, tune(problem, network))
    return [row(name, rung, problem, network, exact, wanted) for rung in RUNGS]


def row(
    name: str,
    rung: str,
    problem: st.Problem,
    network: st.Network,
    exact: tuple[Named, Named],
    wanted: int,
) -> Row:
    """Tune, warm up, and run the same number of rounds twice: the second run is timed."""
    network = network.matched_to(problem.sites)
    tuning = refine(problem, tune(problem, network, exactness=rung), network, seed=0)
    moved, sampler = tuning.problem(problem), tuning.sampler
    cycle = sampler.cycle
    pace = tuning.predicted_rounds_per_draw / cycle
    draws = math.ceil(wanted * pace / (CHAINS * BATCHES))
    run = {"chains": CHAINS, "draws": draws, "thin": cycle, "check": False, "progress": False}
    found = []
    for seed in range(BATCHES):
        began = time.perf_counter()
        found.append(st.sample(moved, network, sampler, seed=seed + 1, **run).posterior)
        seconds = time.perf_counter() - began
    named = {k: np.concatenate([one[k].values for one in found]) for k in found[0].data_vars}
    effective = effective_draws(named)
    rounds = draws * cycle * CHAINS * BATCHES / effective
    floats = sampler.floats(problem.dim)
    mean_error, sd_error = errors(named, *exact)
    return Row(
        name,
        rung,
        floats,
        rounds,
        bytes=rounds * network.degrees.sum() * floats * 8,
        milliseconds=1000 * seconds * BATCHES / effective,
        taken=share_taken(named) if "metropolis" in rung else None,
        mean_error=mean_error,
        sd_error=sd_error,
        effective_draws=effective,
    )


def moments(problem: st.Problem, tuning: Tuning) -> tuple[Named, Named]:
    """Exact means and standard deviations by name, eq. (2) where the posterior is not Gaussian."""
    if problem.quadratic is not None:
        mean, covariance = problem.exact_posterior()
        return {"beta": mean}, {"beta": np.sqrt(np.diag(covariance))}
    moved, t = tuning.problem(problem), scipy.stats.t(DEGREES_OF_FREEDOM)
    uniform = scipy.stats.qmc.Sobol(problem.dim, seed=0).random(POINTS)
    z = t.ppf(uniform)
    with jax.enable_x64(True):
        agents = moved.agents()
        whole = jax.jit(lambda z: jax.vmap(lambda a: a.potential(z))(agents).sum())
        potential = np.asarray(jax.lax.map(whole, jnp.asarray(z), batch_size=1024))
    log_weights = -potential - t.logpdf(z).sum(axis=1)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    named = moved.constrain(z)
    mean = {k: np.tensordot(weights, v, 1) for k, v in named.items()}
    square = {k: np.tensordot(weights, (v - mean[k]) ** 2, 1) for k, v in named.items()}
    return mean, {k: np.sqrt(v) for k, v in square.items()}


def errors(named: Named, mean: Named, sd: Named) -> tuple[float, float]:
    """The errors of eq. (1) of draws (chain, draw, agent, ...)."""
    over = (0, 1)
    means = [np.abs(v.mean(over) - mean[k]) / sd[k] for k, v in named.items()]
    spreads = [np.abs(v.std(over) / sd[k] - 1) for k, v in named.items()]
    return float(max(map(np.max, means))), float(max(map(np.max, spreads)))


def effective_draws(named: Named) -> float:
    """The effective draws of the worst agent and parameter."""
    import arviz

    return min(float(arviz.ess(arviz.convert_to_dataset(v))["x"].min()) for v in named.values())


def share_taken(named: Named) -> float:
    """How often the position changes from one candidate to the next."""
    values = next(iter(named.values()))
    return float(np.mean(values[:, 1:] != values[:, :-1]))


@dataclass(frozen=True)
class Ballot:
    """The share of candidates that is taken by a vote, and by a sum."""

    sites: int
    tilted: bool
    """Whether every agent carries its share of gradient and curvature, as after `tune`."""
    vote: float
    sum: float


def ballot(sites: int, tilted: bool) -> Ballot:
    """Compare both ways on 128 rows of a logistic regression on a ring, sorted by a covariate.

    Candidates are `LENGTH` long and start from N(0, I) in the tuned coordinates.
    """
    random = np.random.default_rng(2)
    X = random.normal(size=(128, 8))
    y = (random.logistic(size=128) < X.sum(axis=1)).astype(float)
    site = np.argsort(np.argsort(X[:, 0])) * sites // 128
    problem, network = (
        st.models.logistic_regression(X, y, site, intercept=False),
        st.Network.ring(sites),
    )
    network = network.matched_to(problem.sites)
    tuning = tune(problem, network)
    moved = tuning.problem(problem) if tilted else problem.affine(tuning.centre, tuning.scale)
    points, noise = random.normal(size=(2, 2000, 8))
    candidates = math.sqrt(1 - LENGTH**2) * points + LENGTH * noise
    with jax.enable_x64(True):
        by_point = jax.vmap(change_of_energy, in_axes=(None, 0, 0))
        by_agent = jax.jit(jax.vmap(by_point, in_axes=(0, None, None)))
        changes = np.asarray(by_agent(moved.agents(network), points, candidates))
    vote = np.exp(-np.maximum(changes, 0).sum(axis=0)).mean()
    return Ballot(sites, tilted, vote, np.exp(-np.maximum(changes.sum(axis=0), 0)).mean())


LADDER_COLUMNS: dict[str, Callable[[Row], str]] = {
    "posterior": lambda row: row.case,
    "rung": lambda row: f"`{row.rung}`",
    "floats": lambda row: str(row.floats),
    "rounds": lambda row: f"{row.rounds:.1f}",
    "bytes": lambda row: f"{row.bytes:,.0f}",
    "accepted": lambda row: "" if row.taken is None else f"{row.taken:.0%}",
    "error of mean": lambda row: f"{row.mean_error:.3f}",
    "error of sd": lambda row: f"{row.sd_error:.3f}",
    "1 / sqrt(n)": lambda row: f"{row.effective_draws**-0.5:.3f}",
}
BALLOT_COLUMNS: dict[str, Callable[[Ballot], str]] = {
    "sites": lambda b: str(b.sites),
    "shares": lambda b: "even" if b.tilted else "as the rows fell",
    "accepted by vote": lambda b: f"{b.vote:.0%}",
    "accepted by sum": lambda b: f"{b.sum:.0%}",
    "rounds for a move, vote / sum": lambda b: f"{b.sum / b.vote / 2:.2g}",
}


def ladder_table(rows: list[Row]) -> str:
    """The table of rungs, with time as a ratio to the cheapest rung of the same posterior."""
    cheapest = {row.case: math.inf for row in rows}
    for each in rows:
        cheapest[each.case] = min(cheapest[each.case], each.milliseconds)
    ratio = {"time": lambda row: f"{row.milliseconds / cheapest[row.case]:.1f}"}
    return table(LADDER_COLUMNS | ratio, rows)


def table(columns: dict[str, Callable[[Any], str]], rows: list[Any]) -> str:
    """A table of Markdown, with a line for each row."""
    lines = [list(columns), ["---"] * len(columns)]
    lines += [[cell(row) for cell in columns.values()] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
