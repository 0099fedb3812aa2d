"""The figure of the demo: all estimates, the two ways magnified, and what they take in rounds."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import pandas as pd

from starlings.network import Network
from starlings.research.demo.ways import ROUND_SECONDS, Way
from starlings.results.palette import BAND_COLOUR, SERIES_COLOURS
from starlings.results.plots import (
    FIGURE_SETTINGS,
    draw_intervals,
    draw_network,
    draw_rows,
    in_pooled_sd,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WAY_COLOURS = ("black", "0.5")
"""The colours of the two ways; those of the palette are for the sites."""
SITE_LANES, NETWORK_LANE, WAY_LANES = (-0.36, 0.16), 0.36, (-0.17, 0.17)
"""Heights of intervals in a row of height 1; the axis points down."""
GAP = 0.03
"""Space between the end of a bar and its label, as a part of the longest bar."""
TITLE = "Six sites on a ring, sharing no rows, reach the pooled posterior"


def draw(table: pd.DataFrame, ways: list[Way], network: Network, xlabel: str) -> Figure:
    """Draw the table of `report.summary`.

    The left panel shows everything in the units of the parameters. The right one shows the network
    only, by both ways, in standard deviations of the pooled posterior: on the left it is too narrow
    to judge.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    parameters = list(dict.fromkeys(table["parameter"]))
    heights = [2.3, 0.88 * len(parameters) + 0.9]
    with mpl.rc_context(FIGURE_SETTINGS):
        layout = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.1)  # inches
        figure = Figure(figsize=(11, 0.5 + sum(heights)), layout=layout)
        figure.suptitle(TITLE, fontsize=20, x=0.012, ha="left", weight="bold")
        header, panels = figure.subfigures(2, 1, squeeze=False, height_ratios=heights)[:, 0]
        left, right = panels.subplots(1, 2, sharey=True, width_ratios=[2, 1])
        draw_rows(left, table, {"single site": SITE_LANES})
        draw_rows(right, in_pooled_sd(table), {})
        _draw_ways(left, table, {ways[0].title: (NETWORK_LANE, WAY_COLOURS[0])})
        styles = zip(WAY_LANES, WAY_COLOURS, strict=True)
        lanes = {way.title: style for way, style in zip(ways, styles, strict=True)}
        _draw_ways(right, in_pooled_sd(table), lanes)
        _label_panels(left, right, parameters, xlabel)
        key, ring, bars = header.subplots(1, 3, width_ratios=[1.1, 0.6, 1.1])
        _draw_key(key)
        draw_network(ring, network, SERIES_COLOURS)
        _draw_rounds(bars, ways)
    return figure


def _draw_ways(axes: Axes, table: pd.DataFrame, lanes: dict[str, tuple[float, str]]) -> None:
    """One interval for each parameter and way: the mean over the sites, which agree."""
    columns = ["mean", "q05", "q25", "q50", "q75", "q95"]
    by_estimate = table.groupby(["parameter", "estimate"], sort=False)[columns].mean()
    for row, parameter in enumerate(dict.fromkeys(table["parameter"])):
        for title, (height, colour) in lanes.items():
            entry = by_estimate.loc[[(parameter, title)]]
            draw_intervals(axes, entry, [row + height], [colour])


def _draw_rounds(axes: Axes, ways: list[Way]) -> None:
    """A bar for each way, of the length of its network rounds, with the time that they take."""
    longest = max(way.rounds for way in ways)
    for row, (way, colour) in enumerate(zip(ways, WAY_COLOURS, strict=True)):
        axes.barh(row, way.rounds, height=0.42, color=colour)
        title = f"{way.title} (default)" if row == 0 else way.title
        axes.text(0, row - 0.28, title, va="bottom", color=colour)
        is_inside = 2 * way.rounds > longest
        axes.text(
            way.rounds + (-GAP if is_inside else GAP) * longest,
            row,
            f"{way.rounds:,} rounds, {way.seconds:.0f} s",
            va="center_baseline",
            ha="right" if is_inside else "left",
            color="white" if is_inside else colour,
        )
    axes.set_title(f"Cost, at {1000 * ROUND_SECONDS:.0f} ms a network round", loc="left")
    axes.set_ylim(len(ways) - 0.7, -0.85)
    axes.axis("off")


def _label_panels(left: Axes, right: Axes, parameters: list[str], xlabel: str) -> None:
    left.axvline(0, color="0.6", lw=0.8, ls=":", zorder=0)
    left.set_yticks(range(len(parameters)), [fill(name, width=14) for name in parameters])
    left.set_ylim(len(parameters) - 0.5, -0.5)
    left.locator_params(axis="x", nbins=6)
    left.set_xlabel(xlabel)
    right.set_xlabel("sd from pooled mean")
    right.set_xlim(-2.6, 2.6)
    left.set_title("All estimates", loc="left")
    right.set_title("The network, magnified", loc="left")
    for axes in (left, right):
        axes.grid(axis="x", color="0.93")
        axes.set_axisbelow(True)
        for row in range(1, len(parameters)):
            axes.axhline(row - 0.5, color="0.85", lw=0.8)


def _draw_key(axes: Axes) -> None:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    sites = [Line2D([], [], color=c, alpha=0.55, lw=3.5) for c in SERIES_COLOURS[:3]]
    labelled: dict[str, Any] = {
        "each site alone": tuple(sites),
        "each site in the network": Line2D([], [], color=WAY_COLOURS[0], lw=3.5),
        "all rows pooled, by NUTS": Patch(color=BAND_COLOUR),
        "thick 50 %, thin 90 %, dot mean": Line2D([], [], color="0.2", lw=1.3),
    }
    axes.legend(
        labelled.values(),
        labelled,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.3)},
        loc="center left",
        frameon=False,
        borderpad=0,
        borderaxespad=0,
    )
    axes.axis("off")
