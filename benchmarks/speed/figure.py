"""The results as one figure: a panel for each part that was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

from starlings.results.palette import PALETTE, SERIES_COLOURS
from starlings.results.plots import FIGURE_SETTINGS

from .growth import LARGEST_RISE
from .limit import OVER_LIMIT
from .report import PARTS
from .results import Part
from .start import MOST_SECONDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = list[dict[str, Any]]
MARKERS = "osD^vP"
"""The markers of the series of a panel, in their order."""
STYLE: dict[Any, Any] = FIGURE_SETTINGS | {
    "font.size": 11,
    "axes.titlesize": 13,
    "axes.spines.left": True,
}


def overview(parts: Mapping[str, Part]) -> Figure:
    """All parts that were measured, with two panels in a row."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    measured = [name for name in PANELS if name in parts]
    with mpl.rc_context(STYLE):
        lines = math.ceil(len(measured) / 2)
        figure = Figure(figsize=(12, 4.4 * lines), layout="constrained")
        every = figure.subplots(lines, 2, squeeze=False).ravel()
        for axes, name in zip(every, measured, strict=False):
            PANELS[name](axes, parts[name]["rows"])
            axes.set_title(PARTS[name].TITLE, loc="left", pad=38)
        for axes in every[len(measured) :]:
            axes.axis("off")
    return figure


def draw_reference(axes: Axes, rows: Rows) -> None:
    """Draw the agent-rounds per second of starlings, NumPy and CVXPY."""
    labels = {"ours": "starlings", "numpy": "NumPy", "cvxpy": "CVXPY"}
    shown = [row for row in rows if row["law"] == "paper"]
    series = {label: [row[key] for row in shown] for key, label in labels.items()}
    draw_dots(axes, [_setting(row) for row in shown], series)
    axes.set_xlabel("agent-rounds per second, published noise")


def _setting(row: dict[str, Any]) -> str:
    chains = f"{row['chains']} chain{'s' if row['chains'] > 1 else ''}"
    return f"{row['family']}, {row['graph']} of {row['agents']}, {chains}"


def draw_limit(axes: Axes, rows: Rows) -> None:
    """Draw the time of a round over the limit."""
    names = [f"{r['potentials']}, {r['law']}, {r['agents']:,} x {r['chains']}" for r in rows]
    draw_dots(axes, names, {"a round over the limit": [row["over_limit"] for row in rows]})
    axes.axvline(OVER_LIMIT, color="0.4", ls="--", lw=1)
    count_from_zero(axes)
    axes.set_xlabel("time of a round / time of the limit (target: dashed line)")


def draw_growth(axes: Axes, rows: Rows) -> None:
    """Draw the time per unit of work over its least, along every range."""
    from matplotlib.ticker import FixedLocator, NullLocator

    names = list(dict.fromkeys(row["range"] for row in rows))
    for name, colour, marker in zip(names, cycle(SERIES_COLOURS), cycle(MARKERS), strict=False):
        along = [row for row in rows if row["range"] == name]
        costs = [row["nanoseconds_per_unit"] for row in along]
        relative = [cost / min(costs) for cost in costs]
        sizes = [row["size"] for row in along]
        axes.loglog(sizes, relative, marker=marker, color=colour, label=name)
    axes.axhline(LARGEST_RISE, color="0.4", ls="--", lw=1)
    axes.yaxis.set_major_locator(FixedLocator([1, 1.5, 2, 3, 5, 10, 20, 50, 100]))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("number of agents, dimensions, chains, or neighbours of the hub")
    axes.set_ylabel("time per unit of work /\nleast of its range (target: dashed)")
    put_legend(axes, columns=3)


def draw_pooled(axes: Axes, rows: Rows) -> None:
    """Draw the effective draws per second of every method."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {(row["case"], row["method"]): row["draws_per_second"] for row in rows}
    draw_dots(axes, cases, {m: [found[case, m] for case in cases] for m in methods})
    axes.set_xlabel("effective draws per second, worst agent and parameter")


def draw_start(axes: Axes, rows: Rows) -> None:
    """Draw the CPU time to the first draw, in seconds."""
    names = [f"{row['sampler']}, {row['cache']}" for row in rows]
    draw_dots(axes, names, {"CPU time": [row["cpu_seconds"] for row in rows]})
    wanted = [MOST_SECONDS[row["cache"]] for row in rows]
    axes.plot(wanted, range(len(rows)), "|", color="0.4", markersize=18, label="target")
    count_from_zero(axes)
    axes.set_xlabel("CPU time to the first draw, s")
    put_legend(axes, columns=2)


def draw_device(axes: Axes, rows: Rows) -> None:
    """Draw the agent-rounds per second on the GPU and on the CPU."""
    labels = {"agent_rounds_per_second": "GPU", "cpu_agent_rounds_per_second": "CPU"}
    series = {label: [row[key] for row in rows] for key, label in labels.items()}
    draw_dots(axes, [f"{row['case']}, {row['dtype']}" for row in rows], series)
    axes.set_xlabel("agent-rounds per second")


def draw_dots(axes: Axes, names: list[str], series: Mapping[str, list[float]]) -> None:
    """Draw a line for each name, with a dot for every series, on a logarithmic axis."""
    from matplotlib.ticker import NullFormatter

    colours = (PALETTE[name] for name in ("blue", "orange", "green"))
    for (label, values), colour, marker in zip(series.items(), colours, MARKERS, strict=False):
        axes.plot(values, range(len(names)), marker, color=colour, label=label, markersize=8)
    decades = [math.log10(value) for values in series.values() for value in values]
    axes.set_xscale("log")
    axes.set_xlim(10 ** math.floor(min(decades) - 0.1), 10 ** math.ceil(max(decades) + 0.1))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", color="0.9")
    if len(series) > 1:
        put_legend(axes, columns=len(series))


def count_from_zero(axes: Axes) -> None:
    """Make the horizontal axis linear, from zero to a little beyond the largest value."""
    axes.set_xscale("linear")
    axes.set_xlim(0, 1.1 * max(max(line.get_xdata()) for line in axes.lines))


def put_legend(axes: Axes, columns: int) -> None:
    """Put a legend between the title of a panel and the panel."""
    anchor = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.1}
    axes.legend(frameon=False, ncols=columns, fontsize=10, borderpad=0.1, **anchor)


PANELS = {
    "reference": draw_reference,
    "limit": draw_limit,
    "growth": draw_growth,
    "pooled": draw_pooled,
    "start": draw_start,
    "device": draw_device,
}
