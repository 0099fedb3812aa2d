"""The paper's main theorem as a curve, beside the distance that it bounds.

Three settings: the two worked examples of the paper (m_f = 2, curvatures within what its condition
allows), and its own linear regression, where the condition fails and only Lemma 2's recursion is
left. All distances are exact; there is no Monte Carlo here.

What needs no condition is the way to the iterates' own stationary law. With eqs. (5) and (6) of
`theory.convergence`, r = (1 + delta)^(-1/2) and W_G(0) of `theory.bound`, after k rounds

    W2 <= r^(k-1) (W_G(0) + E(|D w|^2)^1/2 / (2 sqrt(m_f) (1 - r))) / sqrt(m_f)                (1)

since the stationary error is at most r times itself and one round's noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from starlings.models import gaussian
from starlings.network import Network
from starlings.problem import Problem
from starlings.research.paper.data import linear_problem, topology
from starlings.research.paper.experiment import Experiment, Report, Settings
from starlings.research.paper.style import METHODS, log_axis, panel_grid
from starlings.results.palette import PALETTE
from starlings.theory import (
    Bound,
    Conditioning,
    contraction_rate,
    gaussian_w2,
    noise_norm,
    paper_law,
    true_distances,
    wasserstein_bound,
)

ROUNDS = 60
CURVES: dict[str, tuple[str, dict[str, Any]]] = {
    "theorem": ("the theorem's bound, c corrected", {"color": "0.35"}),
    "lemma": ("Lemma 2's recursion, c corrected", {"color": "0.35", "linestyle": (0, (4, 2))}),
    "true": ("true distance from the posterior", METHODS["D-ADMMS"].line),
    "own": ("true distance from its own limit", {"color": PALETTE["sky"]}),
    "envelope": (
        "guarantee for that distance",
        {"color": PALETTE["sky"], "linestyle": (0, (1, 1))},
    ),
}
LIMITS = (1e-3, 5e4)
"""Lowest and highest distance on the axis, since the distance from the own limit goes to zero."""


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
    """The bound, the recursion, and the true distances from posterior and own limit."""
    _, problem, network, rho = case
    bound = wasserstein_bound(problem, network, rho)
    numbers = Conditioning.of(problem, network)
    true = [distance.product for distance in true_distances(problem, network, rho, ROUNDS)]
    return pd.DataFrame(
        {
            "case": case.title,
            "rho": rho,
            "tau_f": numbers.condition,
            "tau_G": numbers.graph_condition,
            "a": bound.coefficients.a,
            "rate": contraction_rate(numbers, rho),
            "round": np.arange(1, ROUNDS + 1),
            "theorem": bound.theorem(ROUNDS),
            "lemma": bound.lemma(ROUNDS),
            "limit": bound.limit(),
            "true": true,
            "envelope": envelope(case, bound),
            "own": list(own_distances(case)),
        }
    )


def envelope(case: Case, bound: Bound) -> np.ndarray:
    """The right side of (1) after 1, ..., ROUNDS rounds."""
    _, problem, network, rho = case
    rate = contraction_rate(Conditioning.of(problem, network), rho)
    _, square = noise_norm(network, problem.dim)
    root = np.sqrt(bound.strong_convexity)
    start = bound.start + np.sqrt(square) / (2 * root * (1 - rate))
    return rate ** np.arange(ROUNDS) * start / root


def own_distances(case: Case) -> Iterator[float]:
    """W2 of all agents' draws from their stationary law after 1, ..., ROUNDS rounds."""
    exact = paper_law(case.problem, case.network, case.rho)
    limit = exact.stationary()
    moments = exact.moments(ROUNDS)
    next(moments)
    for each in moments:
        laws = (each.mean.ravel(), each.covariance, limit.mean.ravel(), limit.covariance)
        yield gaussian_w2(*laws)


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
            axis.text(0.04, 0.04, note, transform=axis.transAxes, fontsize=11)
    axes[0, 0].set_ylim(*LIMITS)
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
