"""Tables of rows from CSV and Parquet files; errors name the file, the column and the line or row.

Lines of a CSV file are counted from 1, as editors do, and rows of a Parquet file from 0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from starlings.errors import nearest
from starlings.problem.columns import (
    RowNumbers,
    as_floats,
    faults_as_text,
    numbered_from_zero,
    rows_as_text,
)
from starlings.problem.shards import lacks_label
from starlings.study.csv_files import check_rows, header, lines_of
from starlings.system.extras import import_extra

PIECE = 100_000
"""Number of rows of a CSV file that are read at once, to bound memory."""
CSV: dict[str, Any] = {
    "index_col": False,
    "skipinitialspace": True,
    "float_precision": "round_trip",  # older versions of pandas read a number only nearly
    "low_memory": False,  # or pandas guesses types in smaller pieces, which may then differ
}
"""Options with which pandas reads a file that `csv_files` has checked."""
WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.0+)?")
"""Text that is a whole number, without leading zeros: 01 is a label, not a number."""
SEPARATORS = (";", "\t", "|")
"""Characters that other programs use instead of commas, for a hint in errors."""


class ColumnError(ValueError):
    """A table lacks a column, or has one that is not made of finite numbers."""


class Selection(NamedTuple):
    """Rows that have one of some values in a column."""

    column: str
    values: np.ndarray


def read_rows(
    path: str | Path,
    columns: Sequence[str] | None = None,
    is_wanted: np.ndarray | None = None,
    site: Selection | None = None,
    is_checked: bool = False,
    as_text: Collection[str] = (),
) -> pd.DataFrame:
    """Columns of a .csv or .parquet file; the index has the rows' numbers in the file, from 0.

    Memory holds what is wanted and at most `PIECE` further rows.

    Args:
        path: the file.
        columns: the columns to read; all if None.
        is_wanted: for every row whether to read it; all if None.
        site: the same rows as values of a column, so that only those row groups of a Parquet file
            are read which can have them.
        is_checked: whether the file is known to have no rows of a wrong length.
        as_text: columns of a CSV file whose entries stay text, so that 01 is not 1.
    """
    source = _table(path)
    names = column_names(source)
    wanted = [name for name in names if name] if columns is None else list(columns)
    check_columns(names, wanted, source)
    if not is_checked:
        number_of_rows(source)  # refuses rows of another length than the header
    if _is_csv(source):
        return _read_csv(source, names, wanted, is_wanted, as_text)
    frame = _read_parquet(source, wanted, site)
    rows = np.arange(len(frame)) if is_wanted is None else np.flatnonzero(is_wanted)
    return frame.set_axis(rows, axis=0)


def read_labels(path: str | Path, column: str) -> np.ndarray:
    """The label of each row's site; a row without one is an error.

    Labels of a CSV file are text: 01 is not 1. White space around them is ignored, and whole
    numbers lose a decimal part of zeros if all labels are such numbers.
    """
    source = _table(path)
    if _is_csv(source):
        labels = _csv_labels(source, column)
    else:
        labels = read_rows(source, [column])[column].to_numpy()
    missing = np.flatnonzero(lacks_label(labels))
    if len(missing):
        first = find_rows(source, missing[:1])
        rows = rows_as_text(len(missing), first.as_text()[0])
        raise ValueError(
            f"{source} names no site in column {column!r} in {rows}; label or drop them. An entry "
            f"such as NA names none.{first.note}"
        )
    return labels


def number_of_rows(path: str | Path) -> int:
    """The number of rows of a table, without the header; an empty table is an error."""
    source = _table(path)
    rows = check_rows(source) if _is_csv(source) else _parquet(source).metadata.num_rows
    if rows == 0:
        raise ValueError(f"{source} is empty; it needs a header and at least one row.")
    return rows


def column_names(path: str | Path) -> list[str]:
    """The names of a table's columns, without reading its rows."""
    source = _table(path)
    return header(source) if _is_csv(source) else _parquet(source).schema_arrow.names


def find_rows(path: str | Path, rows: np.ndarray) -> RowNumbers:
    """The lines or rows of a file, as error messages name them, of rows numbered from 0."""
    source = Path(path)
    return (
        RowNumbers("line", lines_of(source, rows)) if _is_csv(source) else numbered_from_zero(rows)
    )


