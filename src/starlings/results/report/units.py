"""Units of covariates in which a coefficient can be read: per 1,000,000 cents rather than per cent.

An odds ratio of 1.00000001 for a cent more is one of 1.01 for a million. What has to be so many of
is a power of ten; the shape of the picture is the same in all units.
"""

from __future__ import annotations

import math

import pandas as pd

from starlings.results.intervals import is_quantile

SMALLEST, LARGEST = 0.002, 0.2
"""The largest end of an interval, in absolute value, that is too small to be read, and that of one
in its new unit, at most."""
PER = " (per "
"""What stands between a name and its unit."""


def units(table: pd.DataFrame) -> dict[str, int]:
    """The unit of every entry of a table with quantiles of coefficients; 1 where it is as it is.

    >>> units(pd.DataFrame({"2.5%": [-1e-8, 0.1], "97.5%": [3e-8, 0.2]}, ["income", "age"]))
    {'income': 1000000, 'age': 1}
    """
    ends = table[[name for name in table.columns if is_quantile(name)]].abs().max(axis=1)
    return {str(name): _unit(float(end)) for name, end in ends.items()}


def in_unit(rows: pd.DataFrame, unit: int) -> pd.DataFrame:
    """Rows with a coefficient's moments and quantiles for a change by so many."""
    columns = [name for name in rows.columns if name in ("mean", "sd") or is_quantile(name)]
    return rows.assign(**{name: rows[name] * unit for name in columns})


def with_unit(name: str, unit: int) -> str:
    """The name of a coefficient with its unit."""
    return name if unit == 1 else f"{name}{PER}{unit:,})"


def _unit(end: float) -> int:
    return 10 ** math.floor(math.log10(LARGEST / end)) if 0 < end < SMALLEST else 1
