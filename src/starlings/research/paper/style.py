"""How every figure of the paper looks: one colour, line and marker for a method, everywhere.

The colours are those of Okabe and Ito, which stay apart under all common colour blindness; line and
marker say the same a second time, for print without colour.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from starlings.results.palette import PALETTE

RESOLUTION = 200
"""Dots per inch of the PNG files."""

SETTINGS: dict[Any, Any] = {
    "font.size": 13,
    "axes.titlesize": 14,
    "axes.labelsize": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "legend.columnspacing": 1.4,
    "lines.linewidth": 2.0,
    "svg.hashsalt": "starlings",
}


@dataclass(frozen=True)
class MethodStyle:
    """What marks one method in every figure."""

    colour: str
    linestyle: Any
    marker: str
    label: str

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments of `plot` for an exact or mean curve."""
        return {"color": self.colour, "linestyle": self.linestyle}

    def marked(self, apart: float) -> dict[str, Any]:
        """Keyword arguments of `plot` for a line with markers, each method's at other places."""
        first = apart * list(METHODS.values()).index(self) / len(METHODS)
        return {**self.points, **self.line, "linewidth": 2.0, "markevery": (first, apart)}

    @property
    def points(self) -> dict[str, Any]:
        """Keyword arguments of `plot` for a Monte Carlo curve: markers on a hair line."""
        return {
            "color": self.colour,
            "linestyle": "-",
            "linewidth": 0.6,
            "marker": self.marker,
            "markersize": 4.5,
            "markerfacecolor": "white",
            "markeredgewidth": 1.1,
        }


METHODS = {
    "D-ADMMS": MethodStyle(PALETTE["blue"], "-", "o", "D-ADMMS"),
    "ADMM": MethodStyle(PALETTE["black"], (0, (4, 2)), "s", "ADMM (no noise)"),
    "D-SGLD": MethodStyle(PALETTE["orange"], "-", "^", "D-SGLD"),
    "D-SGHMC": MethodStyle(PALETTE["green"], "-", "D", "D-SGHMC"),
    "D-ULA": MethodStyle(PALETTE["vermilion"], "-", "v", "D-ULA"),
    "coherent D-ADMMS": MethodStyle(PALETTE["purple"], "-", "P", "coherent D-ADMMS"),
}
"""By the name of the method in the tables."""


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Draw with the fonts, grid and spines of all figures."""
    with mpl.rc_context(SETTINGS):
        yield


def panel_grid(
    rows: int,
    columns: int,
    *,
    panel: tuple[float, float] = (3.2, 2.8),
    titles: Sequence[str] = (),
    xlabel: str = "",
    ylabels: Sequence[str] = (),
    **subplots: Any,
) -> tuple[Figure, np.ndarray]:
    """A figure and its axes (rows, columns), with titles on top and labels at the rim only."""
    width, height = panel
    figure = Figure(figsize=(width * columns, height * rows + 0.6), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **subplots)
    for axis, title in zip(axes[0], titles, strict=False):
        axis.set_title(title)
    for axis, label in zip(axes[:, 0], ylabels, strict=False):
        axis.set_ylabel(label)
    for axis in axes[-1]:
        axis.set_xlabel(xlabel)
    return figure, axes


def method_legend(
    figure: Figure, methods: Iterable[str], extra: Sequence[Any] = (), columns: int = 3
) -> None:
    """One legend under all panels: the methods in the order of `METHODS`, then `extra` handles."""
    present = set(methods)
    handles: list[Any] = [
        Line2D(
            [], [], marker=style.marker, markerfacecolor="white", label=style.label, **style.line
        )
        for name, style in METHODS.items()
        if name in present
    ]
    figure.legend(handles=[*handles, *extra], loc="outside lower center", ncols=columns)


def log_axis(axis: Axes) -> None:
    """A logarithmic y-axis with plain numbers: 0.01, 0.1, 1, and the more between the shorter."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    decades = np.log10(high / low)
    between = (1, 2, 5) if decades < 2.5 else (1, 3) if decades < 4 else (1,)
    axis.yaxis.set_major_locator(LogLocator(subs=between))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write STEM.png and STEM.svg; the same numbers give the same bytes."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in ("png", "svg")]
    with figure_style():
        figure.savefig(paths[0], dpi=RESOLUTION)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths
