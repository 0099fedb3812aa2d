"""Columns of data as finite numbers, with one message for all faults of a table.

A user who has to correct a table wants to know everything that is wrong with it at once. Functions
of this file therefore return faults beside the numbers, and the caller raises one error for all.
"""

from __future__ import annotations

import datetime
import itertools
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

REAL_KINDS = "fiub"
"""The codes (`dtype.kind`) of NumPy's types of real numbers: floats, integers, truth values."""
DATE_TYPES = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    np.datetime64,
    np.timedelta64,
    pd.Period,
)
"""Types of dates, times and durations. They are refused, since their unit is not known."""
MOST_COLUMNS = 30
"""Number of columns that one sentence of a message names; of any further ones it has the number."""
REMEDIES = {
    "missing": ("missing or infinite values", "drop or impute those rows"),
    "text": ("entries that are not numbers", "correct them, or code them as numbers"),
    "dates": (
        "dates or times, which are no numbers",
        "convert them to numbers with a unit, such as days since a date: "
        "`(column - start) / pd.Timedelta(days=1)`",
    ),
}
"""For each kind of fault: what is wrong with the entries, and what the user can do about it."""


class Fault(NamedTuple):
    """Entries of one column that are not finite numbers."""

    column: str
    """The column as messages name it, such as "column 'age'"."""
    kind: str
    """One of the keys of `REMEDIES`."""
    rows: np.ndarray
    """The numbers of the rows with such entries, counted from 0."""
    example: Any = None
    """The first of these entries; None if a message gains nothing from it."""


class RowError(ValueError):
    """An error about one row, which a reader of files can raise again with the line of the file.

    `text` is the message without the number of the row, and `row` that number, counted from 0.
    """

    def __init__(self, text: str, row: int) -> None:
        super().__init__(f"{text} in row {row}; rows are counted from 0.")
        self.text, self.row = text, row


def as_floats(column: Any, label: str) -> tuple[np.ndarray, list[Fault]]:
    """Convert a column of one dimension to floats.

    Args:
        column: an array, a list or a pandas Series.
        label: the column as messages name it, such as "column 'age'".

    Returns:
        The floats, which are nan where an entry is not a number, and the faults of the column.
    """
    entries = np.asarray(column)
    if _has_dates(column):
        return np.full(len(entries), np.nan), [Fault(label, "dates", np.arange(len(entries)))]
    values = entries if entries.dtype.kind in REAL_KINDS else _parsed(entries)
    values = values.astype(float, copy=False)
    is_missing = pd.isna(entries)
    missing = np.flatnonzero(is_missing | np.isinf(values))
    faults = [Fault(label, "missing", missing)] if len(missing) else []
    text = np.flatnonzero(np.isnan(values) & ~is_missing)
    if len(text):
        faults.append(Fault(label, "text", text, entries[text[:1]].tolist()[0]))
    return values, faults


def _has_dates(column: Any) -> bool:
    """Whether a column contains dates, times or durations."""
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    if kind != "O":
        return kind in "mM"
    return any(isinstance(entry, DATE_TYPES) and entry is not pd.NaT for entry in column)


def _parsed(entries: np.ndarray) -> np.ndarray:
    """Entries as floats, nan where one is not a number.

    Python reads the text, to the nearest float; the reader of pandas may be off by the last bit.
    """
    found = pd.to_numeric(pd.Series(entries, dtype=object), errors="coerce")
    values = np.full(len(entries), np.nan)
    if found.dtype.kind in REAL_KINDS:  # complex numbers are not
        is_number = found.notna().to_numpy()
        values[is_number] = [float(entry) for entry in entries[is_number]]
    return values