def is_table(path: Path) -> bool:
    """Whether the name of a file ends in .csv or .parquet."""
    return path.suffix.lower() in (".csv", ".parquet")


def _is_csv(source: Path) -> bool:
    return source.suffix.lower() == ".csv"


def _table(path: str | Path) -> Path:
    source = Path(path)
    if not is_table(source):
        raise ValueError(
            f"{source} is not a table that can be read: its name must end in .csv or .parquet."
        )
    if source.is_dir():
        raise IsADirectoryError(f"{source} is a folder, not a table.")
    if not source.is_file():
        raise FileNotFoundError(f"no data file at {source}; check the name and the folder.")
    return source


def _read_csv(
    source: Path,
    names: list[str],
    wanted: Sequence[str],
    is_wanted: np.ndarray | None,
    as_text: Collection[str],
) -> pd.DataFrame:
    places = sorted(names.index(name) for name in wanted)
    types = {names.index(name): str for name in as_text if name in wanted}
    pieces = pd.read_csv(source, usecols=places, chunksize=PIECE, dtype=types, **CSV)
    # The index of a piece has the numbers of its rows in the file.
    chosen = [p if is_wanted is None else p[is_wanted[p.index]] for p in pieces]
    return pd.concat(chosen).set_axis([names[place] for place in places], axis=1)


def _csv_labels(source: Path, column: str) -> np.ndarray:
    """Labels as text without white space around it; a missing label is empty."""
    names = column_names(source)
    check_columns(names, [column], source)
    number_of_rows(source)  # refuses rows of another length than the header
    entries = pd.read_csv(source, usecols=[names.index(column)], dtype=str, **CSV).iloc[:, 0]
    numbers, unique = pd.factorize(entries)
    labels = [label.strip() for label in unique]
    if all(WHOLE_NUMBER.fullmatch(label) for label in labels):
        labels = [label.partition(".")[0] for label in labels]
    return np.array([*labels, ""], object)[numbers]  # the last for number -1, a missing entry


def _read_parquet(source: Path, wanted: Sequence[str], site: Selection | None) -> pd.DataFrame:
    """Columns as they are stored, even if pandas wrote one of them as an index."""
    import pyarrow.parquet

    filters = None if site is None else [(site.column, "in", list(site.values))]
    try:
        table = pyarrow.parquet.read_table(
            source, columns=list(wanted), filters=filters, partitioning=None
        )
        return table.to_pandas(ignore_metadata=True)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{source} cannot be read as Parquet: {error}") from None


def _parquet(source: Path) -> Any:
    """An open Parquet file, of which only the metadata are read."""
    parquet = import_extra("pyarrow.parquet", f"reading {source}", extra="parquet")
    pyarrow = import_extra("pyarrow", f"reading {source}", extra="parquet")
    try:
        return parquet.ParquetFile(source)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{source} cannot be read as Parquet: {error}") from None


def check_columns(present: Iterable[str], columns: Sequence[str], source: str | Path) -> None:
    """Refuse columns that the table does not have, or has twice."""
    names = [str(name) for name in present]
    absent = [name for name in columns if name not in names]
    if absent:
        hint = _other_separator(names) or nearest(absent[0], names)
        raise ColumnError(f"{source} has no column {_listed(absent)}; it has {names}.{hint}")
    twice = [name for name in columns if names.count(name) > 1]
    if twice:
        raise ColumnError(f"{source} has more than one column {_listed(twice)}; rename them.")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _other_separator(names: Sequence[str]) -> str:
    found = [mark for mark in SEPARATORS if len(names) == 1 and mark in names[0]]
    return f" Columns have to be separated by commas, not by {found[0]!r}." if found else ""


def numeric_columns(
    frame: pd.DataFrame, columns: Sequence[str], source: str | Path
) -> pd.DataFrame:
    """The named columns of rows of a file as finite floats; one error describes all faults."""
    check_columns(frame.columns, columns, source)
    values, faults = {}, []
    for name in columns:
        values[name], own = as_floats(frame[name], f"column {name!r}")
        faults += own
    if faults:
        rows = frame.index.to_numpy()
        text = faults_as_text(faults, lambda found: find_rows(source, rows[found]))
        raise ColumnError(f"{source} has {text}")
    return pd.DataFrame(values, index=frame.index)
