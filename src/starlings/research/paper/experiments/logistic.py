"""Logistic regression: the accuracy that the paper shows, and what accuracy hides.

A draw predicts 1 where x'z >= 0, so its accuracy depends on its direction alone: draws of half the
length, or a hundred equal ones, are as accurate. The length of x is what these data leave most
uncertain. Hence two more numbers of the same trials, against the posterior of all rows with mean m
and covariance C (`logistic_posterior`):

    W2 from N(m, C) to the Gaussian fitted to the trials,     mean_j var_j / C_jj            (1)

Our own curve is coherent D-ADMMS with a penalty such that its step 1 / (4 rho |E|) times the
largest curvature of the pooled potential at its mode is `COHERENT_STEP` = s. Near the mode its
variance is

    1 / (1 + s/2) + s/2                                                                      (2)

times the posterior's where the potential is steepest: 1.17, and nearer to 1 everywhere else.

The paper shows 30 rounds with 5 agents and 20 with more, the start included. We show 30 of the
accuracy and 100 to 300 of (1), where the question is what the curves go to.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from starlings.network import Network
from starlings.problem import Problem
from starlings.research.paper.curves import AGENT, REPLICATES, Path, Start, simulate
from starlings.research.paper.data import TOPOLOGIES, logistic_problem
from starlings.research.paper.experiment import Experiment, Report, Settings
from starlings.research.paper.experiments.linear import RHO, paper_dadmms, paper_dula
from starlings.research.paper.experiments.logistic_claims import LAST_ROUNDS, POSTERIOR_ROUNDS
from starlings.research.paper.experiments.logistic_posterior import Posterior, accuracies
from starlings.research.paper.parallel import Piece, in_threads, pieces
from starlings.research.paper.style import METHODS, log_axis, method_legend, panel_grid
from starlings.samplers import CADMM, DADMMS, DSGHMC, DSGLD
from starlings.theory import gaussian_w2

COHERENT_STEP = 1.0
"""The number s of eq. (2): the Langevin step times the largest curvature."""
OUR_ROUNDS = {5: POSTERIOR_ROUNDS, 20: 200, 50: 100}
QUICK_ROUNDS = 60
ACCURACY_ROUNDS = 30
LATER_ROUNDS = 20
"""How many of the rounds after those of the accuracy are shown, evenly on a logarithmic axis."""
POOLED = "pooled"
"""The name in the column `graph` of rows about the posterior, which are for all graphs."""
ACCURACY_QUANTILES = (0.16, 0.84)
"""The quantiles of the trials between which a band lies: one standard deviation to each side if
accuracies were Gaussian. They are not: a mean plus its deviation can be more than any draw has."""
MARKED = 0.16
"""The distance of markers on a curve, in diagonals of its panel."""
LEAST_RATIO = 1e-3
"""Where the axis of variance ratios ends: ADMM goes to zero."""

w2_distances = np.vectorize(gaussian_w2, signature="(d),(d,d),(d),(d,d)->()")


def methods(name: str, network: Network, largest_curvature: float) -> dict[str, Any]:
    """The methods on one topology, by the names of `METHODS`; without edges ours is ADMM."""
    found: dict[str, Any] = {
        "D-ADMMS": paper_dadmms(),
        "ADMM": CADMM(rho=RHO),
        "D-SGLD": DSGLD(step_size=0.0003),
        "D-SGHMC": DSGHMC(step_size=0.02, friction=30.0),
        "D-ULA": paper_dula(name, network.size),
    }
    if network.num_edges:
        found["coherent D-ADMMS"] = DADMMS(
            largest_curvature / (4 * COHERENT_STEP * network.num_edges)
        )
    return found


def compute(num_agents: int, settings: Settings, report: Report) -> pd.DataFrame:
    """Accuracy, W2 and variance ratio of every method on every topology."""
    problem = logistic_problem(num_agents)
    posterior = Posterior.of(problem)
    ours = partial(methods, largest_curvature=posterior.largest_curvature)
    todo = pieces(num_agents, ours, settings.seed)
    tables = [posterior_table(posterior, settings)]
    tables += in_threads(partial(curve_table, problem, posterior, settings), todo, report)
    whole = pd.concat(tables, ignore_index=True).assign(agents=num_agents)
    return whole[["agents", "graph", "method", "round", "quantity", "value"]]


def curve_table(
    problem: Problem, posterior: Posterior, settings: Settings, piece: Piece
) -> pd.DataFrame:
    """All quantities of one curve, by round."""
    last = QUICK_ROUNDS if settings.quick else OUR_ROUNDS[problem.num_agents]
    start = Start().draw((settings.trials, problem.num_agents, problem.dim), piece.seed)
    draws = simulate(problem, piece.network, piece.sampler, start, last, piece.seed)
    rounds = shown_rounds(last)
    columns = quantities(draws[rounds], accuracies(problem, draws[rounds]), posterior)
    table = pd.DataFrame({"round": rounds, **columns}).melt("round", var_name="quantity")
    return table.assign(graph=piece.graph, method=piece.method)


def shown_rounds(last: int) -> np.ndarray:
    """Every round of the accuracy's, and some of those after them."""
    later = np.geomspace(ACCURACY_ROUNDS, last, LATER_ROUNDS).round().astype(int)
    return np.union1d(np.arange(ACCURACY_ROUNDS + 1), later)


