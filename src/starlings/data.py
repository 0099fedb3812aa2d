"""Tables of rows from CSV and Parquet files, refused with the column and the row of a fault.

Rows are counted from 0, the first row below the header.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from starlings.errors import nearest

PIECE = 100_000
"""Rows of a CSV file that are read at once."""


class ColumnError(ValueError):
    """A table does not have a column."""


def read_rows(
    path: str | Path,
    columns: Sequence[str] | None = None,
    is_wanted: np.ndarray | None = None,
    site: Selection | None = None,
) -> pd.DataFrame:
    """Some columns of some rows of a .csv or .parquet file, or all; the index numbers the rows.

    Of a long table no more than a piece is in memory besides what is wanted. Of a Parquet file,
    with `site`, only the parts that can have wanted rows are read.
    """
    source = Path(path)
    if source.suffix not in READERS:
        raise ValueError(
            f"{source} is not a table that can be read: its name must end in .csv or .parquet."
        )
    if not source.is_file():
        raise FileNotFoundError(f"no data file at {source}.")
    frame = READERS[source.suffix](source, columns, is_wanted, site)
    if frame.empty:
        raise ValueError(f"{source} is empty; it needs a header and at least one row.")
    return frame


def _one_kind(column: pd.Series) -> pd.Series:
    """A column that pieces of a file read as unlike kinds, as numbers if they all are, or as text.

    A text in rows that are not wanted does not make the others text.
    """
    if column.dtype != object:
        return column
    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError):
        return column.where(column.isna(), column.astype(str))


def column_names(path: Path) -> list[str]:
    """The columns of a table, of which nothing else is read."""
    if path.suffix == ".parquet":
        from pyarrow.parquet import read_schema

        return list(read_schema(path).names)
    return [str(name) for name in pd.read_csv(path, nrows=0, skipinitialspace=True).columns]


class Selection(NamedTuple):
    """The values of a column that wanted rows have."""

    column: str
    values: np.ndarray


def _read_csv(
    source: Path, columns: Sequence[str] | None, is_wanted: np.ndarray | None, _: Any
) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            # A surplus field would be dropped, or taken for an index that shifts every column.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # Older versions of pandas read a number only nearly as it was written.
            how: Any = {
                "index_col": False,
                "skipinitialspace": True,
                "float_precision": "round_trip",
            }
            if is_wanted is None and columns is None:
                return pd.read_csv(source, **how)
            known = pd.read_csv(source, nrows=0, **how)
            check_columns(known, list(columns or ()), source)
            pieces = pd.read_csv(
                source, usecols=None if columns is None else list(columns), chunksize=PIECE, **how
            )
            # The index of a piece are the numbers of its rows.
            kept = [p if is_wanted is None else p[is_wanted[p.index]] for p in pieces]
            frame = pd.concat(kept) if kept else known
            return frame.apply(_one_kind)
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except pd.errors.ParserWarning:
        raise ValueError(f"{source} cannot be read as CSV: rows longer than the header.") from None
    except ColumnError:
        raise
    except ValueError as error:
        raise ValueError(f"{source} cannot be read as CSV: {error}") from None


def _read_parquet(
    source: Path,
    columns: Sequence[str] | None,
    is_wanted: np.ndarray | None,
    site: Selection | None,
) -> pd.DataFrame:
    try:
        from pyarrow.parquet import read_schema

        if columns is not None:
            check_columns(pd.DataFrame(columns=read_schema(source).names), columns, source)
        filters = None if site is None else [(site.column, "in", list(site.values))]
        wanted = None if columns is None else list(columns)
        frame = pd.read_parquet(source, engine="pyarrow", columns=wanted, filters=filters)
    except ImportError:
        raise ImportError(
            f"reading {source} needs pyarrow; install it with `pip install 'starlings[parquet]'`."
        ) from None
    except ColumnError:
        raise
    except (ValueError, OSError) as error:
        raise ValueError(f"{source} cannot be read as Parquet: {error}") from None
    rows = np.arange(len(frame)) if is_wanted is None else np.flatnonzero(is_wanted)
    return frame.set_axis(rows, axis=0)


READERS = {".csv": _read_csv, ".parquet": _read_parquet}


def check_columns(frame: pd.DataFrame, columns: Sequence[str], source: str | Path) -> None:
    """Refuse the first column that the table does not have, with the nearest one that it has."""
    for column in columns:
        if column not in frame.columns:
            present = [str(name) for name in frame.columns]
            raise ColumnError(
                f"{source} has no column {column!r}; it has {present}.{nearest(column, present)}"
            )


def site_labels(frame: pd.DataFrame, column: str, source: str | Path) -> np.ndarray:
    """The label of each row's site."""
    check_columns(frame, [column], source)
    missing = np.flatnonzero(frame[column].isna())
    if len(missing):
        raise ValueError(
            f"column {column!r} of {source} names no site in row {frame.index[missing[0]]} "
            f"({len(missing)} such rows); label or drop them."
        )
    return frame[column].to_numpy()


def numeric_columns(
    frame: pd.DataFrame, columns: Sequence[str], source: str | Path
) -> pd.DataFrame:
    """The named columns as finite floats."""
    check_columns(frame, columns, source)
    values = {name: _finite_floats(frame[name], source) for name in columns}
    return pd.DataFrame(values, index=frame.index)


def _finite_floats(column: pd.Series, source: str | Path) -> np.ndarray:
    if not pd.api.types.is_numeric_dtype(column):
        entry, row = _first_text(column)
        raise ValueError(
            f"column {column.name!r} of {source} is not numeric: {entry!r} in row {row}."
        )
    values = column.to_numpy(float, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ValueError(
            f"column {column.name!r} of {source} is {values[bad[0]]} in row "
            f"{column.index[bad[0]]} "
            f"({len(bad)} such rows); drop or impute them."
        )
    return values


def _first_text(column: pd.Series) -> tuple[object, int]:
    """The first entry that does not read as a number (or just the first) and its row."""
    unreadable = pd.to_numeric(column, errors="coerce").isna() & column.notna()
    row = int(np.argmax(unreadable))
    return column.iloc[row], int(column.index[row])
