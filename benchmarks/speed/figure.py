"""The results as one figure: a panel for each part that was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

from starlings.results.plots import PALETTE, SETTINGS, SITE_COLOURS

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
STYLE: dict[Any, Any] = SETTINGS | {"font.size": 11, "axes.titlesize": 13, "axes.spines.left": True}


def overview(parts: Mapping[str, Part]) -> Figure:
    """Two panels in a row."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    there = [name for name in PANELS if name in parts]
    with mpl.rc_context(STYLE):
        lines = math.ceil(len(there) / 2)
        figure = Figure(figsize=(12, 4.4 * lines), layout="constrained")
        every = figure.subplots(lines, 2, squeeze=False).ravel()
        for axes, name in zip(every, there, strict=False):
            PANELS[name](axes, parts[name]["rows"])
            axes.set_title(PARTS[name].TITLE, loc="left", pad=38)
        for axes in every[len(there) :]:
            axes.axis("off")
    return figure


def draw_reference(axes: Axes, rows: Rows) -> None:
    """Agent-rounds per second of the three ways."""
    labels = {"ours": "starlings", "numpy": "NumPy", "cvxpy": "CVXPY"}
    shown = [row for row in rows if row["law"] == "paper"]
    series = {label: [row[key] for row in shown] for key, label in labels.items()}
    draw_dots(axes, [_place(row) for row in shown], series)
    axes.set_xlabel("agent-rounds per second, published noise")


def _place(row: dict[str, Any]) -> str:
    chains = f"{row['chains']} chain{'s' if row['chains'] > 1 else ''}"
    return f"{row['family']}, {row['graph']} of {row['agents']}, {chains}"


def draw_limit(axes: Axes, rows: Rows) -> None:
    """Ratios to the limit."""
    names = [f"{r['potentials']}, {r['law']}, {r['agents']:,} x {r['chains']}" for r in rows]
    draw_dots(axes, names, {"a round over the limit": [row["over_limit"] for row in rows]})
    axes.axvline(OVER_LIMIT, color="0.4", ls="--", lw=1)
    count_from_zero(axes)
    axes.set_xlabel("time over the limit; target dashed")


def draw_growth(axes: Axes, rows: Rows) -> None:
    """Time per unit of work over its least, along every range."""
    from matplotlib.ticker import FixedLocator, NullLocator

    names = list(dict.fromkeys(row["range"] for row in rows))
    for name, colour, marker in zip(names, cycle(SITE_COLOURS), cycle(MARKERS), strict=False):
        along = [row for row in rows if row["range"] == name]
        costs = [row["nanoseconds_per_unit"] for row in along]
        relative = [cost / min(costs) for cost in costs]
        sizes = [row["size"] for row in along]
        axes.loglog(sizes, relative, marker=marker, color=colour, label=name)
    axes.axhline(LARGEST_RISE, color="0.4", ls="--", lw=1)
    axes.yaxis.set_major_locator(FixedLocator([1, 1.5, 2, 3, 5, 10, 20, 50, 100]))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("agents, dimension, chains, or neighbours of the hub")
    axes.set_ylabel("time per unit of work\nover the least; target dashed")
    put_legend(axes, columns=3)


def draw_pooled(axes: Axes, rows: Rows) -> None:
    """Effective draws per second."""
    cases = list(dict.fromkeys(row["case"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {(row["case"], row["method"]): row["draws_per_second"] for row in rows}
    draw_dots(axes, cases, {m: [found[case, m] for case in cases] for m in methods})
    axes.set_xlabel("effective draws per second")


def draw_start(axes: Axes, rows: Rows) -> None:
    """CPU seconds to the first draw."""
    names = [f"{row['sampler']}, {row['cache']}" for row in rows]
    draw_dots(axes, names, {"CPU time": [row["cpu_seconds"] for row in rows]})
    wanted = [MOST_SECONDS[row["cache"]] for row in rows]
    axes.plot(wanted, range(len(rows)), "|", color="0.4", markersize=18, label="target")
    count_from_zero(axes)
    axes.set_xlabel("seconds of CPU time to the first draw")
    put_legend(axes, columns=2)


def draw_device(axes: Axes, rows: Rows) -> None:
    """Agent-rounds per second on the GPU and on the CPU."""
    labels = {"agent_rounds_per_second": "GPU", "cpu_agent_rounds_per_second": "CPU"}
    series = {label: [row[key] for row in rows] for key, label in labels.items()}
    draw_dots(axes, [f"{row['case']}, {row['dtype']}" for row in rows], series)
    axes.set_xlabel("agent-rounds per second")


def draw_dots(axes: Axes, names: list[str], series: Mapping[str, list[float]]) -> None:
    """A line for each name, with a dot of every series, on a logarithmic axis of whole decades."""
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
    """A linear axis with room at its end."""
    axes.set_xscale("linear")
    axes.set_xlim(0, 1.1 * max(max(line.get_xdata()) for line in axes.lines))


def put_legend(axes: Axes, columns: int) -> None:
    """Between title and panel."""
    place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.1}
    axes.legend(frameon=False, ncols=columns, fontsize=10, borderpad=0.1, **place)


PANELS = {
    "reference": draw_reference,
    "limit": draw_limit,
    "growth": draw_growth,
    "pooled": draw_pooled,
    "start": draw_start,
    "device": draw_device,
}