def quantities(draws: np.ndarray, hits: np.ndarray, posterior: Posterior) -> dict[str, np.ndarray]:
    """Columns by round, from draws (round, trial, agent, dim) and the accuracy of each draw.

    Over all agents, the mean and standard deviation of the accuracy are over all their trials, and
    W2 and variance ratio are averages of the agents' own.
    """
    fits = Path.fitted(draws.swapaxes(1, 2))
    distances = w2_distances(fits.means, fits.covariances, posterior.mean, posterior.covariance)
    variances = draws.var(axis=1, ddof=1) / np.diag(posterior.covariance)
    ratios = variances.mean(axis=-1)  # (1)
    low, high = np.quantile(hits[:, :, AGENT], ACCURACY_QUANTILES, axis=1)
    return {
        "accuracy, agent 0": hits[:, :, AGENT].mean(axis=1),
        "accuracy sd, agent 0": hits[:, :, AGENT].std(axis=1),
        "accuracy low, agent 0": low,
        "accuracy high, agent 0": high,
        "accuracy, all agents": hits.mean(axis=(1, 2)),
        "accuracy sd, all agents": hits.std(axis=(1, 2)),
        "W2, agent 0": distances[:, AGENT],
        "W2, all agents": distances.mean(axis=1),
        "variance ratio, agent 0": ratios[:, AGENT],
        "variance ratio, all agents": ratios.mean(axis=1),
    }


def posterior_table(posterior: Posterior, settings: Settings) -> pd.DataFrame:
    """What as many exact draws as there are trials would show, and W2 of the mode alone."""
    target = (posterior.mean, posterior.covariance)
    exact = Path(posterior.mean[None], posterior.covariance[None])
    fits = exact.refitted(settings.trials, REPLICATES, np.random.default_rng(settings.seed))
    rows = [
        ("posterior", "accuracy", posterior.accuracy),
        ("posterior", "accuracy sd", posterior.accuracy_sd),
        ("posterior", "W2", w2_distances(fits.means, fits.covariances, *target).mean()),
        ("posterior", "variance ratio", 1.0),
        ("mode", "W2", gaussian_w2(posterior.mode, 0 * posterior.covariance, *target)),
    ]
    table = pd.DataFrame(rows, columns=["method", "quantity", "value"])
    return table.assign(graph=POOLED, round=0)


def draw(table: pd.DataFrame) -> Figure:
    """Topologies across; accuracy, W2 and variance ratio of agent 0 down."""
    figure, axes = panel_grid(
        3,
        3,
        titles=list(TOPOLOGIES),
        xlabel="round",
        ylabels=["accuracy, one agent", "W2, one agent", "variance ratio"],
        sharex="row",
        sharey="row",
    )
    references = table[table["graph"] == POOLED].set_index(["method", "quantity"])["value"]
    for column, name in zip(axes.T, TOPOLOGIES, strict=True):
        here = table[table["graph"] == name]
        draw_accuracy(column[0], here, references)
        draw_hidden(column[1], here, "W2", references)
        draw_hidden(column[2], here, "variance ratio", references)
    ratios = table[(table["quantity"] == "variance ratio, agent 0") & (table["round"] > 0)]
    scale_axes(axes[:, 0], ratios["value"].max())
    figure.align_ylabels(axes[:, 0])
    method_legend(figure, table["method"].unique(), line_handles(), columns=3)
    return figure


