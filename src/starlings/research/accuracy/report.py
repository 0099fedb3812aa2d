"""The comparisons as a table (on the screen, in Markdown, in JSON) and as a figure."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from starlings._version import __version__
from starlings.diagnostics.draws import entry_names
from starlings.research.accuracy.comparison import Comparison
from starlings.research.demo.report import describe
from starlings.results.palette import BAND_COLOUR, PALETTE
from starlings.results.plots import (
    FIGURE_SETTINGS,
    WHOLE_ROW,
    draw_rows,
    in_pooled_sd,
    save_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Comparisons = dict[str, list[Comparison]]
"""The comparisons of all data sets, by the method with which they were sampled."""
TITLES = {
    "auto": "The default: the method of fewest network rounds",
    "dadmms": "D-ADMMS, tuned by the agents",
}
"""What each method is called in the tables."""
MEGABYTE = 1e6
"""Bytes."""
GOOD = "nothing against it"
"""The verdict on a result in which `check()` finds no problem."""
MEANING = (
    "Errors are the worst over all agents and parameters, in posterior sd; in brackets what as "
    "many draws of NUTS show against NUTS, by chance alone."
)


def summary(comparison: Comparison) -> dict[str, Any]:
    """The numbers of one data set, in terms that JSON has."""
    case, check = comparison.case, comparison.check
    assert check.against_reference is not None
    return {
        "name": case.name,
        "model": case.model,
        "note": case.note,
        "sites": case.problem.num_agents,
        "site_is": case.sites,
        "rows": case.rows,
        "parameters": case.problem.dim,
        "agents": worst(check.against_reference),
        "floor": worst(comparison.floor),
        "agents_apart": float(check.table["mean_range"].max()),
        "largest_rhat": float(check.table["rhat"].max()),
        "effective_draws": float(comparison.effective_draws),
        "effective_nuts_draws": float(comparison.nuts_convergence["ess"].min()),
        "largest_nuts_rhat": float(comparison.nuts_convergence["rhat"].max()),
        "network_rounds": comparison.network_rounds,
        "bytes_sent": comparison.bytes_sent,
        "problems": comparison.problems,
        "method": comparison.result.attrs["method"],
        "pareto_k": comparison.result.attrs.get("pareto_k"),
    }


def worst(scores: pd.DataFrame) -> dict[str, float]:
    """The worst numbers over all agents and parameters."""
    return {
        "mean_error": float(scores["mean_error"].max()),
        "smallest_sd_ratio": float(scores["sd_ratio"].min()),
        "largest_sd_ratio": float(scores["sd_ratio"].max()),
        "w2": float(scores["w2"].max()),
    }


def lines(numbers: dict[str, Any]) -> dict[str, str]:
    """One data set as it is shown: a text for every line of the table."""
    agents, floor = numbers["agents"], numbers["floor"]

    def ratios(scores: dict[str, float]) -> str:
        return f"{scores['smallest_sd_ratio']:.3f} to {scores['largest_sd_ratio']:.3f}"

    return {
        "model": numbers["model"],
        "sites": f"{numbers['sites']} {numbers['site_is']}",
        "rows": f"{numbers['rows']:,}",
        "parameters": str(numbers["parameters"]),
        "draws by": drawn_by(numbers),
        "error of a mean": f"{agents['mean_error']:.3f} ({floor['mean_error']:.3f})",
        "ratio of sd": f"{ratios(agents)} ({ratios(floor)})",
        "W2 distance": f"{agents['w2']:.3f} ({floor['w2']:.3f})",
        "agents' means apart": f"{numbers['agents_apart']:.4f}",
        "effective draws": f"{numbers['effective_draws']:,.0f}",
        "network rounds, all included": f"{numbers['network_rounds']:,}",
        "MB sent by all agents": f"{numbers['bytes_sent'] / MEGABYTE:,.1f}",
        "verdict of `check()`": verdict(numbers["problems"]),
    }


def drawn_by(numbers: dict[str, Any]) -> str:
    """The method that made the draws; for importance weights with k-hat."""
    k = numbers["pareto_k"]
    return numbers["method"] if k is None else f"{numbers['method']}, k-hat {k:.2f}"


def verdict(problems: list[str]) -> str:
    """The problems by their first words; the caption has them in full."""
    return ", ".join(text.split(":")[0] for text in problems).lower() or GOOD


def display_tables(comparisons: Comparisons) -> list[Table]:
    """The tables for a terminal, one for each method."""
    return [display_table(TITLES[method], found) for method, found in comparisons.items()]


def display_table(title: str, comparisons: list[Comparison]) -> Table:
    """The table of one method, with a column for each data set."""
    shown = Table(
        title=title, box=SIMPLE_HEAD, padding=(0, 1), caption=escape(caption(comparisons))
    )
    shown.title_justify = shown.caption_justify = "left"
    shown.add_column("")
    columns = [lines(summary(comparison)) for comparison in comparisons]
    for comparison in comparisons:
        shown.add_column(comparison.case.name, justify="right")
    for line in columns[0]:
        shown.add_row(line.replace("`", ""), *(escape(column[line]) for column in columns))
    return shown


def markdown(title: str, comparisons: list[Comparison]) -> str:
    """The table of one method in Markdown."""
    columns = [lines(summary(comparison)) for comparison in comparisons]
    head = ["", *(comparison.case.name for comparison in comparisons)]
    body = [[line, *(column[line] for column in columns)] for line in columns[0]]
    rows = [head, ["---", *["---:"] * len(columns)], *body]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"**{title}**\n\n{table}\n\n{caption(comparisons)}\n"


def caption(comparisons: list[Comparison]) -> str:
    """What the numbers mean, notes on the data, and the problems in full."""
    notes = [f"{c.case.name}: {c.case.note}." for c in comparisons if c.case.note]
    found = [f"{c.case.name}: {' '.join(c.problems)}" for c in comparisons if c.problems]
    return " ".join([MEANING, *notes, *found])


def save(comparisons: Comparisons, output: Path) -> None:
    """Write accuracy.md, .json, .png and .svg in a folder; the figure shows the default."""
    numbers = {
        "starlings": __version__,
        "methods": {
            method: [summary(comparison) for comparison in found]
            for method, found in comparisons.items()
        },
    }
    tables = [markdown(TITLES[method], found) for method, found in comparisons.items()]
    (output / "accuracy.json").write_text(json.dumps(numbers, indent=2) + "\n")
    (output / "accuracy.md").write_text("\n".join(tables), encoding="utf-8")
    save_figure(figure(next(iter(comparisons.values()))), output / "accuracy")


def figure(comparisons: list[Comparison]) -> Figure:
    """Every agent's intervals over those of NUTS, a panel for each data set."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(FIGURE_SETTINGS):
        drawn = Figure(figsize=(15, 10), layout="constrained")
        title = "Every agent on the ring, sharing no rows, against pooled NUTS"
        drawn.suptitle(title, fontsize=19, x=0.01, ha="left")
        panels = drawn.subplots(1, len(comparisons), squeeze=False)[0]
        for axes, comparison in zip(panels, comparisons, strict=True):
            draw_panel(axes, comparison)
        drawn.legend(handles=_key(), loc="outside lower center", ncols=2, frameon=False)
    return drawn


