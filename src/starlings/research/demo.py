"""The demo: six sites of the RAND health insurance experiment fit one model without pooling rows.

Each row is a person in a year, at one of six sites. Whether they saw a doctor that year is a
logistic regression on eight covariates, with rows taken as independent:

    visit ~ Bernoulli(1 / (1 + exp(-x'beta))),      beta ~ N(0, 10 I)                   (1)

The covariates take few values, so that every site replaces its thousands of rows by one line for
each combination of values: the number of persons and the number of them with a visit. These counts
are sufficient: the posterior is that of (1), and a round is ten times cheaper. One beta for all
sites is a simplification: their answers differ by more than chance, as the figure shows.

The ring's answer is held against two others, both drawn by NUTS: what each site finds alone, and
what one computer finds with the rows of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from starlings.models.outcomes import NormalPrior
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.agent import Agent
from starlings.problem.parameters import Parameter
from starlings.research.nuts import nuts
from starlings.research.packaged_data import check_installed, read_packaged
from starlings.results.result import Result
from starlings.samplers import DADMMS
from starlings.sampling import sample
from starlings.system.progress import stage

RHO = 1250.0
"""The penalty, from the Langevin step eta = 1 / (4 rho |E|) of the network's average.

At the mode the summed Hessian, in the coordinates z of `Units`, has eigenvalues from 1496 to 6031:
condition number 4. With |E| = 6 edges, rho = 1250 gives eta m = 0.20 for the largest eigenvalue m
and 0.05 for the smallest. The exact law of the Gaussian with these Hessians then has agents' sd
within 0.992 .. 1.011 of the posterior's, and an autocorrelation time of 2 / 0.05 = 40 rounds, so
that 4 chains of 20,000 rounds are worth about 2000 draws: a Monte Carlo error of 0.022 sd.
"""
THIN = 20
BURN_IN = 500
"""Twelve autocorrelation times."""
CHAINS = 4
SEED = 1
QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
LOG_ODDS = "log-odds of seeing a doctor in the year"


class Covariate(NamedTuple):
    """A column of the design, its value less a centre, and the scale of its coefficient.

    Centres and scales are rough means and standard deviations, as round numbers fixed here: nobody
    in the network has all the rows to compute better ones from.
    """

    label: str
    value: Callable[[pd.DataFrame], Any]
    centre: float
    scale: float


COVARIATES = (
    Covariate("intercept", lambda t: np.ones(len(t)), 0.0, 1.0),
    # log(1 + coinsurance in %): 0 for free care, 1 for 95 %, the most that a plan asked
    Covariate("95 % coinsurance", lambda t: t["logc"] / np.log(96), 0.5, 0.5),
    Covariate("woman", lambda t: t["female"], 0.5, 0.5),
    Covariate("under 6 years", lambda t: t["xage"] < 6, 0.1, 0.4),
    Covariate("45 or older", lambda t: t["xage"] >= 45, 0.2, 0.4),
    # a fraction between 0 and 1 in 5 % of the rows
    Covariate("physical limitation", lambda t: t["physlm"] > 0.5, 0.1, 0.4),
    Covariate("fair or poor health", lambda t: t["hlthf"] + t["hlthp"] > 0.5, 0.1, 0.4),
    Covariate("many chronic diseases", lambda t: t["disea"] >= 15, 0.2, 0.4),
    Covariate("income, +$10,000", lambda t: (t["income"] / 1e4).round().clip(0, 2), 1.0, 0.6),
)


@dataclass(frozen=True)
class Units:
    """beta = z / scale: the sampler moves in z, where all directions are about equally curved."""

    scales: tuple[float, ...]

    def __call__(self, z):
        """T(z)."""
        return z / jnp.asarray(self.scales, z.dtype)

    def _inverse(self, theta):
        return theta * jnp.asarray(self.scales)

    def log_abs_det_jacobian(self, z, theta):
        """Minus the logarithm of each scale."""
        return -jnp.log(jnp.asarray(self.scales, z.dtype))


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
        output: the folder, made if it is not there.
        draws: draws of each of the network's chains.
        thin: rounds from one draw to the next.
        reference_draws: draws of each NUTS chain, for the pooled rows and for each site alone.
        progress: what is being done, on stderr; by default where there is a terminal.
    """
    check_installed("statsmodels", "blackjax", "matplotlib", extra="demo")
    output.mkdir(parents=True, exist_ok=True)
    console = Console()
    problem, network = build_problem(load_rows()), Network.ring(6)
    console.print(_introduction(problem), highlight=False)
    with stage("Each site alone, and all rows pooled, by NUTS", progress):
        separate, pooled = references(problem, reference_draws)
    result = run_network(problem, network, draws, thin, progress)
    agents = np.moveaxis(result.posterior["beta"].to_numpy(), 2, 0)
    table = summary(problem.sites, separate, agents, pooled)
    _save(output, table, result, network.matched_to(problem.sites))
    console.print(display_table(table, wide=console.width >= 126))
    errors = np.hypot(monte_carlo_errors(agents.mean(axis=0)), monte_carlo_errors(pooled))
    console.print(_closing(table, errors, result), highlight=False)
    console.print(f"Figure, table and draws: {output}/rand.png, .svg, .csv, .nc", highlight=False)