def draw_accuracy(axis: Axes, here: pd.DataFrame, references: pd.Series) -> None:
    """Mean accuracy over the trials, with a band that has two thirds of them."""
    axis.axhline(references["posterior", "accuracy"], **LINES["exact draws"])
    for method, style in METHODS.items():
        mean, low, high = (
            curve(here, method, f"accuracy{part}, agent 0").loc[:ACCURACY_ROUNDS]
            for part in ("", " low", " high")
        )
        axis.fill_between(mean.index, low, high, color=style.colour, alpha=0.12, lw=0)
        axis.plot(mean.index, mean, **style.marked(MARKED))


def draw_hidden(axis: Axes, here: pd.DataFrame, quantity: str, references: pd.Series) -> None:
    """W2 or variance ratio by round, on logarithmic axes, with what exact draws would have."""
    axis.axvline(LAST_ROUNDS[here["agents"].iloc[0]], **LINES["end of the paper's runs"])
    axis.axhline(references["posterior", quantity], **LINES["exact draws"])
    if ("mode", quantity) in references:
        axis.axhline(references["mode", quantity], **LINES["mode alone"])
    for method, style in METHODS.items():
        values = curve(here, method, f"{quantity}, agent 0").loc[1:]
        axis.plot(values.index, values, **style.marked(MARKED))
    below = [
        m for m in METHODS if curve(here, m, f"{quantity}, agent 0").loc[1:].max() < LEAST_RATIO
    ]
    if below:
        note = f"{' and '.join(below)}:\nno spread"
        axis.text(0.04, 0.04, note, transform=axis.transAxes, fontsize=11, va="bottom")


def curve(here: pd.DataFrame, method: str, quantity: str) -> pd.Series:
    """One quantity of one method on one graph, by round; empty where the method is not there."""
    rows = here[(here["method"] == method) & (here["quantity"] == quantity)]
    return rows.set_index("round")["value"]


def scale_axes(column: np.ndarray, largest_ratio: float) -> None:
    """The scales of the first column, which the others share."""
    top, middle, bottom = column
    top.set_yscale("logit")
    top.autoscale(axis="y")  # in the coordinates of that scale
    top.yaxis.set_major_locator(FixedLocator([0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98]))
    top.yaxis.set_minor_locator(NullLocator())
    top.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    bottom.set_ylim(LEAST_RATIO, 1.5 * largest_ratio)
    for axis in (middle, bottom):
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator([1, 3, 10, 30, 100, 300]))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        log_axis(axis)


LINES: dict[str, dict[str, Any]] = {
    "exact draws": {"color": "0.4", "linestyle": (0, (1, 1)), "linewidth": 1.6, "zorder": 1},
    "mode alone": {"color": "0.4", "linestyle": (0, (5, 2, 1, 2)), "linewidth": 1.2, "zorder": 1},
    "end of the paper's runs": {"color": "0.75", "linewidth": 1.2, "zorder": 1},
}


def line_handles() -> list[Line2D]:
    """The grey lines of the legend."""
    return [Line2D([], [], label=name, **line) for name, line in LINES.items()]


def experiment(num_agents: int) -> Experiment:
    """One figure of the paper: N agents."""
    return Experiment(
        name=f"fig-logistic-{num_agents}",
        title=f"Logistic regression, {num_agents} agents with 50 rows each",
        paper=PAPER + (PAPER_DENSE if num_agents > 5 else ""),
        compute=partial(compute, num_agents),
        draw=draw,
        in_quick=num_agents < 50,
        note=NOTE,
    )


PAPER = (
    "Mean accuracy on all rows, with one standard deviation over 100 trials. On the ring D-ADMMS "
    "has the highest accuracy of the samplers after the fewest rounds, and the smallest deviation; "
    "ADMM is a little better, since it finds the mode; without edges the two are the same."
)
PAPER_DENSE = " On the complete graph D-ADMMS declines, the more the more agents there are."

NOTE = (
    "Accuracies are skewed, so that the bands of the upper row are from the 16 % to the 84 % "
    "quantile of the trials instead of one standard deviation to each side of the mean."
)

EXPERIMENTS = [experiment(num_agents) for num_agents in (5, 20, 50)]
