"""Tables of rows as people have them: which entries are numbers, categories, dates, or missing.

`checked_table` is the one place where a table of a user comes in. An entry counts as missing if it
is None, NaN, NaT, pandas' NA, or text without a character. Truth values are the numbers 0 and 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from starlings.errors import FormulaError, nearest
from starlings.problem import tables as problem_tables
from starlings.problem.columns import DATE_TYPES

KINDS = (
    *("numbers", "numbers written as text", "entries of text", "dates or times", "categories"),
    "entries that are neither numbers nor text",
)
"""What entries can be; categories are those of a column that pandas calls so."""
NUMBERS, WRITTEN, TEXT, DATES, CATEGORIES, OTHER = range(len(KINDS))
DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?")
"""Text that is a date."""
WHOLE = re.compile(r"-?(0|[1-9][0-9]*)\.0+")
"""A whole number with a decimal part of zeros, which a label loses."""


@dataclass(frozen=True)
class Entries:
    """The entries of a column, each as what it is."""

    kinds: np.ndarray
    """The place of each entry's kind in `KINDS`; -1 for a missing one, (row,)."""
    numbers: np.ndarray
    """Entries that are numbers as such; nan for all others, (row,)."""
    codes: np.ndarray
    """For each entry the place of its value in `unique`; -1 for a missing one, (row,)."""
    unique: Any
    """All values that occur."""

    @cached_property
    def labels(self) -> np.ndarray:
        """All entries as text, (row,); that of a missing one is empty."""
        return np.array([*map(label_of, self.unique), ""], object)[self.codes]


def checked_table(data: Any) -> pd.DataFrame:
    """A table of a user as a pandas table, whose rows are numbered from 0."""
    try:
        table = problem_tables.as_table(data)
    except ValueError as error:
        raise ValueError(f"`data` cannot be made a table: {error}.") from None
    names = [str(name) for name in table.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"`data` has more than one column {', '.join(map(repr, twice))}.")
    return table.set_axis(names, axis=1).reset_index(drop=True)


def check_columns(table: pd.DataFrame, columns: Sequence[str], where: str = "") -> None:
    """Refuse columns that a table does not have."""
    for name in columns:
        if name not in table.columns:
            known = list(table.columns)
            raise FormulaError(
                f"`data`{where} has no column {name!r}; it has {known}.{nearest(name, known)}"
            )


def entries_of(column: Any) -> Entries:
    """What the entries of a column are."""
    series = pd.Series(column)
    is_category = isinstance(series.dtype, pd.CategoricalDtype)
    if is_category:
        series = series.astype(object)
    if series.dtype.kind in "fiu" and not is_category:
        return _of_numbers(series)
    unique: Any
    try:
        codes, unique = pd.factorize(series)  # missing entries have the code -1
    except TypeError:  # entries such as lists
        codes, unique = np.zeros(len(series), int), [()]
    found = [_kind_of(entry) for entry in unique]
    kinds = [CATEGORIES if is_category and kind >= 0 else kind for kind in found]
    numbers = [float(e) if k == NUMBERS else np.nan for e, k in zip(unique, found, strict=True)]
    return Entries(
        np.array([*kinds, -1], int)[codes],
        np.array([*numbers, np.nan], float)[codes],
        codes,
        list(unique),
    )


def _of_numbers(series: pd.Series) -> Entries:
    """Those of a column of numbers."""
    values = series.to_numpy(float, na_value=np.nan)
    codes, unique = pd.factorize(values)
    return Entries(np.where(np.isnan(values), -1, NUMBERS), values, codes, unique)


def label_of(entry: Any) -> str:
    """An entry as the name of a level: whole numbers without a fraction, text without margins."""
    if isinstance(entry, bool | np.bool_):
        return str(bool(entry))
    text = str(entry).strip()
    return text.partition(".")[0] if WHOLE.fullmatch(text) else text


def _kind_of(entry: Any) -> int:
    """The place in `KINDS` of what an entry is; -1 if it is missing."""
    if isinstance(entry, DATE_TYPES):
        return DATES
    if isinstance(entry, bool | np.bool_ | int | float | np.number):
        return NUMBERS
    if not isinstance(entry, str):
        return OTHER
    text = entry.strip()
    if not text:
        return -1
    if DATE.fullmatch(text):
        return DATES
    return WRITTEN if _is_number(text) else TEXT


def _is_number(text: str) -> bool:
    """Whether a text is a number, perhaps with a decimal comma or commas between thousands."""
    try:
        float(text.replace(",", ""))
    except ValueError:
        return False
    return True
