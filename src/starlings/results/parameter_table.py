"""One row for each entry of a parameter: moments and quantiles beside the diagnostics."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pandas as pd
import xarray as xr

from starlings.diagnostics.draws import all_entries, by_site, entry_blocks, thinning_step
from starlings.diagnostics.statistics import diagnostics_table
from starlings.results.result_html import table_html
from starlings.results.text_table import (
    Column,
    text_table,
    with_decimals,
    with_meaningful_digits,
    with_two_digits,
)
from starlings.system.html import block

SUMMARY_QUANTILES = {"5%": 0.05, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95}
"""The probabilities of the quantiles in the table, by the name of their column."""
SUMMARY_COLUMNS = ["mean", "sd", "5%", "50%", "95%"]
SUMMARY_COLUMNS += ["mcse", "rhat", "ess_bulk", "ess_tail", "mean_range"]
"""The columns of `Result.summary()`."""
COLUMNS_WITH_UNIT = {("", "mean"): "mean", ("", "sd"): "sd", ("", "5 %"): "5%", ("", "95 %"): "95%"}
"""Printed columns in the unit of the parameter: the lines of the heading, and the column."""
COLUMNS_WITHOUT_UNIT = {
    ("", "R-hat"): ("rhat", 3),
    ("ESS", "bulk"): ("ess_bulk", 0),
    ("ESS", "tail"): ("ess_tail", 0),
    ("mean", "range"): ("mean_range", 3),
}
"""Printed columns without a unit: the lines of the heading, the column, and the decimals."""
WIDTH_WITH_MCSE = 80
"""Columns of a terminal from which on the Monte Carlo standard error is printed, too."""
MAX_POOLED_DRAWS = 2**20
"""Draws of an entry, over all chains and agents, from which moments and quantiles are computed:
longer runs are thinned to this number."""
MAX_SERIES = 2000
"""Number of series, each the draws of one entry at one agent, up to which the diagnostics of all
are computed, at some milliseconds each. Beyond it they are computed for one agent per entry."""


class ParameterTable(pd.DataFrame):
    """A data frame with the columns `SUMMARY_COLUMNS`, printed as `starlings show` prints it.

    Its numbers are exact; only what is printed is rounded. Whatever is computed from it is a plain
    data frame.
    """

    def __repr__(self) -> str:
        if list(self.columns) != SUMMARY_COLUMNS:
            return super().__repr__()
        return table_as_text(self, shutil.get_terminal_size().columns)

    def _repr_html_(self) -> str:
        own = list(self.columns) == SUMMARY_COLUMNS
        return block(table_html(self)) if own else self.to_html()


def parameter_table(posterior: xr.Dataset, max_series: int) -> ParameterTable:
    """Return moments, quantiles and diagnostics of every entry; of local ones at every site."""
    parts = [
        pooled_table(part).join(bounded_diagnostics(part, max_series))
        for part in by_site(posterior)
    ]
    return ParameterTable(pd.concat(parts)[SUMMARY_COLUMNS])


def table_as_text(table: pd.DataFrame, width: int) -> str:
    """Lay out a table for a terminal with `width` columns."""
    names, spreads = [str(name) for name in table.index], table["sd"].to_numpy()
    columns = [
        Column(heading, list(map(with_meaningful_digits, table[column], spreads)))
        for heading, column in COLUMNS_WITH_UNIT.items()
    ]
    if width >= WIDTH_WITH_MCSE:
        columns.append(Column(("", "MCSE"), list(map(with_two_digits, table["mcse"]))))
    columns += [
        Column(heading, [with_decimals(value, decimals) for value in table[column]])
        for heading, (column, decimals) in COLUMNS_WITHOUT_UNIT.items()
    ]
    return text_table(names, columns, width)


def bounded_diagnostics(posterior: xr.Dataset, max_series: int) -> pd.DataFrame:
    """Return the diagnostics of every entry, quickly if there are more series than `max_series`."""
    series = sum(math.prod(draws.shape[2:]) for draws in posterior.values())
    return diagnostics_table(posterior, quick=series > max_series)


def pooled_table(posterior: xr.Dataset) -> pd.DataFrame:
    """Return mean, sd and quantiles of every entry, over all chains, draws and agents."""
    step = thinning_step(posterior, MAX_POOLED_DRAWS, ("chain", "draw", "agent"))
    blocks = (values.reshape(-1, values.shape[-1]) for values in entry_blocks(posterior, step))
    levels = list(SUMMARY_QUANTILES.values())
    parts = [
        np.stack([flat.mean(axis=0), flat.std(axis=0), *np.quantile(flat, levels, axis=0)])
        for flat in blocks
    ]
    columns = dict(zip(("mean", "sd", *SUMMARY_QUANTILES), np.hstack(parts), strict=True))
    return pd.DataFrame(columns, index=all_entries(posterior))
