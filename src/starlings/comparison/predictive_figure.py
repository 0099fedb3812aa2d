"""The figure of a predictive check: what each site observed, and what the model simulates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from starlings.results.palette import PALETTE
from starlings.results.plots import FIGURE_SETTINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW_INCHES, PANEL_INCHES = 0.32, 3.2
"""Height of a site, and width of a statistic."""


def draw(table: pd.DataFrame) -> Figure:
    """Draw a panel for each statistic, with a line for each site.

    Args:
        table: `PredictiveCheck.table`.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    statistics, sites = (list(dict.fromkeys(table[c])) for c in ("statistic", "site"))
    size = (2 + PANEL_INCHES * len(statistics), 1.6 + ROW_INCHES * len(sites))
    with mpl.rc_context({**FIGURE_SETTINGS, "font.size": 11, "axes.titlesize": 12}):
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(1, len(statistics), sharey=True, squeeze=False)[0]
        for axes, statistic in zip(panels, statistics, strict=True):
            own = table[table["statistic"] == statistic].set_index("site").reindex(sites)
            _draw_panel(axes, own, statistic)
        panels[0].set_yticks(range(len(sites)), [str(site) for site in sites])
        panels[0].set_ylim(len(sites) - 0.5, -0.5)
    return figure


def _draw_panel(axes: Axes, own: pd.DataFrame, statistic: str) -> None:
    for row, (low, high, observed) in enumerate(own[["5%", "95%", "observed"]].to_numpy()):
        axes.plot([low, high], [row, row], color="0.6", lw=5, solid_capstyle="butt")
        axes.plot(observed, row, "D", color=PALETTE["blue"], markersize=6)
    axes.set_title(statistic)
    axes.grid(axis="x", color="0.93")
    axes.set_axisbelow(True)
