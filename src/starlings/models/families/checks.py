"""Checks of the columns of a regression, whose errors say which row is wrong and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from starlings.problem.columns import RowError, as_floats, faults_as_text

OPTIONAL = {"trials": "binomial", "event": "weibull or piecewise_exponential"}
"""Columns that only some families have, with the names of these."""
IN_FORMULAS = {
    "trials": ' In a formula write "successes / trials ~ ...", or name it in `trials`.',
    "event": ' In a formula write "survival(time, event) ~ ...".',
}
"""How a formula names these columns."""


def check_columns(
    family: str, needed: Sequence[str], columns: Mapping[str, Any], called: Mapping[str, str]
) -> None:
    """Refuse columns that are missing, that mean nothing to a family, or are no finite numbers.

    Args:
        family: its name.
        needed: the columns that it needs beside `x` and `y`.
        columns: those that there are.
        called: what messages call each of them.
    """
    for name in needed:
        if name not in columns:
            raise ValueError(
                f"the family {family!r} needs a column `{name}` for its rows, got {list(columns)}."
                f"{IN_FORMULAS.get(name, '')}"
            )
    for name, families in OPTIONAL.items():
        if name in columns and name not in needed:
            raise ValueError(
                f"`{called[name]}` is for the family {families}, not for {family!r}; leave it out, "
                "or take that family."
            )
    for name in ("y", "offset", "weight", "trials", "event"):
        if name in columns:
            _check_numbers(columns[name], called[name])
    if "weight" in columns:
        weight = np.asarray(columns["weight"], float)
        check_rows(weight, weight >= 0, called["weight"], "0 or positive; leave the row out")


def check_rows(values: np.ndarray, valid: np.ndarray, name: str, wanted: str) -> None:
    """Refuse values of which some row is not `valid`.

    Args:
        values: one for each row.
        valid: whether each is as it has to be.
        name: what messages call the values.
        wanted: what they must be, in words; after a semicolon, why or what can be done.
    """
    if not np.all(valid):
        row = int(np.argmin(valid))
        must, _, remedy = wanted.partition("; ")
        whole = f"{must} ({remedy})" if remedy else must
        raise RowError(f"`{name}` must be {whole}, got {values[row]:g}", row)


def check_counts(values: np.ndarray, name: str) -> None:
    """Refuse values that are not 0, 1, 2, ..."""
    valid = (values >= 0) & (values == np.round(values))
    check_rows(values, valid, name, "a count (0, 1, 2, ...)")


def check_zero_or_one(values: np.ndarray, name: str, meaning: str = "") -> None:
    """Refuse values that are not 0 or 1.

    Args:
        values: one for each row.
        name: what messages call the values.
        meaning: what 0 and 1 stand for, if that is not plain.
    """
    check_rows(values, np.isin(values, (0, 1)), name, f"0 or 1; {meaning}" if meaning else "0 or 1")


def check_times(columns: Mapping[str, np.ndarray], called: Mapping[str, str]) -> None:
    """Refuse times that are not positive, and events that are not 0 or 1."""
    remedy = "a row at time 0 has not been observed: leave it out, or give half a unit of time"
    check_rows(columns["y"], columns["y"] > 0, called["y"], f"a positive time; {remedy}")
    meaning = "1 where the event happened at that time, 0 where the row was last seen without it"
    check_zero_or_one(columns["event"], called["event"], meaning)


def _check_numbers(column: Any, name: str) -> None:
    faults = as_floats(column, f"column {name!r}")[1]
    if faults:
        raise ValueError(f"`{name}` has {faults_as_text(faults)}")
    if np.asarray(column).dtype.kind not in "fiub":
        raise ValueError(f"`{name}` must be numbers, got numbers as text; convert the column.")
