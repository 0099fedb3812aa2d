"""The groups and attributes of a result, as those who write it and those who read it need them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
import xarray as xr

from starlings.errors import nearest

GROUPS = ("posterior", "sample_stats")
"""The names of the two groups of a result."""
MAX_CHECKED_BYTES = 2**30
"""Bytes of draws above which diagnostics use a subset of the agents."""
TABLES = ("alone", "predictive_check", "calibration")
"""Further groups that a result can have: tables that were made where the rows are."""
Groups = dict[str, xr.Dataset]
"""The datasets of a result by the name of their group."""


def as_attribute(value: Any) -> str | int | float:
    """Return a text or a number unchanged, and any other value as JSON."""
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return value if is_plain else json.dumps(value)


def model_record(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the attributes of a result say of its model; nothing, if they say nothing."""
    return json.loads(attrs.get("model", "{}"))


def as_dataset(table: pd.DataFrame) -> xr.Dataset:
    """Return a table as a group of a result: a variable for each column, along the rows."""
    columns = {
        str(name): ("row", column.to_numpy(object if column.dtype.kind == "O" else None))
        for name, column in table.items()
    }
    return xr.Dataset(columns)


def table_of(group: xr.Dataset) -> pd.DataFrame:
    """Return a group that was a table as that table; its rows are numbered from 0."""
    return pd.DataFrame({str(name): group[name].values for name in group.data_vars})


def check_table_names(names: Iterable[str]) -> None:
    """Refuse a name that is not among `TABLES`."""
    for name in names:
        if name not in TABLES:
            raise ValueError(
                f"a result can have the tables {list(TABLES)}, got {name!r}.{nearest(name, TABLES)}"
            )
