"""Sample each data set on a ring with nothing set by hand, and compare it with pooled NUTS.

Every data set is sampled twice: by the default, which takes the method of fewest network rounds,
and by D-ADMMS, which is tuned by the agents.

An error of a mean, a ratio of standard deviations and a W2 distance (see `diagnostics`) are all
noisy: with n independent draws a mean is off by 1/sqrt(n) sd by chance alone. So a second NUTS run,
thinned to as many draws as the worst agent has effective ones, is compared with the first in the
same way: what it shows is the error that even a perfect sampler has.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from rich.console import Console

from starlings.diagnostics.reference import compare
from starlings.diagnostics.statistics import convergence_table
from starlings.methods.nuts import pooled_nuts
from starlings.network import Network
from starlings.problem import Problem
from starlings.research.accuracy.comparison import Comparison
from starlings.research.accuracy.data import EXTRA, Case, all_cases
from starlings.research.accuracy.report import Comparisons, display_tables, save
from starlings.research.packaged_data import check_installed
from starlings.results.result import Result
from starlings.sampling import sample
from starlings.system.progress import print_status, spinner

SEED = 1
"""The seed of the network and of the first run of NUTS; the second has the next one."""
METHODS = ("auto", "dadmms")
"""The values of `method` by which each data set is sampled."""
LONGEST = 5
"""A second run is at most this many times as long as the first."""
USUAL_CHAINS = 4
"""A run whose chains are not given is worth this many times `draws` effective draws."""


@dataclass(frozen=True)
class Effort:
    """How many draws to take; all chains are vectorised."""

    effective_draws: int
    """How many are wanted of every agent and parameter; a run with fewer is made again, longer."""
    nuts_chains: int
    nuts_draws: int


FULL = Effort(effective_draws=4000, nuts_chains=8, nuts_draws=5000)
QUICK = Effort(effective_draws=500, nuts_chains=4, nuts_draws=1000)
"""The effort of `starlings accuracy`, and of `starlings accuracy --quick`."""


def run(output: Path | None = None, *, quick: bool = False, progress: bool | None = None) -> None:
    """Compare all data sets and print the table; save it and a figure in the folder `output`."""
    check_installed("arviz", "blackjax", "lifelines", "matplotlib", "statsmodels", extra=EXTRA)
    console = Console()
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    effort = QUICK if quick else FULL
    by_case = [compare_case(case, effort, progress) for case in all_cases()]
    comparisons: Comparisons = {method: [found[method] for found in by_case] for method in METHODS}
    for table in display_tables(comparisons):
        console.print(table)
    if output is not None:
        save(comparisons, output)
        console.print(f"Table and figure: {output}/accuracy.md, .json, .png, .svg", highlight=False)


def compare_case(case: Case, effort: Effort, progress: bool | None = None) -> dict[str, Comparison]:
    """Sample one data set on a ring of its sites by every method, and pooled by NUTS, twice."""
    network = Network.ring(case.problem.num_agents)
    print_status(f"{case.name}, {case.model}", progress)
    with spinner("Pooled, by NUTS, twice", progress):
        references = [
            pooled_nuts(case.problem, effort.nuts_draws, effort.nuts_chains, seed)
            for seed in (SEED, SEED + 1)
        ]
    found = {}
    for method in METHODS:
        print_status(f"On a ring of {case.problem.num_agents} {case.sites}, {method}", progress)
        result = sample_enough(case.problem, network, effort, method, progress)
        found[method] = compared(case, result, references, effort.nuts_chains)
    return found


def compared(
    case: Case, result: Result, references: list[dict[str, np.ndarray]], chains: int
) -> Comparison:
    """A result beside two runs of NUTS, each of so many chains."""
    first, second = references
    check = result.check(first)
    again = thinned(second, int(check.table["ess"].min()))
    floor = compare(one_agent(again, result.posterior, 1), first)
    return Comparison(case, result, check, one_agent(first, result.posterior, chains), floor)


def sample_enough(
    problem: Problem, network: Network, effort: Effort, method: str, progress: bool | None = None
) -> Result:
    """A run with nothing set by hand, as long as the wanted effective draws take."""
    how: Any = {"method": method, "seed": SEED, "progress": progress}
    draw = functools.partial(sample, problem, network, **how)
    draws = math.ceil(effort.effective_draws / USUAL_CHAINS)
    result = draw(draws=draws)
    found = convergence_table(result.posterior)["ess"].min()
    if found >= effort.effective_draws:
        return result
    longer = min(LONGEST, 1.3 * effort.effective_draws / found)
    return draw(draws=math.ceil(longer * draws))


def thinned(draws: dict[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """At most `count` draws, evenly spaced."""
    total = len(next(iter(draws.values())))
    chosen = np.linspace(0, total - 1, min(count, total)).astype(int)
    return {name: values[chosen] for name, values in draws.items()}


def one_agent(draws: dict[str, np.ndarray], like: xr.Dataset, chains: int) -> xr.Dataset:
    """Draws by name in the form of a result: (chain, draw, agent, ...), with the agent NUTS."""
    variables = {
        name: (like[name].dims, values.reshape(chains, -1, 1, *values.shape[1:]))
        for name, values in draws.items()
    }
    labels = {name: like[name] for name in like.coords if name not in ("chain", "draw", "agent")}
    return xr.Dataset(variables, coords={**labels, "agent": ["NUTS"]})