def array_of_floats(
    array: np.ndarray, name: str, owner: str = ""
) -> tuple[np.ndarray, list[Fault]]:
    """Convert an array with one entry per row along its first axis to numbers.

    Args:
        array: of any number of dimensions, at least one.
        name: the name of the array; messages call its columns name[:, 0], name[:, 1], ...
        owner: what messages add to the name of a column, such as " of site 'north'".

    Returns:
        The array itself if it has finite numbers only, or else floats; and the faults.
    """
    if array.dtype.kind in REAL_KINDS and np.isfinite(array).all():
        return array, []
    values, faults = np.empty(array.shape), []
    for index in itertools.product(*map(range, array.shape[1:])):
        column: tuple[Any, ...] = (slice(None), *index)
        label = f"{name}[:, {', '.join(map(str, index))}]" if index else name
        values[column], own = as_floats(array[column], f"column {label!r}{owner}")
        faults += own
    return values, faults


def table_of_floats(table: pd.DataFrame) -> tuple[np.ndarray, list[Fault]]:
    """Convert a table to one array (row, column) of floats, beside the faults of its columns."""
    found = [as_floats(column, f"column {str(name)!r}") for name, column in table.items()]
    return np.stack([values for values, _ in found], 1), [f for _, own in found for f in own]


class RowNumbers(NamedTuple):
    """Some rows, numbered as the user sees them."""

    unit: str
    """"line" for lines of a file, counted from 1, or "row" for rows, counted from 0."""
    numbers: Sequence[int]
    """One number for each of the rows."""

    def as_text(self) -> list[str]:
        """Each row in words, such as "line 5"."""
        return [f"{self.unit} {number}" for number in self.numbers]

    @property
    def note(self) -> str:
        """A sentence on how rows are counted; empty for lines of a file, as editors count them."""
        return " Rows are counted from 0." if self.unit == "row" else ""


def numbered_from_zero(rows: np.ndarray) -> RowNumbers:
    """Rows of data that a user gave in Python, where counting begins at 0."""
    return RowNumbers("row", rows.tolist())


def faults_as_text(
    faults: Sequence[Fault], find: Callable[[np.ndarray], RowNumbers] = numbered_from_zero
) -> str:
    """All faults in sentences that follow "... has ", one sentence for each kind.

    Args:
        faults: at least one.
        find: from the numbers of rows, counted from 0, to the numbers that the user sees.
    """
    first_rows = find(np.array([fault.rows[0] for fault in faults]))
    sentences = []
    for kind, (what, remedy) in REMEDIES.items():
        pairs = zip(faults, first_rows.as_text(), strict=True)
        texts = [_fault_as_text(fault, row) for fault, row in pairs if fault.kind == kind]
        more = [f"{len(texts) - MOST_COLUMNS} more columns"] if len(texts) > MOST_COLUMNS else []
        named = ", ".join(texts[:MOST_COLUMNS] + more)
        sentences += [f"{what}: {named}; {remedy}."] if texts else []
    return " It has ".join(sentences) + first_rows.note


def _fault_as_text(fault: Fault, first_row: str) -> str:
    """The column, the number of rows, an example and the first row of a fault."""
    example = "" if fault.example is None else f"{reprlib.repr(fault.example)} in "
    return f"{fault.column} in {rows_as_text(len(fault.rows), example + first_row)}"


def rows_as_text(count: int, first: str) -> str:
    """A number of rows and the first of them: "3 rows (first: line 5)" or "1 row (line 5)"."""
    return f"1 row ({first})" if count == 1 else f"{count} rows (first: {first})"


def check_same_index(columns: Mapping[str, Any]) -> None:
    """Refuse pandas objects with different indexes: rows would be matched by position.

    Args:
        columns: by the names that messages have for them.
    """
    indexed = {
        name: column.index
        for name, column in columns.items()
        if isinstance(column, (pd.Series, pd.DataFrame))
    }
    first = next(iter(indexed), "")
    for name, index in indexed.items():
        if len(index) == len(indexed[first]) and not index.equals(indexed[first]):
            row = int(np.argmax(np.asarray(index) != np.asarray(indexed[first])))
            one, other = (labels[row : row + 1].tolist()[0] for labels in (indexed[first], index))
            raise ValueError(
                f"{first} and {name} have different pandas indexes: {one!r} and {other!r} in row "
                f"{row}, counted from 0. Align them, for example with `.reindex`, or pass "
                "`.to_numpy()` to match rows by position."
            )
