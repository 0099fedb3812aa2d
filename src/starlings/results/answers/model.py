"""The regression that a result is of: how new rows become numbers, and the family of its outcomes.

Everything is in the attributes of the result, so that nobody needs a row of the data to predict.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from starlings.errors import nearest
from starlings.results.groups import model_record

if TYPE_CHECKING:
    from starlings.models.families import Family

COEFFICIENTS = "beta"
"""The name of the coefficients of a regression."""
STANDARDISED = "beta_standardised"
"""The coefficients of the rows as their sites have them, if a study has standardised these; `beta`
is then of the original columns."""
PLAIN_INTERCEPT = "intercept"
"""The label of the column of ones of the regressions of `starlings.models`."""
OLD_NAMES = {
    "Bernoulli": "logistic",
    "Poisson": "poisson",
    "Normal": "gaussian",
    "StudentT": "student_t",
}
"""Families by what results of the regressions of `starlings.models` call their outcome."""
ROW_COLUMNS = ("offset", "trials")
"""What a family reads of a new row beside `x`."""


@dataclass(frozen=True)
class DesignRows:
    """Some rows as numbers."""

    x: np.ndarray
    """The columns whose coefficients are `beta`, (row, column)."""
    columns: Mapping[str, np.ndarray]
    """What the family reads beside `x`, such as `offset`, `trials` and `weight`, each (row,)."""

    def part(self, rows: slice) -> DesignRows:
        """Some of these rows."""
        return DesignRows(
            self.x[rows], {name: column[rows] for name, column in self.columns.items()}
        )


class RegressionModel(ABC):
    """How a table of new rows becomes numbers, and what is said of its outcomes."""

    @property
    @abstractmethod
    def family(self) -> Family:
        """The distribution of the outcomes."""

    @abstractmethod
    def rows(self, table: pd.DataFrame) -> DesignRows:
        """The rows of a table as numbers."""

    @property
    @abstractmethod
    def levels(self) -> Mapping[str, Sequence[str]]:
        """The levels of every categorical column, the reference first."""

    @property
    @abstractmethod
    def variables(self) -> list[str]:
        """The columns that new rows need for the predictor."""

    def scale_of(self, variable: str) -> float:
        """About the standard deviation of a numerical column; 1 where it is not known."""
        return 1.0


@dataclass(frozen=True)
class FormulaModel(RegressionModel):
    """A regression with a formula."""

    record: Mapping[str, Any]
    """The entry `regression` of what a result says of its model."""

    @cached_property
    def encoding(self) -> Any:
        """How columns of a table become columns of the design."""
        from starlings.formulas import Encoding

        return Encoding.from_json(self.record["encoding"])

    @cached_property
    def family(self) -> Family:
        """The distribution of the outcomes."""
        from starlings.models.families import family_of  # it imports JAX

        return family_of(self.record["family"], **self.record.get("family_settings", {}))

    @property
    def levels(self) -> Mapping[str, Sequence[str]]:
        """The levels of every categorical column of the formula."""
        return self.encoding.levels

    @cached_property
    def variables(self) -> list[str]:
        """The columns of the formula and of its random part."""
        from starlings.formulas.parsing import Terms

        parts = [Terms(text) for text in (self.encoding.formula, self.encoding.random) if text]
        names = [n for part in parts for each in part.factors.values() for n in each.columns]
        return list(dict.fromkeys(names))

    def scale_of(self, variable: str) -> float:
        """The standard deviation of a column over the rows of all sites, if it is one of X."""
        known = dict(zip(self.encoding.labels, self.encoding.scales, strict=False))
        return known.get(variable, 0.0) or 1.0

    def rows(self, table: pd.DataFrame) -> DesignRows:
        """The columns of the formula, with the levels and knots of the study."""
        encoding = self.encoding
        check_present(table, self.variables)
        columns = {"trials": np.ones(len(table))}  # of a binomial outcome: its probability
        for name, column in (("offset", encoding.offset), ("trials", encoding.trials)):
            if column is not None and (name == "offset" or column in table.columns):
                check_columns(table, [column])
                columns[name] = table[column].to_numpy(float)
        if encoding.random is not None:
            columns["r"] = encoding.random_design(table)
        return DesignRows(encoding.design(table), columns)


@dataclass(frozen=True)
class PlainModel(RegressionModel):
    """A regression of `starlings.models` or of a study: the columns of X by their names."""

    record: Mapping[str, Any]
    """What a result says of its model."""
    labels: tuple[str, ...]
    """The names of the entries of beta."""

    @cached_property
    def family(self) -> Family:
        """The distribution of the outcomes."""
        return plain_family(self.record)

    @property
    def levels(self) -> Mapping[str, Sequence[str]]:
        """No columns are categorical."""
        return {}

    @property
    def variables(self) -> list[str]:
        """The names of the covariates."""
        return [label for label in self.labels if label != PLAIN_INTERCEPT]

    def rows(self, table: pd.DataFrame) -> DesignRows:
        """The columns of X, with ones for the intercept."""
        check_columns(table, self.variables)
        ones = pd.Series(1.0, table.index)
        parts = [ones if name == PLAIN_INTERCEPT else table[name] for name in self.labels]
        own = [name for name in ROW_COLUMNS if name in table.columns]
        check_columns(table, own)
        columns = {"trials": np.ones(len(table))}  # of a binomial outcome: its probability
        columns |= {name: table[name].to_numpy(float) for name in own}
        return DesignRows(np.column_stack([np.asarray(part, float) for part in parts]), columns)


def regression_of(attrs: Mapping[str, Any], posterior: xr.Dataset) -> RegressionModel:
    """Return the regression of a result, or say that there is none."""
    record = model_record(attrs)
    if "regression" in record:
        return FormulaModel(record["regression"])
    if record.get("kind") == "regression" and COEFFICIENTS in posterior:
        labels = posterior[COEFFICIENTS][posterior[COEFFICIENTS].dims[3]].values
        return PlainModel(record, tuple(map(str, labels)))
    raise ValueError(
        "this result is not of a regression of starlings, and does not say how a row becomes a "
        "prediction. Take `starlings.regression`, or compute predictions from `result.posterior`."
    )


def plain_family(record: Mapping[str, Any]) -> Family:
    """The family of a regression without a formula, from what its result says of the model."""
    from starlings.models.families import FAMILIES, family_of  # it imports JAX

    name = OLD_NAMES.get(record["outcome"], record["outcome"])
    settings = [field.name for field in dataclasses.fields(FAMILIES[name])]
    return family_of(name, **{key: record[key] for key in settings if key in record})


def family_in(attrs: Mapping[str, Any]) -> Family | None:
    """The family of the regression of a result; None if it is of another model."""
    record = model_record(attrs)
    if "regression" in record:
        return FormulaModel(record["regression"]).family
    return plain_family(record) if record.get("kind") == "regression" else None


def table_of_rows(rows: Any, name: str) -> pd.DataFrame:
    """Return rows as a table of pandas.

    Args:
        rows: a table of pandas, Polars, Arrow or DuckDB, or a mapping of column names to values;
            with single values in all columns it is one row.
        name: the argument, for messages.
    """
    from starlings.problem.tables import as_table  # its room imports JAX

    is_one_row = isinstance(rows, Mapping) and all(np.ndim(v) == 0 for v in rows.values())
    table = pd.DataFrame([rows]) if is_one_row else as_table(rows, name)
    if len(table) == 0:
        raise ValueError(f"`{name}` has no rows.")
    return table


def check_columns(table: pd.DataFrame, wanted: Sequence[str]) -> None:
    """Refuse a table without one of the columns, or with an entry of them that is no number."""
    check_present(table, wanted)
    for name in wanted:
        if not np.isfinite(pd.to_numeric(table[name], errors="coerce")).all():
            raise ValueError(f"the new rows must have finite numbers in the column {name!r}.")


def check_present(table: pd.DataFrame, wanted: Sequence[str]) -> None:
    """Refuse a table without one of the columns."""
    for name in wanted:
        if name not in table.columns:
            raise ValueError(
                f"the new rows must have the columns {list(wanted)}; {name!r} is missing."
                f"{nearest(name, map(str, table.columns))}"
            )
