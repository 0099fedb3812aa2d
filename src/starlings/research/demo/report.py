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
from starlings.research.demo.ways import ROUND_SECONDS, Way
from starlings.results.disclosed import disclosed_in_words
from starlings.results.result import Result

QUANTILES = {"q05": 0.05, "q25": 0.25, "q50": 0.5, "q75": 0.75, "q95": 0.95}
"""The quantiles of the summary, by the names of their columns."""
LOG_ODDS = "log-odds of seeing a doctor in the year"
"""What the coefficients are about, for the axis and the caption."""
WIDE = 126
"""Characters of a terminal in which mean and standard deviation fit on one line."""


def summary(sites: list[str], separate: Any, ways: list[Way], pooled: Any) -> pd.DataFrame:
    """One row for each parameter and estimate.

    Args:
        sites: the names of the sites.
        separate: draws of each site by itself, (site, chain, draw, parameter).
        ways: what each site found in the network, by each way.
        pooled: draws from all rows at one place, (chain, draw, parameter).
    """
    by_site = {"single site": separate, **{way.title: way.draws for way in ways}}
    estimates = [
        (estimate, site, draws)
        for estimate, found in by_site.items()
        for site, draws in zip(sites, found, strict=True)
    ]
    estimates.append(("pooled", "all", pooled))
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


def display_table(table: pd.DataFrame, network: str, wide: bool) -> Table:
    """The summary as it is printed, with mean and sd side by side or below each other.

    Args:
        table: the summary.
        network: the estimate that is shown as the answer of the network.
        wide: whether mean and sd are side by side.
    """
    sites = list(dict.fromkeys(table.loc[table["estimate"] == "single site", "site"]))
    caption = (
        f"{LOG_ODDS}, mean ± sd. Sites: each alone, by NUTS. Network: the default, {network}. Off "
        "by: the worst site's mean in the network against pooled, in pooled sd. Pooled: NUTS."
    )
    shown = Table(box=SIMPLE_HEAD, padding=0, row_styles=["", "dim"], caption=caption)
    shown.caption_justify = "left"
    shown.add_column("")
    for heading in (*(site.replace(" ", "\n") for site in sites), "network", "off\nby", "pooled"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for parameter, part in table.groupby("parameter", sort=False):
        shown.add_row(str(parameter), *_cells(part, network, " " if wide else "\n"))
    return shown


def _cells(part: pd.DataFrame, network: str, between: str) -> Iterator[str]:
    def cell(mean: float, sd: float) -> str:
        return f"{mean:.2f}{between}±{sd:.2f}"

    estimates = ("single site", network, "pooled")
    single, agents, pooled = (part[part["estimate"] == name] for name in estimates)
    yield from map(cell, single["mean"], single["sd"])
    mean = agents["mean"].mean()
    # the agents have equally many draws, so these are the moments of all draws together
    yield cell(mean, np.sqrt(np.mean(agents["sd"] ** 2 + (agents["mean"] - mean) ** 2)))
    yield f"{agents['mean_error_in_sd'].abs().max():.2f}"
    yield from map(cell, pooled["mean"], pooled["sd"])


def comparison_table(table: pd.DataFrame, ways: list[Way], pooled: np.ndarray) -> Table:
    """What each way costs, and how far its worst site is from the pooled answer."""
    columns = [_comparison(table, way, pooled) for way in ways]
    shown = Table(box=SIMPLE_HEAD, padding=(0, 1), title="Two ways to the same posterior")
    shown.title_justify = "left"
    shown.add_column("")
    for way, note in zip(ways, ("the default", "many short chains"), strict=True):
        shown.add_column(f"{way.title}\n({note})", justify="right", no_wrap=True)
    for name in columns[0]:
        shown.add_row(name, *(column[name] for column in columns))
    return shown


def _comparison(table: pd.DataFrame, way: Way, pooled: np.ndarray) -> dict[str, str]:
    """The cells of one way, by the names of their rows."""
    agents = table[table["estimate"] == way.title]
    off, ratios = agents["mean_error_in_sd"].abs().max(), agents["sd_ratio"]
    errors = np.hypot(monte_carlo_errors(way.draws.mean(axis=0)), monte_carlo_errors(pooled))
    return {
        "network rounds, all included": f"{way.rounds:,}",
        f"time at {1000 * ROUND_SECONDS:.0f} ms a round": duration(way.seconds),
        "messages of a site, at most": f"{way.messages:,}",
        "sent by all sites": f"{way.size / 1e6:.1f} MB",
        "chains x draws": " x ".join(map(str, way.draws.shape[1:3])),
        "effective draws": f"{way.effective_draws:,.0f}",
        "worst site, mean off by": f"{off:.3f} sd",
        "Monte Carlo error of a mean": f"{errors[0]:.3f} sd",
        "worst site, ratio of sd": f"{ratios.min():.3f} to {ratios.max():.3f}",
        "Monte Carlo error of a ratio": f"{errors[1]:.3f}",
    }


def duration(seconds: float) -> str:
    """A time in seconds or minutes.

    >>> duration(1.17), duration(615.0)
    ('1.2 s', '10.2 min')
    """
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def introduction(problem: Problem) -> str:
    """What is about to be computed, in words."""
    persons = sum(int(rows["persons"].sum()) for rows in problem.shards.values())
    return (
        f"[bold]Six sites of the RAND health insurance experiment, {persons:,} rows, on a "
        "ring.[/bold]\nEach site keeps its rows, sends sums to its two neighbours, and draws from "
        "the posterior of everybody's rows. The question: who sees a doctor in a year?\n"
    )


def closing(ways: list[Way], results: list[Result]) -> str:
    """What the default costs, and what left each site by each way, in words."""
    first, other = ways
    cost = (
        f"[bold]A posterior in {first.rounds:,} network rounds[/bold], where {other.title} takes "
        f"{other.rounds:,}."
    )
    left = [
        f"{way.title}: {' '.join(f'{line}.' for line in disclosed_in_words(result.attrs))}"
        for way, result in zip(ways, results, strict=True)
    ]
    masks = (
        'No row is sent as it is; that alone protects no row. With privacy="totals" messages are '
        "masked."
    )
    return "\n".join([cost, "[bold]What left the sites[/bold]", *left, masks])


def save(
    output: Path, table: pd.DataFrame, ways: list[Way], result: Result, network: Network
) -> None:
    """Write rand.csv, .nc, .png and .svg in a folder; the draws are those of the first way."""
    from starlings.research.demo.figure import draw
    from starlings.results.plots import save_figure

    table.to_csv(output / "rand.csv", index=False, float_format="%.6g")
    result.save(output / "rand.nc", overwrite=True)
    save_figure(draw(table, ways, network, LOG_ODDS), output / "rand")
