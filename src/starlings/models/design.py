"""The checked rows of a regression: covariates, outcomes and sites."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from starlings.errors import ConstantColumnWarning
from starlings.problem.columns import (
    array_of_floats,
    as_floats,
    check_same_index,
    faults_as_text,
    table_of_floats,
)
from starlings.problem.tables import as_column, as_table, is_table


@dataclass(frozen=True)
class Design:
    """The checked rows of a regression, as finite numbers."""

    x: np.ndarray
    """Covariates, (row, column), with the column of ones of an intercept if there is one."""
    y: np.ndarray
    """Outcomes, (row,)."""
    sites: Sequence[Any]
    """The label of the site of every row."""
    labels: tuple[str, ...] | None
    """The names of the columns of x; None if they have no names."""

    @classmethod
    def of(cls, X: Any, y: Any, sites: Sequence[Any], intercept: bool) -> Design:
        """Check the rows of a regression, and convert them to numbers.

        Args:
            X: covariates (row, column), an array or a table of pandas, Polars, Arrow or DuckDB.
            y: one outcome for each row.
            sites: the label of the site of each row.
            intercept: whether to put a column of ones before those of `X`.
        """
        sites = as_column(sites)
        x, outcome, labels = _numbers(X, y, sites, intercept)
        if not intercept:
            return cls(x, outcome, sites, labels)
        labels = ("intercept", *(labels or (f"x{k}" for k in range(x.shape[1]))))
        for label in [labels[1 + k] for k in np.flatnonzero(np.ptp(x, axis=0) == 0)]:
            warnings.warn(
                f"column {label!r} of `X` is constant, like the intercept: the data cannot "
                "distinguish them. Leave the column out, or take intercept=False.",
                ConstantColumnWarning,
                stacklevel=4,  # the caller of the regression
            )
        _check_different(labels)
        return cls(np.column_stack([np.ones(len(x)), x]), outcome, sites, labels)


def _numbers(
    X: Any, y: Any, sites: Any, intercept: bool
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...] | None]:
    """X and y as floats, and the names of the columns of X if it is a table, or else None."""
    X, y = as_table(X, "X") if is_table(X) else X, as_column(y)
    try:
        table, shape = X if isinstance(X, pd.DataFrame) else np.asarray(X), np.shape(y)
    except ValueError:
        raise ValueError(
            "`X` or `y` has rows of different lengths; give every row the same number of entries."
        ) from None
    if table.ndim != 2:
        raise ValueError(f"`X` must be a table of rows and columns, got shape {table.shape}.")
    if table.shape[1] == 0 and not intercept:
        raise ValueError("`X` has no columns; a regression needs at least one, or an intercept.")
    if shape != (len(table),):
        raise ValueError(
            f"`y` must have one outcome for each of the {len(table)} rows of `X`, "
            f"got shape {shape}."
        )
    check_same_index({"`X`": X, "`y`": y, "`sites`": sites})
    labels = _labels(X)
    if isinstance(table, pd.DataFrame):
        x, faults = table_of_floats(table)
    else:
        x, faults = array_of_floats(table, "X")
    outcome, own = as_floats(y, "column 'y'")
    if faults or own:
        names = [name for name, found in (("`X`", faults), ("`y`", own)) if found]
        raise ValueError(f"{' or '.join(names)} has {faults_as_text(faults + own)}")
    return x.astype(float, copy=False), outcome, labels


def _labels(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a table, which have to be different; None if X is no table."""
    labels = tuple(str(column) for column in getattr(X, "columns", ()))
    _check_different(labels)
    return labels or None


def _check_different(labels: tuple[str, ...]) -> None:
    """Refuse names that two columns have."""
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(
            f"`X` has more than one column {', '.join(map(repr, twice))}; rename them."
        )
