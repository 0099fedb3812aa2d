"""One row for each entry of a parameter: moments and quantiles beside the diagnostics."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
import xarray as xr

from starlings.diagnostics.draws import all_entries, by_site, entry_blocks, thinning_step
from starlings.diagnostics.statistics import diagnostics_table
from starlings.results.intervals import MEDIAN, interval_levels, is_quantile
from starlings.results.tables import ROW_HEADING, AnswerTable
from starlings.results.text_table import NAMES_HEADING, text_table

SUMMARY_QUANTILES = {"5%": 0.05, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95}
"""The probabilities of the quantiles in `starlings show`, by the name of their column."""
DIAGNOSTICS = ["mcse", "rhat", "ess_bulk", "ess_tail", "mean_range"]
"""The columns of `Result.summary()` beside mean, sd and quantiles."""
WIDTH_WITH_MCSE = 80
"""Columns of a terminal from which on the Monte Carlo standard error is printed, too."""
MAX_POOLED_DRAWS = 2**20
"""Draws of an entry, over all chains and agents, from which moments and quantiles are computed:
longer runs are thinned to this number."""
MAX_SERIES = 2000
"""Number of series, each the draws of one entry at one agent, up to which the diagnostics of all
are computed, at some milliseconds each. Beyond it they are computed for one agent per entry."""


class ParameterTable(AnswerTable):
    """What `Result.summary` returns, printed as `starlings show` prints it."""

    def _printed(self, width: int | None) -> list[str]:
        return printed_columns(self, width)


def parameter_table(
    posterior: xr.Dataset, max_series: int, prob: float = 0.9, heading: str = NAMES_HEADING
) -> ParameterTable:
    """Return moments, quantiles and diagnostics of every entry; of local ones at every site.

    Args:
        posterior: the draws.
        max_series: as in `bounded_diagnostics`.
        prob: the probability of the central interval.
        heading: what the rows are.
    """
    levels = interval_levels(prob)
    found = pooled_of_all(posterior, levels).join(diagnostics_of_all(posterior, max_series))
    table = ParameterTable(found[["mean", "sd", *levels, *DIAGNOSTICS]])
    table.attrs[ROW_HEADING] = heading
    return table


def entries_of_all(posterior: xr.Dataset) -> list[str]:
    """Return the names of the rows; values that every site has for itself have one for each."""
    return [entry for part in by_site(posterior) for entry in all_entries(part)]


def pooled_of_all(posterior: xr.Dataset, quantiles: Mapping[str, float]) -> pd.DataFrame:
    """Return moments and quantiles of every entry; of local ones at every site."""
    return pd.concat([pooled_table(part, quantiles) for part in by_site(posterior)])


def diagnostics_of_all(posterior: xr.Dataset, max_series: int) -> pd.DataFrame:
    """Return the diagnostics of every entry; of local ones at every site."""
    return pd.concat([bounded_diagnostics(part, max_series) for part in by_site(posterior)])


def printed_columns(table: pd.DataFrame, width: int | None) -> list[str]:
    """The columns that fit into a terminal of this width; all but the median for None, paper."""
    ends = [str(c) for c in table.columns if is_quantile(c) and c not in (MEDIAN, "25%", "75%")]
    is_wide = width is None or width >= WIDTH_WITH_MCSE
    wanted = ["mean", "sd", *ends, *DIAGNOSTICS[0 if is_wide else 1 :]]
    return [column for column in wanted if column in table.columns]


def table_as_text(table: pd.DataFrame, width: int) -> str:
    """Lay out a table for a terminal with `width` columns."""
    shown = ParameterTable(table)
    return text_table(shown._row_names(), shown._cells(shown._printed(width)), width)


def bounded_diagnostics(posterior: xr.Dataset, max_series: int) -> pd.DataFrame:
    """Return the diagnostics of every entry, quickly if there are more series than `max_series`."""
    series = sum(math.prod(draws.shape[2:]) for draws in posterior.values())
    return diagnostics_table(posterior, quick=series > max_series)


def pooled_table(
    posterior: xr.Dataset, quantiles: Mapping[str, float] = SUMMARY_QUANTILES
) -> pd.DataFrame:
    """Return mean, sd and quantiles of every entry, over all chains, draws and agents."""
    step = thinning_step(posterior, MAX_POOLED_DRAWS, ("chain", "draw", "agent"))
    blocks = (values.reshape(-1, values.shape[-1]) for values in entry_blocks(posterior, step))
    levels = list(quantiles.values())
    parts = [
        np.stack([flat.mean(axis=0), flat.std(axis=0), *np.quantile(flat, levels, axis=0)])
        for flat in blocks
    ]
    columns = dict(zip(("mean", "sd", *quantiles), np.hstack(parts), strict=True))
    return pd.DataFrame(columns, index=all_entries(posterior))
