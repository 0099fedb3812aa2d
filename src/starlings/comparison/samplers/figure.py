"""A comparison as a figure: distance against costs, in a column for each family of samplers, or in
a row where there are many families.

In every panel the samplers of its family have colours, and all others are grey behind them. Exact
laws are lines, and chains are points with an error bar. The line says how settings were found.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from starlings.comparison.samplers.comparison import Comparison
from starlings.errors import check_choice
from starlings.results.palette import PALETTE, SERIES_COLOURS
from starlings.system.extras import check_installed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = [*SERIES_COLOURS, PALETTE["black"]]
"""The colours of the samplers of a family, in this order; a family of more has several columns."""
BEHIND = "0.86"
"""The grey of the samplers of other families."""
LINES: dict[str, Any] = {
    "best": "-",
    "given": "-",
    "published": (0, (4, 1.6)),
    "tuned": (0, (1, 1.1)),
}
"""The line of each way in which settings are found."""
LABELS = {
    "round": "rounds",
    "messages": "messages of all agents",
    "bytes": "bytes of all agents",
    "gradients": "gradients of one agent",
    "seconds": "seconds",
}
"""The labels of the axes of costs."""
MOST_COLUMNS = 4
"""Families that are columns; if there are more, they are rows."""
PANEL, TALL_PANEL, LEGEND_LINE = (2.45, 2.1), 1.5, 0.165
"""Width and height of a panel, its height where families are rows, and the height of a line of a
legend, in inches."""
LEGEND_WIDTH = 1.9
"""Width of an entry of the legend of all panels, in inches."""
LONG_NAME = 13
"""Letters of a name from which on a legend has one column instead of two."""
WIDEST, NARROWER = 2.6, 0.22
"""Width of the first line of a panel, and by how much each one is narrower than the one before it,
so that curves can be told apart where they lie on each other; in points."""
RESOLUTION, PNG_COLOURS = 150, 256
"""Dots per inch, and colours, of PNG files."""
MARKED = 9
"""Points of a simulated curve that are drawn."""
LONGEST_BAR = 0.7
"""The part of a distance by which its error bar may go down, on a logarithmic axis."""
CEILING, FLOOR = 20.0, 1e-4
"""The largest and the least distance that are shown: what is above has exploded, or starts far
away, and what is below is as good as zero."""
SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 1.9,
    "legend.labelspacing": 0.25,
    "legend.columnspacing": 0.9,
    "svg.hashsalt": "starlings",
}
"""Settings of matplotlib; sizes in points, for a page of some 17 cm."""


class Column(NamedTuple):
    """The samplers of one column of panels."""

    title: str
    samplers: list[str]


def draw(
    comparison: Comparison,
    costs: Sequence[str] = ("round", "messages"),
    measure: str = "worst_agent",
    title: str = "",
) -> Figure:
    """Draw the distances of all samplers against their costs.

    Args:
        comparison: what `starlings.compare` returned.
        costs: a row of panels, or a column, for each: "round", "messages", "bytes", "gradients" or
            "seconds".
        measure: "worst_agent", "mean_agent", "average" or "worst_parameter".
        title: a line above all panels.
    """
    check_installed("matplotlib", purpose="a figure of a comparison", extra="plots")
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if isinstance(costs, str):
        costs = (costs,)
    for cost in costs:
        check_choice(LABELS, costs=cost)
    check_choice(("worst_agent", "mean_agent", "average", "worst_parameter"), measure=measure)
    curves = comparison.curves
    if curves.empty:
        raise ValueError("none of the samplers could be compared; `table.reason` says why.")
    columns = list(_columns(comparison.table))
    is_tall = len(columns) > MOST_COLUMNS
    with mpl.rc_context(SETTINGS):
        figure = Figure(layout="constrained")
        grid = (_tall_grid if is_tall else _wide_grid)(figure, columns, len(costs))
        for row, cost in zip(grid, costs, strict=True):
            for axes, column in zip(row, columns, strict=True):
                _draw_panel(axes, comparison, column, cost, measure)
            for axes in row[-1:] if is_tall else row:
                axes.set_xlabel(LABELS[cost])
        for axes in grid[0] if is_tall else grid[:, 0]:
            axes.set_ylabel(f"{measure.replace('_', ' ')}\n({comparison.about['unit']})")
        for axes, column in zip(grid[0], columns, strict=True):
            axes.set_title(column.title, loc="left")
        _limit(grid[0, 0], curves[measure])
        for axes, column in zip(grid[-1], columns, strict=True):
            _legend_of(axes, column, is_tall)
        handles = _common(comparison)
        figure.legend(
            handles=handles,
            loc="outside upper left",
            ncols=min(len(handles), int(figure.get_figwidth() / LEGEND_WIDTH)),
            title=title or None,
            title_fontproperties={"weight": "bold", "size": 10},
            alignment="left",
        )
    return figure


def _wide_grid(figure: Figure, columns: list[Column], costs: int) -> np.ndarray:
    """Panels (cost, family) with a column for each family, and legends below."""
    below = LEGEND_LINE * (max(map(_legend_lines, columns)) + 1)
    width, height = 0.6 + PANEL[0] * max(len(columns), 2), 0.5 + PANEL[1] * costs + below
    figure.set_size_inches(width, height)
    figure.set_layout_engine("constrained", rect=(0, below / height, 1, 1 - below / height))
    return figure.subplots(costs, len(columns), squeeze=False, sharey=True, sharex="row")


def _tall_grid(figure: Figure, columns: list[Column], costs: int) -> np.ndarray:
    """Panels (cost, family) with a row for each family, and legends beside it."""
    width, height = 0.6 + PANEL[0] * costs + LEGEND_WIDTH, 0.8 + TALL_PANEL * len(columns)
    figure.set_size_inches(width, height)
    figure.set_layout_engine("constrained", rect=(0, 0, 1 - LEGEND_WIDTH / width, 1))
    return figure.subplots(len(columns), costs, squeeze=False, sharey=True, sharex="col").T


def save_figure(figure: Figure, path: Path) -> Path:
    """Write a figure to a file of the kind that its name ends in.

    PNG files have 256 colours, which is enough for lines, and makes them small.
    """
    import matplotlib as mpl

    with mpl.rc_context(SETTINGS):
        if path.suffix != ".png":
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, metadata=metadata)
            return path
        from PIL import Image  # which matplotlib needs, too

        whole = io.BytesIO()
        figure.savefig(whole, format="png", dpi=RESOLUTION)
    with Image.open(whole) as image:
        few = image.convert("RGB").quantize(PNG_COLOURS, dither=Image.Dither.NONE)
        few.save(path, optimize=True)
    return path


def _columns(table: pd.DataFrame) -> Iterator[Column]:
    """The columns: families in the order in which they first appear, in parts if they are large."""
    ran = table[table["by"] != ""].drop_duplicates("sampler")
    families = list(dict.fromkeys(ran["family"]))
    for family in families:
        names = list(ran.loc[ran["family"] == family, "sampler"])
        count = -(-len(names) // len(COLOURS))
        parts = np.array_split(np.array(names, object), count)
        for number, part in enumerate(parts, start=1):
            yield Column(family if count == 1 else f"{family}, {number} of {count}", list(part))


def _draw_panel(
    axes: Axes, comparison: Comparison, column: Column, cost: str, measure: str
) -> None:
    """One panel: grey curves first, then those of the column."""
    own = set(column.samplers)
    keys = ["sampler", "setting", "source"]
    curves: list[Any] = list(comparison.curves.groupby(keys, sort=False))
    for (sampler, setting, source), curve in sorted(curves, key=lambda item: item[0][0] in own):
        shown = curve[(curve[cost] > 0) & np.isfinite(curve[measure])]
        is_own = sampler in own
        place = column.samplers.index(sampler) if is_own else 0
        colour = COLOURS[place] if is_own else BEHIND
        if shown.empty:  # it exploded in the first rounds
            continue
        x, y = shown[cost], shown[measure].clip(lower=FLOOR / 2)
        if source == "law":
            line = {"ls": LINES[setting], "color": colour}
            line["lw"] = WIDEST - NARROWER * place if is_own else 0.7
            axes.plot(x, y, zorder=2 + is_own + place / 10, **line)
        elif is_own:
            _draw_points(axes, shown.assign(x=x, y=y), colour, LINES[setting])
    mine = comparison.curves[comparison.curves["sampler"].isin(own)]
    if not (mine[cost] > 0).any():
        axes.text(0.5, 0.5, f"no {cost}", transform=axes.transAxes, ha="center", color="0.4")
    axes.axhline(comparison.about["target"], color="0.4", lw=0.8, ls=":", zorder=1)
    if (comparison.curves["source"] == "simulation").any():
        axes.axhspan(FLOOR / 2, comparison.about["floor"], color="0.95", lw=0, zorder=0)
    axes.set_xscale("log")
    axes.tick_params(labelsize=8)


def _draw_points(axes: Axes, shown: pd.DataFrame, colour: str, style: Any) -> None:
    """Some points of a simulated curve, with twice their Monte Carlo error."""
    places = np.unique(np.linspace(0, len(shown) - 1, MARKED).round().astype(int))
    some = shown.iloc[places]
    above = 2 * some["error"]
    below = np.minimum(above, LONGEST_BAR * some["y"])
    bars: dict[str, Any] = {"ms": 2.6, "mfc": "white", "mew": 0.8, "elinewidth": 0.7}
    axes.plot(shown["x"], shown["y"], color=colour, lw=0.9, ls=style, zorder=3)
    axes.errorbar(some["x"], some["y"], [below, above], fmt="o", color=colour, zorder=4, **bars)


def _limit(axes: Axes, distances: pd.Series) -> None:
    """A logarithmic axis with plain numbers, from the least to the largest that is shown."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    shown = distances[np.isfinite(distances) & (distances > 0)]
    axes.set_yscale("log")
    axes.set_ylim(max(shown.min() * 0.7, FLOOR), min(shown.max() * 1.3, CEILING))
    axes.yaxis.set_major_locator(LogLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _legend_of(axes: Axes, column: Column, is_beside: bool) -> None:
    """The samplers of a family, under its lowest panel or beside its last one."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[place], lw=WIDEST - NARROWER * place, label=name)
        for place, name in enumerate(column.samplers)
    ]
    at, ncols = ((1.0, 1.08), 1) if is_beside else ((-0.08, -0.24), _legend_columns(column))
    legend = axes.legend(handles=handles, ncols=ncols, loc="upper left", bbox_to_anchor=at)
    legend.set_in_layout(False)


def _legend_columns(column: Column) -> int:
    """One column of names if there are few or long ones, and else two."""
    is_long = max(map(len, column.samplers)) > LONG_NAME
    return 1 if is_long or len(column.samplers) < 4 else 2


def _legend_lines(column: Column) -> int:
    return -(-len(column.samplers) // _legend_columns(column))


def _common(comparison: Comparison) -> list[Any]:
    """What lines and points stand for, in all panels."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    curves = comparison.curves
    ways = [way for way in LINES if way in set(curves["setting"])]
    lines = {LINES[way]: [w for w in ways if LINES[w] == LINES[way]] for way in ways}
    handles: list[Any] = [
        Line2D([], [], color="0.3", ls=style, label=" or ".join(names))
        for style, names in lines.items()
    ]
    if (curves["source"] == "simulation").any():
        handles.append(
            Line2D([], [], color="0.3", marker="o", mfc="white", ms=3, lw=0.5, label="simulated")
        )
        handles.append(Patch(color="0.95", label="exact draws would show as much"))
    handles.append(Line2D([], [], color="0.4", ls=":", lw=0.8, label="target"))
    if (curves["source"] == "law").any():
        handles.append(Line2D([], [], color=BEHIND, label="samplers of other panels"))
    return handles
