"""The figure of a calibration: for every agent, histograms of ranks and curves of coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.stats
import xarray as xr

from starlings.calibration.judging import INTERVALS, Calibration
from starlings.results.palette import BAND_COLOUR, PALETTE, SERIES_COLOURS
from starlings.results.plots import FIGURE_SETTINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_AGENTS = 12
"""Number of agents, each a row of the figure, that are shown at most."""
MOST_PARAMETERS = 6
"""Number of parameters, each a column of the figure, that are shown at most."""
BAND_PROBABILITY = 0.99
"""Probability that a calibrated sampler has a bin, or a point of a curve, in its grey band."""
RANK_FIGURE_SETTINGS: dict[Any, Any] = {**FIGURE_SETTINGS, "font.size": 11, "axes.titlesize": 12}
"""Settings of Matplotlib for this figure; sizes of letters are in points."""


def draw(calibration: Calibration) -> Figure:
    """Draw one row for each agent: a histogram for each parameter, then the coverage curves.

    If there are many agents or parameters, those with the smallest p-values are shown.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    agents = _worst(calibration.p_values.min("parameter"), MOST_AGENTS)
    parameters = _worst(calibration.p_values.min("agent"), MOST_PARAMETERS)
    with mpl.rc_context(RANK_FIGURE_SETTINGS):
        size = (2.6 * (len(parameters) + 1), 1.9 * len(agents) + 1.2)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(agents), len(parameters) + 1, squeeze=False)
        for agent, row in zip(agents, axes, strict=True):
            row[0].set_ylabel(agent, fontsize=12, weight="bold")
            for parameter, axis in zip(parameters, row, strict=False):
                _draw_histogram(axis, calibration, {"agent": agent, "parameter": parameter})
            _draw_coverage(row[-1], calibration, agent, parameters)
        _label(figure, axes, calibration, parameters)
    return figure


def _worst(p_values: xr.DataArray, most: int) -> list[str]:
    """The labels of the `most` smallest p-values, in the order of the labels."""
    smallest = np.sort(np.argsort(p_values.values)[:most])
    return [str(label) for label in p_values[p_values.dims[0]].values[smallest]]


def _draw_histogram(axis: Axes, calibration: Calibration, entry: dict[str, str]) -> None:
    """Draw the ranks of one parameter at one agent, with the p-value of their uniformity."""
    edges, shares = calibration.bins, calibration.bin_probabilities
    widths = (
        np.diff(edges) / np.diff(edges).mean()
    )  # counts per mean width: bins of more ranks are not higher
    low, high = _band(calibration.num_replications, shares) / widths
    axis.stairs(high, edges, baseline=low, fill=True, color=BAND_COLOUR)
    counts = calibration.counts.sel(entry).values / widths
    axis.stairs(counts, edges, color=PALETTE["blue"], lw=1.5)
    axis.set_ylim(0, 1.25 * max(high.max(), counts.max()))
    axis.set_xticks([0, calibration.num_draws])
    axis.set_yticks([])
    p_value = float(calibration.p_values.sel(entry))
    colour = PALETTE["vermilion"] if p_value < calibration.threshold else "0.3"
    axis.text(
        0.97,
        0.97,
        f"p = {p_value:.2g}",
        ha="right",
        va="top",
        color=colour,
        transform=axis.transAxes,
    )


def _draw_coverage(axis: Axes, calibration: Calibration, agent: str, parameters: list[str]) -> None:
    """Draw how often central intervals of every level contain the true value at one agent."""
    levels, curve = calibration.coverage_curve
    low, high = _band(calibration.num_replications, levels) / calibration.num_replications
    axis.fill_between(levels, low, high, color=BAND_COLOUR, lw=0)
    axis.plot([0, 1], [0, 1], color="0.5", lw=0.8)
    for parameter, colour in zip(parameters, SERIES_COLOURS, strict=False):
        entry = {"agent": agent, "parameter": parameter}
        axis.plot(levels, curve.sel(entry), color=colour, lw=1.5, label=parameter)
        marked = [float(calibration.coverage(level).sel(entry)) for level in INTERVALS]
        axis.plot(INTERVALS, marked, "o", color="white", mec=colour, markersize=4)
    axis.set_xticks([0, *INTERVALS], ["0", *(f"{level:.0%}" for level in INTERVALS)])
    axis.set_yticks(INTERVALS, [f"{level:.0%}" for level in INTERVALS])
    axis.yaxis.tick_right()
    axis.grid(color="0.93")
    axis.set_axisbelow(True)


def _band(replications: int, probabilities: np.ndarray) -> np.ndarray:
    """The lowest and the highest count in the band, (2, probability).

    Args:
        replications: the number of trials.
        probabilities: of success in one trial, as expected of a calibrated sampler.
    """
    tails = [[(1 - BAND_PROBABILITY) / 2], [(1 + BAND_PROBABILITY) / 2]]
    return np.asarray(scipy.stats.binom.ppf(tails, replications, probabilities))


def _label(
    figure: Figure, axes: np.ndarray, calibration: Calibration, parameters: list[str]
) -> None:
    """Add titles, labels of the axes and the legend."""
    for axis, parameter in zip(axes[0], parameters, strict=False):
        axis.set_title(parameter)
    axes[0, -1].set_title("coverage")
    for axis in axes[-1, :-1]:
        axis.set_xlabel("rank")
    axes[-1, -1].set_xlabel("nominal")
    handles, labels = axes[0, -1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower right", ncols=3, frameon=False)
    figure.suptitle(
        f"Ranks of the true value among {calibration.num_draws} draws, "
        f"{calibration.num_replications} replications; "
        f"grey: {100 * BAND_PROBABILITY:g} % of the bins of a calibrated sampler",
        x=0.01,
        ha="left",
        fontsize=13,
    )
