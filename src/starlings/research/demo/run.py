"""Draws of the network by two ways, and the draws of NUTS that they are compared with.

The answers of the network are compared with two others, both drawn by NUTS: what each site finds by
itself, and what one computer finds with the rows of all sites.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from starlings.methods.nuts import nuts
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.agent import Agent
from starlings.research.demo import report
from starlings.research.demo.data import EXTRA, build_problem, counted_problem, load_rows, merge
from starlings.research.demo.ways import METHODS, draw_by
from starlings.research.packaged_data import check_installed
from starlings.system.progress import spinner

CHAINS = 4
"""Chains of each run of NUTS."""
SEED = 1
"""The seed of all draws."""


def run(
    output: Path,
    *,
    draws: int = 1000,
    reference_draws: int = 2000,
    progress: bool | None = None,
) -> None:
    """Run the demo, print what it finds, and save figure, table and draws in the folder `output`.

    Args:
        output: the folder, made if it does not exist.
        draws: the argument of `sample`, for each way: 4 x `draws` effective draws, about.
        reference_draws: draws of each chain of NUTS, for the pooled rows and for each site alone.
        progress: whether to print on stderr what is being done; None for only on a terminal.
    """
    check_installed("statsmodels", "blackjax", "matplotlib", extra=EXTRA)
    output.mkdir(parents=True, exist_ok=True)
    console = Console()
    problem = build_problem(load_rows())
    network = Network.ring(6).matched_to(problem.sites)
    console.print(report.introduction(problem), highlight=False)
    with spinner("Each site alone, and all rows pooled, by NUTS", progress):
        separate, pooled = references(problem, reference_draws)
    found = [draw_by(method, problem, network, draws, SEED, progress) for method in METHODS]
    ways, results = [way for way, _ in found], [result for _, result in found]
    table = report.summary(problem.sites, separate, ways, pooled)
    report.save(output, table, ways, results[0], network)
    wide = console.width >= report.WIDE
    console.print(report.display_table(table, ways[0].title, wide))
    console.print(report.comparison_table(table, ways, pooled))
    console.print(report.closing(ways, results), highlight=False)
    console.print(f"Figure, table and draws: {output}/rand.png, .svg, .csv, .nc", highlight=False)


def references(problem: Problem, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """NUTS draws of beta: of each site alone, (site, chain, draw, parameter), and of all pooled."""
    pooled = merge(**problem.pooled().shards["pooled"])
    with jax.enable_x64(True):
        agents = independent_agents(counted_problem({**problem.shards, "pooled": pooled}))
        z = nuts(agents, problem.dim, draws, chains=CHAINS, seed=SEED)
    beta = problem.constrain(z)["beta"]
    return beta[:-1], beta[-1]


def independent_agents(problem: Problem) -> Agent:
    """The agents, stacked, each with the posterior of its own rows and the whole prior."""
    return replace(problem.agents(), prior_share=jnp.ones(problem.num_agents))
