"""The evolution of samples in one dimension: five agents on a ring, as panels and as a film."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from starlings.research.paper.curves import Start, simulate
from starlings.research.paper.data import linear_problem, topology
from starlings.research.paper.experiment import Experiment, Report, Settings
from starlings.research.paper.experiments.linear import paper_dadmms
from starlings.research.paper.style import figure_style, panel_grid
from starlings.theory import law

NUM_AGENTS, ROWS_EACH, ROUNDS = 5, 50, 40
SHOWN = (0, 1, 3, 6, 12, 40)
"""The rounds of the panels."""
BIN_WIDTH = 0.2
"""The width of a bin of the histograms, in the units of the position."""
HEIGHT = 0.4
"""The height at which a density of 1 is drawn; the base lines of agents have distance 1."""
FRAMES_PER_SECOND = 5
"""The speed of the film; a frame is a round."""
COLOURS = mpl.colormaps["viridis"](np.linspace(0, 0.85, NUM_AGENTS))


def compute(settings: Settings, report: Report) -> pd.DataFrame:
    """Every trial's position, beside the exact law of its agent and the posterior."""
    problem, network = linear_problem(NUM_AGENTS, ROWS_EACH, dim=1), topology("ring", NUM_AGENTS)
    start = Start().draw((settings.trials, NUM_AGENTS, 1), settings.seed)
    report(0, 1)
    draws = simulate(problem, network, paper_dadmms(), start, ROUNDS, settings.seed)
    moments = list(law(problem, network, paper_dadmms()).moments(ROUNDS))
    mean, covariance = problem.exact_posterior()
    rounds, trials, agents = (index.ravel() for index in np.indices(draws.shape[:3]))
    deviations = np.sqrt(np.array([np.diag(m.covariance) for m in moments]))
    report(1, 1)
    return pd.DataFrame(
        {
            "round": rounds,
            "agent": agents,
            "trial": trials,
            "position": draws.ravel(),
            "exact_mean": np.array([m.mean[:, 0] for m in moments])[rounds, agents],
            "exact_sd": deviations[rounds, agents],
            "posterior_mean": mean[0],
            "posterior_sd": np.sqrt(covariance[0, 0]),
        }
    )


def draw(table: pd.DataFrame) -> Figure:
    """A panel a round; in it a ridge for each agent."""
    figure, axes = panel_grid(2, 3, xlabel="position", sharex=True, sharey=True)
    for axis, number in zip(axes.flat, SHOWN, strict=True):
        draw_round(axis, table, number)
    handles = [
        Patch(color=COLOURS[0], alpha=0.35, label="samples"),
        Line2D([], [], color=COLOURS[0], label="exact law"),
        Line2D([], [], color="black", linestyle=(0, (2, 1)), label="posterior"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def draw_round(axis: Axes, table: pd.DataFrame, number: int) -> None:
    """The samples of every agent after one round, its exact law and the posterior."""
    here = table[table["round"] == number]
    axis.set_title(f"round {number}")
    for agent in range(NUM_AGENTS):
        mine = here[here["agent"] == agent]
        base, first = NUM_AGENTS - 1 - agent, mine.iloc[0]
        heights, edges = _histogram(mine["position"].to_numpy())
        axis.stairs(
            base + heights, edges, baseline=base, fill=True, color=COLOURS[agent], alpha=0.35
        )
        grid, density = _normal(first["exact_mean"], first["exact_sd"])
        axis.plot(grid, base + density, color=COLOURS[agent], lw=1.6)
        grid, density = _normal(first["posterior_mean"], first["posterior_sd"])
        axis.plot(grid, base + density, color="black", lw=1.2, linestyle=(0, (2, 1)))
    axis.set_ylim(-0.15, NUM_AGENTS + 0.15)
    axis.set_yticks(range(NUM_AGENTS), [f"agent {a}" for a in reversed(range(NUM_AGENTS))])


def animate(table: pd.DataFrame, stem: Path) -> None:
    """STEM.gif: one frame a round."""
    farthest = table["posterior_mean"] + 4 * table["posterior_sd"]
    limits = table["position"].min(), max(table["position"].max(), farthest.max())
    with figure_style():
        figure, axes = panel_grid(1, 1, panel=(5.2, 3.8))
        figure.set_layout_engine("none")
        axis = axes[0, 0]
        axis.set_position((0.17, 0.15, 0.8, 0.75))

        def frame(number: int) -> list[Any]:
            axis.clear()
            draw_round(axis, table, number)
            axis.set(xlim=limits, xlabel="position")
            return []

        film = FuncAnimation(figure, frame, frames=sorted(table["round"].unique()))
        path = stem.with_name(f"{stem.name}.gif")
        film.save(path, writer=PillowWriter(fps=FRAMES_PER_SECOND), dpi=80)


def _histogram(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.floor(positions.min() / BIN_WIDTH), np.ceil(positions.max() / BIN_WIDTH)
    edges = BIN_WIDTH * np.arange(low, high + 1)
    densities, _ = np.histogram(positions, edges, density=True)
    return HEIGHT * densities, edges


def _normal(mean: float, sd: float) -> tuple[np.ndarray, np.ndarray]:
    steps = np.linspace(-4, 4, 161)
    return mean + sd * steps, HEIGHT * np.exp(-(steps**2) / 2) / (np.sqrt(2 * np.pi) * sd)


EXPERIMENTS = [
    Experiment(
        name="fig-evolution",
        title="Evolution of the samples of five agents on a ring, in one dimension",
        paper="The samples of all agents move from N(0, 1) to the posterior.",
        compute=compute,
        draw=draw,
        film=animate,
    )
]
