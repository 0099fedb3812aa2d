"""Draws of the network, and the draws of NUTS that they are compared with.

The answer of the network is compared with two others, both drawn by NUTS: what each site finds by
itself, and what one computer finds with the rows of all sites.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.agent import Agent
from starlings.research.demo import report
from starlings.research.demo.data import EXTRA, build_problem, counted_problem, load_rows, merge
from starlings.research.nuts import nuts
from starlings.research.packaged_data import check_installed
from starlings.results.result import Result
from starlings.samplers import DADMMS
from starlings.sampling import sample
from starlings.system.progress import spinner

RHO = 1250.0
"""The penalty of D-ADMMS, from the Langevin step eta = 1 / (4 rho |E|) of the network's average.

At the mode the summed Hessian, in the coordinates z of `Units`, has eigenvalues from 1496 to 6031:
condition number 4. With |E| = 6 edges, rho = 1250 gives eta m = 0.20 for the largest eigenvalue m
and 0.05 for the smallest. The exact law of the Gaussian with these Hessians then has agents' sd
within 0.992 .. 1.011 of the posterior's, and an autocorrelation time of 2 / 0.05 = 40 rounds, so
that 4 chains of 20,000 rounds are worth about 2000 draws: a Monte Carlo error of 0.022 sd.
"""
THIN = 20
"""Rounds from one draw to the next: half an autocorrelation time."""
BURN_IN = 500
"""Rounds dropped before the first draw: twelve autocorrelation times."""
CHAINS = 4
"""Chains of the network, and of each run of NUTS."""
SEED = 1
"""The seed of all draws."""


def run(
    output: Path,
    *,
    draws: int = 1000,
    thin: int = THIN,
    reference_draws: int = 2000,
    progress: bool | None = None,
) -> None:
    """Run the demo, print what it finds, and save figure, table and draws in the folder `output`.

    Args:
        output: the folder, made if it does not exist.
        draws: draws of each of the network's chains.
        thin: rounds from one draw to the next.
        reference_draws: draws of each chain of NUTS, for the pooled rows and for each site alone.
        progress: whether to print on stderr what is being done; None for only on a terminal.
    """
    check_installed("statsmodels", "blackjax", "matplotlib", extra=EXTRA)
    output.mkdir(parents=True, exist_ok=True)
    console = Console()
    problem, network = build_problem(load_rows()), Network.ring(6)
    console.print(report.introduction(problem), highlight=False)
    with spinner("Each site alone, and all rows pooled, by NUTS", progress):
        separate, pooled = references(problem, reference_draws)
    result = run_network(problem, network, draws, thin, progress)
    agents = np.moveaxis(result.posterior["beta"].to_numpy(), 2, 0)
    table = report.summary(problem.sites, separate, agents, pooled)
    report.save(output, table, result, network.matched_to(problem.sites))
    console.print(report.display_table(table, wide=console.width >= report.WIDE))
    console.print(report.closing(table, agents, pooled, result), highlight=False)
    console.print(f"Figure, table and draws: {output}/rand.png, .svg, .csv, .nc", highlight=False)


def run_network(
    problem: Problem, network: Network, draws: int, thin: int, progress: bool | None = None
) -> Result:
    """Draw by D-ADMMS on a network, with coherent noise and half-noise output."""
    sampler = DADMMS(rho=RHO, noise="coherent", output="half-noise")
    return sample(
        problem,
        network,
        sampler,
        draws=draws,
        chains=CHAINS,
        burn_in=BURN_IN,
        thin=thin,
        seed=SEED,
        progress=progress,
    )


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
