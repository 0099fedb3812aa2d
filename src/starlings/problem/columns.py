"""Columns as finite numbers. All that is wrong with the columns of a table is told at once."""

from __future__ import annotations

import datetime
import itertools
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

NUMBERS = "fiub"
"""The kinds of NumPy's types that are real numbers."""
DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64, pd.Period)
MOST_TOLD = 30
"""Columns that are named; of more, the number is told."""
KINDS = {
    "missing": ("missing or infinite values", "drop or impute those rows"),
    "text": ("entries that are not numbers", "correct them, or code them as numbers"),
    "dates": (
        "dates or times, which are no numbers",
        "convert them to numbers with a unit, such as days since a date: "
        "`(column - start) / pd.Timedelta(days=1)`",
    ),
}
"""What can be wrong with entries of a column, and what to do about it."""


class Fault(NamedTuple):
    """Entries of one column that are no finite numbers."""

    column: str
    """As it is told, such as "column 'age'"."""
    kind: str
    """One of `KINDS`."""
    rows: np.ndarray
    """Where, counted from 0."""
    example: Any = None
    """The first entry, where it is worth telling."""


class RowError(ValueError):
    """One row is at fault; `row` counts from 0, and the message ends before it is named."""

    def __init__(self, text: str, row: int) -> None:
        super().__init__(f"{text} in row {row}; rows are counted from 0.")
        self.text, self.row = text, row


def as_floats(column: Any, told: str) -> tuple[np.ndarray, list[Fault]]:
    """A column of one dimension as floats, nan where an entry is none, and its faults."""
    entries = np.asarray(column)
    if _is_dates(column):
        return np.full(len(entries), np.nan), [Fault(told, "dates", np.arange(len(entries)))]
    values = entries if entries.dtype.kind in NUMBERS else _read_as_numbers(entries)
    values = values.astype(float, copy=False)
    is_missing = pd.isna(entries)
    missing = np.flatnonzero(is_missing | np.isinf(values))
    faults = [Fault(told, "missing", missing)] if len(missing) else []
    text = np.flatnonzero(np.isnan(values) & ~is_missing)
    if len(text):
        faults.append(Fault(told, "text", text, entries[text[:1]].tolist()[0]))
    return values, faults


def _is_dates(column: Any) -> bool:
    kind = getattr(getattr(column, "dtype", None), "kind", "O")
    if kind != "O":
        return kind in "mM"
    return any(isinstance(entry, DATES) and entry is not pd.NaT for entry in column)


def _read_as_numbers(entries: np.ndarray) -> np.ndarray:
    """Text that reads as a number is one, to the last bit as it was written."""
    found = pd.to_numeric(pd.Series(entries, dtype=object), errors="coerce")
    values = np.full(len(entries), np.nan)
    if found.dtype.kind in NUMBERS:  # and not complex
        is_number = found.notna().to_numpy()
        values[is_number] = [float(entry) for entry in entries[is_number]]
    return values


def numbers_in(array: np.ndarray, name: str, owner: str = "") -> tuple[np.ndarray, list[Fault]]:
    """An array of rows as finite numbers, and its faults by column: name[:, 0], name[:, 1], ..."""
    if array.dtype.kind in NUMBERS and np.isfinite(array).all():
        return array, []
    values, faults = np.empty(array.shape), []
    for place in itertools.product(*map(range, array.shape[1:])):
        column: tuple[Any, ...] = (slice(None), *place)
        told = f"{name}[:, {', '.join(map(str, place))}]" if place else name
        values[column], own = as_floats(array[column], f"column {told!r}{owner}")
        faults += own
    return values, faults


def table_of_floats(table: pd.DataFrame) -> tuple[np.ndarray, list[Fault]]:
    """A table as one array of floats, and the faults of its columns."""
    found = [as_floats(column, f"column {str(name)!r}") for name, column in table.items()]
    return np.stack([values for values, _ in found], 1), [f for _, own in found for f in own]


class Places(NamedTuple):
    """Where some rows are, as users count."""

    unit: str
    """"line" of a file, from 1, or "row", from 0."""
    numbers: Sequence[int]

    def described(self) -> list[str]:
        """Such as "line 5"."""
        return [f"{self.unit} {number}" for number in self.numbers]

    @property
    def note(self) -> str:
        """How rows are counted, where that has to be said."""
        return " Rows are counted from 0." if self.unit == "row" else ""


def as_rows(rows: np.ndarray) -> Places:
    """Rows of what was given in Python."""
    return Places("row", rows.tolist())


def described(faults: Sequence[Fault], find: Callable[[np.ndarray], Places] = as_rows) -> str:
    """All faults, at least one, in words; `find` says where rows are."""
    places = find(np.array([fault.rows[0] for fault in faults]))
    sentences = []
    for kind, (what, remedy) in KINDS.items():
        pairs = zip(faults, places.described(), strict=True)
        told = [_one_fault(fault, place) for fault, place in pairs if fault.kind == kind]
        more = [f"{len(told) - MOST_TOLD} more columns"] if len(told) > MOST_TOLD else []
        sentences += [f"{what}: {', '.join(told[:MOST_TOLD] + more)}; {remedy}."] if told else []
    return " It has ".join(sentences) + places.note


def _one_fault(fault: Fault, place: str) -> str:
    example = "" if fault.example is None else f"{reprlib.repr(fault.example)} in "
    return f"{fault.column} in {counted(len(fault.rows), example + place)}"


def counted(rows: int, first: str) -> str:
    """Such as "3 rows (first: line 5)" or "1 row (line 5)"."""
    return f"1 row ({first})" if rows == 1 else f"{rows} rows (first: {first})"


def check_same_index(columns: Mapping[str, Any]) -> None:
    """Refuse pandas objects with different indexes: rows would be matched by position."""
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
