"""The paper's ablations of D-ADMMS: its penalty, and where it starts.

Both are on a ring of 20 agents with 50 rows each and show one agent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from starlings.research.paper.curves import Start, w2_table
from starlings.research.paper.data import linear_problem, topology
from starlings.research.paper.experiment import Experiment, Report, Settings
from starlings.research.paper.experiments.linear import curve_handles, paper_dadmms
from starlings.research.paper.style import log_axis, panel_grid

NUM_AGENTS, ROWS_EACH, ROUNDS = 20, 50, 100
PENALTIES = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
NUM_STARTS = 10


def penalties(settings: Settings) -> dict[str, dict[str, Any]]:
    """The values of rho, each as arguments of `w2_table`."""
    return {f"{rho:g}": {"sampler": paper_dadmms(float(rho))} for rho in PENALTIES}


def starts(settings: Settings) -> dict[str, dict[str, Any]]:
    """N(0, I), then N((-1, 2), A A') with entries of A uniform between 0 and 10."""
    random = np.random.default_rng(settings.seed)
    laws = {"N(0, I)": Start()}
    for number in range(1, NUM_STARTS):
        A = random.uniform(0, 10, size=(2, 2))
        laws[f"wide {number}"] = Start(np.array([-1.0, 2.0]), A @ A.T)
    return {name: {"sampler": paper_dadmms(), "start": law} for name, law in laws.items()}


def compute(
    variants: Callable[[Settings], Mapping[str, dict[str, Any]]], settings: Settings, report: Report
) -> pd.DataFrame:
    """One agent's W2 under every variant."""
    problem, network = linear_problem(NUM_AGENTS, ROWS_EACH), topology("ring", NUM_AGENTS)
    _, covariance = problem.exact_posterior()
    chosen, tables = variants(settings), []
    for done, (name, arguments) in enumerate(chosen.items()):
        report(done, len(chosen))
        table = w2_table(
            problem,
            network,
            rounds=ROUNDS,
            trials=settings.trials,
            seed=settings.seed + done,
            **arguments,
        )
        tables.append(table[table["target"] == "agent"].assign(variant=name))
    report(len(chosen), len(chosen))
    whole = pd.concat(tables, ignore_index=True)
    return whole.assign(trials=settings.trials, radius=np.sqrt(np.trace(covariance)))


def draw(title: str, table: pd.DataFrame) -> Figure:
    """All variants in one panel, from dark to light in their order."""
    figure, axes = panel_grid(1, 1, panel=(7.6, 4.6), xlabel="round", ylabels=["W2, one agent"])
    axis = axes[0, 0]
    names = list(table["variant"].unique())
    shades = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(names)))
    for index, (name, shade) in enumerate(zip(names, shades, strict=True)):
        curve = table[table["variant"] == name]
        rounds = curve["round"]
        axis.plot(rounds, curve["exact"], color=shade, label=name)
        axis.fill_between(rounds, curve["low"], curve["high"], color=shade, alpha=0.08, lw=0)
        marked = curve[rounds % len(names) == index]
        axis.plot(marked["round"], marked["monte_carlo"], "o", color=shade, ms=4.5, mfc="w")
    axis.axhline(table["radius"].iloc[0], color="0.4", linestyle=":", linewidth=1.2)
    log_axis(axis)
    figure.legend(*axis.get_legend_handles_labels(), title=title, loc="outside right upper")
    figure.legend(handles=curve_handles(table), loc="outside lower center", ncols=2)
    return figure


EXPERIMENTS = [
    Experiment(
        name="fig-ablation-rho",
        title="The penalty rho, on a ring of 20 agents",
        paper="D-ADMMS is shown for nine values of rho between 1 and 1000 to study how robust it "
        "is: rho is the only parameter it needs.",
        compute=partial(compute, penalties),
        draw=partial(draw, "rho"),
    ),
    Experiment(
        name="fig-ablation-init",
        title="Ten initial distributions, on a ring of 20 agents",
        paper="D-ADMMS converges alike from N(0, I) and from nine wide and correlated "
        "distributions centred at (-1, 2).",
        compute=partial(compute, starts),
        draw=partial(draw, "start"),
    ),
]