def load_rows() -> pd.DataFrame:
    """The experiment's table, which is in the public domain, from the statsmodels package."""
    return read_packaged("statsmodels", "datasets/randhie/src/randhie.csv", extra="demo")


def build_problem(rows: pd.DataFrame) -> Problem:
    """Eq. (1) with the rows of each site counted at that site."""
    by_site = rows.groupby("site")
    return counted_problem({f"site {site:.0f}": count_rows(part) for site, part in by_site})


def counted_problem(shards: dict[str, dict[str, np.ndarray]]) -> Problem:
    """Eq. (1) for shards of counts."""
    labels = tuple(covariate.label for covariate in COVARIATES)
    units = Units(tuple(covariate.scale for covariate in COVARIATES))
    beta = Parameter((len(labels),), labels=labels, transform=units)
    return Problem(binomial, NormalPrior(10**0.5), {"beta": beta}, shards)


def count_rows(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    """Persons, and persons with a visit, for every combination of covariates."""
    columns = [np.asarray(c.value(rows), float) - c.centre for c in COVARIATES]
    return merge(np.column_stack(columns), np.ones(len(rows)), rows["mdvis"].gt(0).to_numpy())


def merge(x: np.ndarray, persons: np.ndarray, visitors: np.ndarray) -> dict[str, np.ndarray]:
    """Add up the lines with the same combination of covariates."""
    combinations, line = np.unique(x, axis=0, return_inverse=True)
    persons, visitors = (np.bincount(line.ravel(), weights=c) for c in (persons, visitors))
    return {"x": combinations, "persons": persons, "visitors": visitors}


def binomial(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """The log-likelihood of all persons of one combination under eq. (1)."""
    log_odds = row["x"] @ p["beta"]
    return row["visitors"] * log_odds - row["persons"] * jax.nn.softplus(log_odds)


def run_network(
    problem: Problem, network: Network, draws: int, thin: int, progress: bool | None = None
) -> Result:
    """D-ADMMS on the ring, with coherent noise and half-noise output."""
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
    """NUTS draws of beta for each site alone, (site, chain, draw, parameter), and pooled."""
    pooled = merge(**problem.pooled().shards["pooled"])
    with jax.enable_x64(True):
        agents = alone(counted_problem({**problem.shards, "pooled": pooled}))
        z = nuts(agents, problem.dim, draws, chains=CHAINS, seed=SEED)
    beta = problem.constrain(z)["beta"]
    return beta[:-1], beta[-1]


def alone(problem: Problem) -> Agent:
    """The agents, each with the posterior of its own rows and the whole prior."""
    return replace(problem.agents(), prior_share=jnp.ones(problem.num_agents))


def summary(sites: list[str], separate: Any, network: Any, pooled: Any) -> pd.DataFrame:
    """One row for each parameter and estimate; draws are (site, chain, draw, parameter)."""
    estimates = [
        *(("alone", site, draws) for site, draws in zip(sites, separate, strict=True)),
        *(("network", site, draws) for site, draws in zip(sites, network, strict=True)),
        ("pooled", "all", pooled),
    ]
    labels = [covariate.label for covariate in COVARIATES]
    table = pd.concat([describe(labels, *estimate) for estimate in estimates])
    reference = table[table["estimate"] == "pooled"].set_index("parameter")
    mean, sd = (table["parameter"].map(reference[column]) for column in ("mean", "sd"))
    table["mean_error_in_sd"] = (table["mean"] - mean) / sd
    table["sd_ratio"] = table["sd"] / sd
    order = {label: i for i, label in enumerate(labels)}
    by_parameter = table["parameter"].map(order).to_numpy()
    return table.iloc[np.argsort(by_parameter, kind="stable")].reset_index(drop=True)


def describe(labels: list[str], estimate: str, site: str, draws: np.ndarray) -> pd.DataFrame:
    """One row for each parameter, the last axis of the draws: what `plots` needs to show it."""
    flat = draws.reshape(-1, draws.shape[-1])
    columns = {
        "parameter": labels,
        "estimate": estimate,
        "site": site,
        "mean": flat.mean(axis=0),
        "sd": flat.std(axis=0, ddof=1),
    }
    return pd.DataFrame(columns | {k: np.quantile(flat, q, axis=0) for k, q in QUANTILES.items()})


def monte_carlo_errors(draws: np.ndarray) -> np.ndarray:
    """The standard errors of a mean, in sd, and of an sd, as a fraction, from the chains' spread.

    Draws are (chain, draw, parameter). A few chains say little about one parameter, so these are
    root mean squares over the parameters.
    """
    sd = draws.std(axis=1)
    by_chain = np.stack([draws.mean(axis=1), sd]) / sd.mean(axis=0)
    return np.sqrt(by_chain.var(axis=1, ddof=1).mean(axis=-1) / len(draws))


def display_table(table: pd.DataFrame, wide: bool) -> Table:
    """The summary as it is printed, with mean and sd side by side or below each other."""
    sites = list(dict.fromkeys(table.loc[table["estimate"] == "alone", "site"]))
    caption = (
        f"{LOG_ODDS}, mean ± sd. Sites: each alone, by NUTS. Network: D-ADMMS, the draws of all "
        "agents. Off by: the worst agent's mean against pooled, in pooled sd. Pooled: NUTS."
    )
    shown = Table(box=SIMPLE_HEAD, padding=0, row_styles=["", "dim"], caption=caption)
    shown.caption_justify = "left"
    shown.add_column("")
    for heading in (*(site.replace(" ", "\n") for site in sites), "network", "off\nby", "pooled"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for parameter, part in table.groupby("parameter", sort=False):
        shown.add_row(str(parameter), *_cells(part, " " if wide else "\n"))
    return shown


def _cells(part: pd.DataFrame, between: str) -> Iterator[str]:
    def cell(mean: float, sd: float) -> str:
        return f"{mean:.2f}{between}±{sd:.2f}"

    alone, agents, pooled = (part[part["estimate"] == e] for e in ("alone", "network", "pooled"))
    yield from map(cell, alone["mean"], alone["sd"])
    mean = agents["mean"].mean()
    # the agents have equally many draws, so these are the moments of all draws together
    yield cell(mean, np.sqrt(np.mean(agents["sd"] ** 2 + (agents["mean"] - mean) ** 2)))
    yield f"{agents['mean_error_in_sd'].abs().max():.2f}"
    yield from map(cell, pooled["mean"], pooled["sd"])


def _introduction(problem: Problem) -> str:
    persons = sum(int(rows["persons"].sum()) for rows in problem.shards.values())
    return (
        f"[bold]Six sites of the RAND health insurance experiment, {persons:,} rows, on a "
        "ring.[/bold]\nEach site keeps its rows, sends only its current estimate to its two "
        "neighbours, and draws from the posterior of everybody's rows. The question: who sees a "
        "doctor in a year?\n"
    )


def _closing(table: pd.DataFrame, errors: np.ndarray, result: Result) -> str:
    agents = table[table["estimate"] == "network"]
    off, ratios = agents["mean_error_in_sd"].abs().max(), agents["sd_ratio"]
    sent = result.sample_stats[["messages_sent", "bytes_sent"]].isel(draw=-1).sum("chain")
    messages, size = (int(sent[name].max()) for name in ("messages_sent", "bytes_sent"))
    return (
        f"[bold]Worst agent against pooled:[/bold] mean off by {off:.2f} sd, sd ratios "
        f"{ratios.min():.2f} to {ratios.max():.2f} (Monte Carlo errors: {errors[0]:.2f} sd of a "
        f"mean, {errors[1]:.2f} of a ratio).\n"
        f"Each site sent {messages:,} messages, {size / 1e6:.1f} MB. "
        "[bold]Rows that left a site: 0.[/bold]"
    )


def _save(output: Path, table: pd.DataFrame, result: Result, network: Network) -> None:
    from starlings.results.plots import forest, save_figure

    table.to_csv(output / "rand.csv", index=False, float_format="%.6g")
    result.save(output / "rand.nc", overwrite=True)
    title = "Six sites on a ring, sharing no rows, reach the pooled posterior"
    save_figure(forest(table, network, title, LOG_ODDS), output / "rand")
