"""The encoding of a formula: everything that makes the same columns of any rows, without any row.

Levels, reference levels, knots, means and whatever else was agreed by the sites is in it. It can be
kept as JSON, and is in every result of a regression:

    encoding = Encoding.of(result)  # or of a problem
    print(encoding)
    X = encoding.design(new_rows)

It is in `json.loads(result.attrs["model"])["regression"]["encoding"]`, as `from_json` takes it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd

from starlings.errors import FormulaError, first_of
from starlings.formulas.design import check_labels, design_of
from starlings.formulas.expressions import Call, Expression
from starlings.formulas.parsing import Terms
from starlings.formulas.tables import (
    KINDS,
    NUMBERS,
    Entries,
    check_columns,
    checked_table,
    entries_of,
)
from starlings.formulas.transforms import applied
from starlings.problem.columns import RowError

INTERCEPT = "Intercept"
"""The name of the column of ones."""
NUMBER, CATEGORY = "number", "category"
"""The kinds of columns."""


@dataclass(frozen=True)
class Encoding:
    """How rows become numbers, the same at all sites."""

    formula: str
    """The right side of the formula."""
    outcome: str
    """The expression of the outcome: a column, or arithmetic of columns."""
    random: str | None = None
    """What varies from site to site, such as "1 + age"; None if nothing does."""
    offset: str | None = None
    weights: str | None = None
    trials: str | None = None
    event: str | None = None
    """The columns of these names; None where there is none."""
    is_correlated: bool = True
    """Whether what varies from site to site is correlated."""
    has_intercept: bool = True
    """Whether X may have an intercept; some families have one of their own."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """By column of the table: "number" or "category"."""
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By column of categories: its levels; the first one is the reference."""
    transforms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By call, such as "bs(stay, df=4)": what it remembers of the rows."""
    labels: tuple[str, ...] = ()
    """The names of the columns of X, and of the entries of `beta`."""
    random_labels: tuple[str, ...] = ()
    """The names of the columns of the random part."""
    means: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()
    """Mean and standard deviation of each column of X over the rows of all sites."""
    random_scales: tuple[float, ...] = ()
    """The standard deviation of each column of the random part."""
    outcome_mean: float = 0.0
    outcome_scale: float = 0.0
    """The same of the outcome."""
    offset_mean: float = 0.0
    """The mean of the offsets, in units of the predictor; 0 without any."""
    rows: int = 0
    """The rows of all sites that are used."""
    dropped: int = 0
    """The rows of all sites that are not, because of a missing entry."""
    missing: Mapping[str, int] = field(default_factory=dict)
    """The missing entries of all sites, by column."""

    @classmethod
    def of(cls, made: Any) -> Encoding:
        """The encoding of a problem that `starlings.regression` has made, or of its result."""
        about = made.description if hasattr(made, "description") else _model_of(made)
        found = about.get("regression", {}).get("encoding")
        if found is None:
            raise ValueError("there is no formula, and so no encoding, in this problem or result.")
        return cls.from_json(found)

    def as_json(self) -> dict[str, Any]:
        """This encoding in types that JSON has."""
        found = asdict(self)
        found["levels"] = {name: list(levels) for name, levels in self.levels.items()}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Encoding:
        """The encoding that `as_json` has described."""
        known = {each.name for each in fields(cls)}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in found.items()
            if name in known
        }
        values["levels"] = {name: tuple(levels) for name, levels in found["levels"].items()}
        return cls(**values)

    def design(self, table: Any) -> np.ndarray:
        """The columns of X of the rows of a table, (row, column); their names are `labels`."""
        return self._matrix(self.formula, table, self.labels)

    def random_design(self, table: Any) -> np.ndarray:
        """The columns of the random part, (row, column); their names are `random_labels`."""
        return self._matrix(self.random or "0", table, self.random_labels)

    def columns(self, table: Any) -> dict[str, np.ndarray]:
        """The columns of a shard: x and y, and offset, weight, trials, event and r if used."""
        found = checked_table(table)
        return {"x": self.design(found), "y": self.outcomes(found), **self.further(found)}

    def outcomes(self, table: Any) -> np.ndarray:
        """The outcome in each row; a category is the place of its level, from 0."""
        expression = Expression.of(self.outcome)
        value = self._value(expression, checked_table(table))
        return np.asarray(value[0].codes if isinstance(value, tuple) else value, float)

    def further(self, table: Any) -> dict[str, np.ndarray]:
        """The columns of a shard besides x and y, where they are used; without an outcome."""
        names = {"offset": self.offset, "weight": self.weights}
        names |= {"trials": self.trials, "event": self.event}
        named = {name: column for name, column in names.items() if column is not None}
        rows = checked_table(table)
        check_columns(rows, list(named.values()))
        found = {name: _numbers(rows[column], column) for name, column in named.items()}
        return found if self.random is None else {**found, "r": self.random_design(table)}

    def _matrix(self, text: str, table: Any, labels: tuple[str, ...]) -> np.ndarray:
        matrix, found = self.labelled(text, table)
        check_labels(found, labels)
        return matrix

    def labelled(self, text: str, table: Any) -> tuple[np.ndarray, tuple[str, ...]]:
        """The columns of a right side, and their names."""
        terms, rows = _terms(text), checked_table(table)
        values = {name: self._value(each, rows) for name, each in terms.factors.items()}
        matrix, labels = design_of(terms, values, len(rows))
        if self.has_intercept or text != self.formula or INTERCEPT not in labels:
            return matrix, labels
        place = labels.index(INTERCEPT)
        return np.delete(matrix, place, axis=1), labels[:place] + labels[place + 1 :]

    def _value(self, expression: Expression, table: pd.DataFrame) -> Any:
        """The value of a factor, or of the outcome, as `design_of` takes it."""
        check_columns(table, expression.columns)
        name = expression.columns[0] if expression.columns else ""
        is_category = expression.is_column and self.kinds.get(name) == CATEGORY
        if expression.category is not None or is_category:
            return self._categories(table[name], name), expression.category
        return self.numbers_of(expression, table)

    def numbers_of(self, expression: Expression, table: pd.DataFrame) -> Any:
        """The value of an expression in each row of a table: finite numbers (row,), or several."""
        columns = {name: _numbers(table[name], name) for name in expression.columns}
        value = expression.value(columns, self.apply)
        if isinstance(value, dict):
            return value
        if not (is_finite := np.isfinite(value)).all():
            row = int(np.argmin(is_finite))
            raise RowError(f"`{expression.text}` is {np.ravel(value)[row]}", row)
        return np.broadcast_to(value, (len(table),))

    def apply(self, call: Call, value: np.ndarray) -> Any:
        """The value of a call with a memory."""
        return applied(call, self.transforms[call.key], value)

    def _categories(self, column: Any, name: str) -> pd.Categorical:
        """A column as categories with the levels of this encoding."""
        entries = _complete(column, name)
        found = pd.Categorical(entries.labels, categories=list(self.levels[name]))
        if (unknown := found.codes < 0).any():
            names = sorted(set(entries.labels[unknown].tolist()))
            raise FormulaError(
                f"column {name!r} has {first_of(names)}, and its levels are "
                f"{first_of(self.levels[name])}: correct these entries, or declare them too, in "
                "`levels`."
            )
        return found

    def __str__(self) -> str:
        """A few lines that say what was agreed."""
        lines = [
            f"{self.outcome} ~ {self.formula}",
            f"{self.rows:,} rows, {self.dropped:,} more dropped; {len(self.labels)} columns: "
            f"{first_of(self.labels)}",
        ]
        for name, levels in self.levels.items():
            lines.append(f"{name}: {len(levels)} levels, {first_of(levels)}; the first: reference")
        for call, state in self.transforms.items():
            lines.append(f"{call}: " + ", ".join(f"{k} {_short(v)}" for k, v in state.items()))
        gaps = {name: count for name, count in self.missing.items() if count}
        lines.append(
            "missing entries: " + (", ".join(f"{k} {v:,}" for k, v in gaps.items()) or "none")
        )
        return "\n".join(lines)


def _model_of(result: Any) -> dict[str, Any]:
    """What a result says of its model."""
    return json.loads(result.attrs.get("model", "{}"))


def _numbers(column: Any, name: str) -> np.ndarray:
    """A column as finite numbers; anything else is an error."""
    entries = _complete(column, name)
    wrong = entries.kinds != NUMBERS
    if wrong.any():
        row = int(np.argmax(wrong))
        raise RowError(f"column {name!r} has {KINDS[entries.kinds[row]]}, and not numbers", row)
    infinite = np.isinf(entries.numbers)
    if infinite.any():
        raise RowError(f"column {name!r} is infinite", int(np.argmax(infinite)))
    return entries.numbers


def _complete(column: Any, name: str) -> Entries:
    """The entries of a column; a missing one is an error."""
    entries = entries_of(column)
    missing = entries.kinds < 0
    if missing.any():
        raise RowError(f"column {name!r} has a missing entry", int(np.argmax(missing)))
    return entries


@functools.lru_cache(maxsize=64)
def _terms(text: str) -> Terms:
    return Terms(text)


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_short, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