def draw_panel(axes: Axes, comparison: Comparison) -> None:
    """One data set: a row for each parameter, in sd of NUTS from its mean."""
    table = in_pooled_sd(intervals(comparison))
    draw_rows(axes, table, {"network": WHOLE_ROW})
    pooled = table[table["estimate"] == "pooled"]
    for row, (low, high) in enumerate(zip(pooled["q25"], pooled["q75"], strict=True)):
        axes.fill_betweenx([row - 0.46, row + 0.46], low, high, color="0.72", lw=0)
    case = comparison.case
    axes.set_title(f"{case.name}\n{case.problem.num_agents} {case.sites}, {case.rows:,} rows")
    axes.set_yticks(range(len(pooled)), [fill(name, width=13) for name in pooled["parameter"]])
    axes.set_ylim(len(pooled) - 0.5, -0.5)
    axes.set_xlim(-2.2, 2.2)
    axes.set_xticks(range(-2, 3))
    axes.set_xlabel("distance from the mean of NUTS, posterior sd")


def intervals(comparison: Comparison) -> pd.DataFrame:
    """Means and quantiles of every agent and of NUTS, as `plots` takes them."""
    posterior = comparison.result.posterior
    labels, agents = flat_draws(posterior)
    _, reference = flat_draws(comparison.nuts)
    described = [
        describe(labels, "network", str(site), agents[:, i])
        for i, site in enumerate(posterior["agent"].values)
    ]
    return pd.concat([*described, describe(labels, "pooled", "all", reference[:, 0])])


def flat_draws(posterior: xr.Dataset) -> tuple[list[str], np.ndarray]:
    """The names of all parameter entries, and their draws as (draw, agent, entry)."""
    names: list[str] = []
    columns = []
    for name, draws in posterior.data_vars.items():
        names += [_plain(entry) for entry in entry_names(str(name), draws)]
        columns.append(draws.values.reshape(-1, draws.sizes["agent"], math.prod(draws.shape[3:])))
    return names, np.concatenate(columns, axis=-1)


def _plain(entry: str) -> str:
    """beta[woman] -> woman."""
    return re.sub(r"^\w+\[(.*)\]$", r"\1", entry)


def _key() -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    return [
        Line2D([], [], color=PALETTE["blue"], lw=3.5, label="each agent of the ring, 50 %"),
        Line2D([], [], color=PALETTE["blue"], lw=1.3, label="90 %"),
        Line2D([], [], color=PALETTE["blue"], lw=0, marker="o", mfc="white", label="mean"),
        Patch(color="0.72", label="all rows pooled, by NUTS, 50 %"),
        Patch(color=BAND_COLOUR, label="90 %"),
        Line2D([], [], color="black", lw=1, label="mean"),
    ]
