"""Tables of other libraries as pandas tables: Polars, Arrow, DuckDB.

Numbers, truth values, texts, categories with their order, dates and missing values stay what they
are. No library is imported that the table does not come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from starlings.system.extras import import_extra

NULLABLE: Mapping[str, Any] = {
    **{f"int{bits}": getattr(pd, f"Int{bits}Dtype")() for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": getattr(pd, f"UInt{bits}Dtype")() for bits in (8, 16, 32, 64)},
    "bool": pd.BooleanDtype(),
}
"""By Arrow's name of a type: the type of pandas that has missing values too, and does not turn
whole numbers into floats because of them."""


def is_table(data: Any) -> bool:
    """Whether `as_table` can convert this: a table with names for its columns."""
    return isinstance(data, pd.DataFrame) or _is_lazy(data) or _gives_arrow(data)


def as_table(data: Any, name: str = "data") -> pd.DataFrame:
    """A table as a pandas table.

    Args:
        data: a table of pandas, Polars, Arrow or DuckDB, anything else with `__arrow_c_stream__`
            or `to_pandas`, or a mapping of names to columns.
        name: the argument, for messages.

    >>> as_table({"age": [30, 41]}).columns.tolist()
    ['age']
    """
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, Mapping):
        return pd.DataFrame({column: as_column(values) for column, values in data.items()})
    if _is_lazy(data):
        return as_table(data.collect(), name)
    if _gives_arrow(data):
        return _from_arrow(data)
    if hasattr(data, "to_pandas"):
        return as_table(data.to_pandas(), name)
    raise TypeError(
        f"`{name}` must be a table with names for its columns, of pandas, Polars, Arrow or DuckDB, "
        f"or a mapping of names to columns, got {type(data).__name__}."
    )


def as_column(values: Any) -> Any:
    """A column of Polars or Arrow as one of pandas; anything else as it is."""
    is_column = hasattr(values, "to_pandas") and not isinstance(values, (pd.Series, pd.DataFrame))
    if not is_column:
        return values
    if hasattr(values, "to_frame"):  # of Polars
        return as_table(values.to_frame()).iloc[:, 0]
    pyarrow = import_extra("pyarrow", "reading an Arrow column", extra="parquet")
    return as_table(pyarrow.table({"values": values}))["values"]


def _is_lazy(data: Any) -> bool:
    """Whether this is a plan for a table, such as a LazyFrame of Polars."""
    return type(data).__name__ == "LazyFrame" and hasattr(data, "collect")


def _gives_arrow(data: Any) -> bool:
    return hasattr(data, "__arrow_c_stream__") and not isinstance(data, pd.Series)


def _from_arrow(data: Any) -> pd.DataFrame:
    """A table that Arrow can read; whole numbers stay such where some are missing."""
    pyarrow = import_extra("pyarrow", f"reading a table of {_library(data)}", extra="parquet")
    table = data if isinstance(data, pyarrow.Table) else pyarrow.table(data)
    with_missing = {
        field.name: NULLABLE[str(field.type)]
        for field, column in zip(table.schema, table.columns, strict=True)
        if column.null_count and str(field.type) in NULLABLE
    }
    frame = table.to_pandas(ignore_metadata=True, types_mapper=None)
    for column, dtype in with_missing.items():
        frame[column] = _nullable(table.column(column), dtype)
    return frame


def _nullable(column: Any, dtype: Any) -> pd.Series:
    """A column of Arrow in a type of pandas that has missing values."""
    filled = column.fill_null(False if dtype == "boolean" else 0)
    values = pd.Series(np.asarray(filled.to_pandas()), dtype=dtype)
    return values.mask(column.is_null().to_numpy(), pd.NA)


def _library(data: Any) -> str:
    return type(data).__module__.partition(".")[0]
