"""Figures of results; nothing here computes more than where to put a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from starlings.network import Network
from starlings.results.palette import BAND_COLOUR, SERIES_COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_SETTINGS: dict[Any, Any] = {
    "font.size": 16,
    "axes.titlesize": 17,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "ytick.major.size": 0,
    "svg.hashsalt": "starlings",
}
"""Settings of matplotlib for figures that are read on a screen; font sizes in points."""
WHOLE_ROW = (-0.36, 0.36)
"""First and last height of the intervals of a group in a row of height 1; the axis points down."""


def in_pooled_sd(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every parameter centred and scaled by its pooled mean and sd."""
    pooled = table[table["estimate"] == "pooled"].set_index("parameter")
    centre, unit = (table["parameter"].map(pooled[column]) for column in ("mean", "sd"))
    moved = table.copy()
    locations = ["mean", "q05", "q25", "q50", "q75", "q95"]
    moved[locations] = table[locations].sub(centre, axis=0).div(unit, axis=0)
    moved["sd"] = table["sd"] / unit
    return moved


def draw_network(axes: Axes, network: Network, colours: Sequence[str]) -> None:
    """Draw the agents on a circle in their colours, with the edges between them."""
    import networkx as nx

    positions = nx.circular_layout(network.graph)
    nx.draw_networkx_edges(network.graph, positions, ax=axes, edge_color="0.5", width=2)
    for (node, (x, y)), colour in zip(positions.items(), _repeated(colours), strict=False):
        axes.plot(x, y, "o", markersize=22, color=colour)
        label = str(node).rsplit(maxsplit=1)[-1]
        axes.text(x, y, label, ha="center", va="center_baseline", color="white", weight="bold")
    axes.margins(0.2)
    axes.set_aspect("equal")
    axes.axis("off")


def save_figure(figure: Figure, stem: Path) -> None:
    """Write STEM.png and STEM.svg; the same numbers give the same bytes."""
    import matplotlib as mpl

    with mpl.rc_context(FIGURE_SETTINGS):
        figure.savefig(stem.with_suffix(".png"), dpi=150)
        figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})


def draw_rows(axes: Axes, table: pd.DataFrame, lanes: dict[str, tuple[float, float]]) -> None:
    """Draw one row for each parameter: the pooled band, and the intervals of each estimate.

    The table has a row for each `parameter` and `estimate` ("single site" or "network", with a
    `site`, or "pooled") with its `mean` and the quantiles `q05`, `q25`, `q75`, `q95`.
    """
    for row, (_, part) in enumerate(table.groupby("parameter", sort=False)):
        pooled = part[part["estimate"] == "pooled"].iloc[0]
        axes.fill_betweenx(
            [row - 0.46, row + 0.46], pooled["q05"], pooled["q95"], color=BAND_COLOUR, lw=0
        )
        axes.plot([pooled["mean"]] * 2, [row - 0.46, row + 0.46], color="black", lw=1)
        for estimate, (top, bottom) in lanes.items():
            group = part[part["estimate"] == estimate]
            gap = (bottom - top) / max(1, len(group) - 1)
            heights = [row + top + gap * i for i in range(len(group))]
            draw_intervals(axes, group, heights, faint=estimate == "single site")


def draw_intervals(
    axes: Axes,
    group: pd.DataFrame,
    heights: list[float],
    colours: Sequence[str] = SERIES_COLOURS,
    faint: bool = False,
) -> None:
    """Draw a thin line for 90 %, a thick one for 50 % and a dot for the mean of every estimate."""
    style: dict[str, Any] = {"alpha": 0.55 if faint else 1.0, "solid_capstyle": "butt"}
    records = group.to_dict("records")
    for entry, y, colour in zip(records, heights, _repeated(colours), strict=False):
        axes.plot([entry["q05"], entry["q95"]], [y, y], color=colour, lw=1.3, **style)
        axes.plot([entry["q25"], entry["q75"]], [y, y], color=colour, lw=3.5, **style)
        axes.plot(entry["mean"], y, "o", color="white", mec=colour, markersize=4)


def _repeated(colours: Sequence[str]) -> Iterator[str]:
    while True:
        yield from colours
