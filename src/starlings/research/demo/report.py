"""The summary of all draws: as a table that is printed and saved, a figure, and a few sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

from starlings.network import Network
from starlings.problem import Problem
from starlings.research.demo.data import COVARIATES
from starlings.results.result import Result

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
"""The quantiles of the summary, by the names of their columns."""
LOG_ODDS = "log-odds of seeing a doctor in the year"
"""What the coefficients are about, for the axis and the caption."""
WIDE = 126
"""Characters of a terminal in which mean and standard deviation fit on one line."""


def summary(sites: list[str], separate: Any, network: Any, pooled: Any) -> pd.DataFrame:
    """One row for each parameter and estimate.

    Args:
        sites: the names of the sites.
        separate: draws of each site by itself, (site, chain, draw, parameter).
        network: draws of each agent of the network, (site, chain, draw, parameter).
        pooled: draws from all rows at one place, (chain, draw, parameter).
    """
    estimates = [
        *(("single site", site, draws) for site, draws in zip(sites, separate, strict=True)),
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
    """One row for each parameter, the last axis of the draws, with the columns of a figure."""
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
    sites = list(dict.fromkeys(table.loc[table["estimate"] == "single site", "site"]))
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

    estimates = ("single site", "network", "pooled")
    single, agents, pooled = (part[part["estimate"] == name] for name in estimates)
    yield from map(cell, single["mean"], single["sd"])
    mean = agents["mean"].mean()
    # the agents have equally many draws, so these are the moments of all draws together
    yield cell(mean, np.sqrt(np.mean(agents["sd"] ** 2 + (agents["mean"] - mean) ** 2)))
    yield f"{agents['mean_error_in_sd'].abs().max():.2f}"
    yield from map(cell, pooled["mean"], pooled["sd"])


def introduction(problem: Problem) -> str:
    """What is about to be computed, in words."""
    persons = sum(int(rows["persons"].sum()) for rows in problem.shards.values())
    return (
        f"[bold]Six sites of the RAND health insurance experiment, {persons:,} rows, on a "
        "ring.[/bold]\nEach site keeps its rows, sends only its current estimate to its two "
        "neighbours, and draws from the posterior of everybody's rows. The question: who sees a "
        "doctor in a year?\n"
    )


def closing(table: pd.DataFrame, network: np.ndarray, pooled: np.ndarray, result: Result) -> str:
    """How far the worst agent is from the pooled answer, and what was sent, in words."""
    agents = table[table["estimate"] == "network"]
    off, ratios = agents["mean_error_in_sd"].abs().max(), agents["sd_ratio"]
    errors = np.hypot(monte_carlo_errors(network.mean(axis=0)), monte_carlo_errors(pooled))
    sent = result.sample_stats[["messages_sent", "bytes_sent"]].isel(draw=-1).sum("chain")
    messages, size = (int(sent[name].max()) for name in ("messages_sent", "bytes_sent"))
    return (
        f"[bold]Worst agent against pooled:[/bold] mean off by {off:.2f} sd, sd ratios "
        f"{ratios.min():.2f} to {ratios.max():.2f} (Monte Carlo errors: {errors[0]:.2f} sd of a "
        f"mean, {errors[1]:.2f} of a ratio).\n"
        f"Each site sent {messages:,} messages, {size / 1e6:.1f} MB. "
        "[bold]Rows that left a site: 0.[/bold]"
    )


def save(output: Path, table: pd.DataFrame, result: Result, network: Network) -> None:
    """Write rand.csv, .nc, .png and .svg in a folder."""
    from starlings.results.plots import forest, save_figure

    table.to_csv(output / "rand.csv", index=False, float_format="%.6g")
    result.save(output / "rand.nc", overwrite=True)
    title = "Six sites on a ring, sharing no rows, reach the pooled posterior"
    save_figure(forest(table, network, title, LOG_ODDS), output / "rand")
