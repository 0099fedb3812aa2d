"""The paper's main theorem as a curve, beside the distance that it bounds.

Three settings: the two worked examples of the paper (m_f = 2, curvatures within what its condition
allows), and its own linear regression, where the condition fails and only Lemma 2's recursion is
left. All distances are exact; there is no Monte Carlo here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from starlings.experiments.base import Experiment, Report, Settings
from starlings.experiments.data import linear_problem, topology
from starlings.experiments.style import METHODS, log_axis, panel_grid
from starlings.models import gaussian
from starlings.network import Network
from starlings.problem import Problem
from starlings.theory import Conditioning, contraction_rate, true_distances, wasserstein_bound

ROUNDS = 60
CURVES: dict[str, tuple[str, dict[str, Any]]] = {
    "theorem": ("the theorem's bound", {"color": "#D55E00"}),
    "lemma": ("Lemma 2's recursion", {"color": "#E69F00", "linestyle": (0, (4, 2))}),
    "contraction": ("slope of the unconditional rate", {"color": "#009E73", "linestyle": ":"}),
    "true": ("true distance", METHODS["D-ADMMS"].line),
}


class Case(NamedTuple):
    """One panel: a quadratic problem on a network, and the penalty."""

    title: str
    problem: Problem
    network: Network
    rho: float


def cases() -> list[Case]:
    """The worked examples at the theorem's best rho, and the paper's ring of five at rho = 5."""
    examples = [("ring of 5", Network.ring(5), 2.4), ("complete, 5", Network.complete(5), 4.8)]
    panels = []
    for title, network, largest in examples:
        problem = gaussian(np.linspace(2.0, largest, 5)[:, None, None])
        rho = Conditioning.of(problem, network).optimum()[1]
        panels.append(Case(f"{title}, m = 2, M = {largest:g}", problem, network, rho))
    regression = Case("regression, ring of 5", linear_problem(5, 50), topology("ring", 5), 5.0)
    return [*panels, regression]


def compute(settings: Settings, report: Report) -> pd.DataFrame:
    """Every curve of every case, round by round."""
    panels, tables = cases(), []
    for done, case in enumerate(panels):
        report(done, len(panels))
        tables.append(curves(case))
    report(len(panels), len(panels))
    return pd.concat(tables, ignore_index=True)


def curves(case: Case) -> pd.DataFrame:
    """The bound, the recursion, the true distance, and the rate of contraction at work."""
    _, problem, network, rho = case
    bound = wasserstein_bound(problem, network, rho)
    numbers = Conditioning.of(problem, network)
    rate = contraction_rate(numbers, rho)
    true = [distance.product for distance in true_distances(problem, network, rho, ROUNDS)]
    start = bound.start / np.sqrt(numbers.strong_convexity)
    table = pd.DataFrame(
        {
            "case": case.title,
            "rho": rho,
            "tau_f": numbers.condition,
            "tau_G": numbers.graph_condition,
            "a": bound.coefficients.a,
            "rate": rate,
            "round": np.arange(1, ROUNDS + 1),
            "theorem": bound.theorem(ROUNDS),
            "lemma": bound.lemma(ROUNDS),
            "contraction": start * rate ** np.arange(ROUNDS),
            "true": true,
        }
    )
    return table


def draw(table: pd.DataFrame) -> Figure:
    """One panel a case, on one logarithmic scale."""
    titles = list(table["case"].unique())
    figure, axes = panel_grid(
        1,
        len(titles),
        panel=(3.6, 3.6),
        titles=titles,
        xlabel="round",
        ylabels=["W2 of all agents"],
        sharey=True,
    )
    for axis, title in zip(axes[0], titles, strict=True):
        part = table[table["case"] == title]
        for column, (label, line) in CURVES.items():
            finite = part[np.isfinite(part[column])]
            axis.plot(finite["round"], finite[column], label=label, **line)
        if part["a"].iloc[0] >= 1:
            note = "condition fails:\nthe theorem says nothing"
            axis.text(0.95, 0.55, note, transform=axis.transAxes, ha="right", fontsize=11)
    log_axis(axes[0, 0])
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2)
    return figure


EXPERIMENTS = [
    Experiment(
        name="fig-theorem",
        title="The theorem's bound and the true distance",
        paper="The distance of all agents' iterates from N independent copies of the posterior is "
        "bounded by a decreasing curve, if the graph and the potentials are well conditioned.",
        compute=compute,
        draw=draw,
    )
]
