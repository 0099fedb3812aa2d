"""What a change of covariates does to the expected outcome: contrasts, and average effects.

With m_s(x) the expected outcome of a row x at draw s, and the rows r = 1..R,

    average       a_s(v) = (1/R) sum_r m_s(row r with the setting v)                        (1)
    difference    a_s(v) - a_s(w)                                                           (2)
    ratio         a_s(v) / a_s(w)                                                           (3)
    slope         (1/R) sum_r d m_s(row r) / d x_j, by a central difference                 (4)

All are computed for every draw, and summarised then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from starlings.errors import nearest
from starlings.results.answers.model import RegressionModel, table_of_rows
from starlings.results.answers.prediction import Predictor
from starlings.results.intervals import moments_and_interval
from starlings.results.tables import ROW_HEADING, AnswerTable

RELATIVE_STEP = 1e-4
"""Half of the step of (4), in standard deviations of the covariate."""


def contrasted(
    predictor: Predictor, rows: Any, settings: Any, ratio: bool = False, prob: float = 0.9
) -> AnswerTable:
    """Return the table of `Result.contrasts`, which explains the arguments."""
    table, found = table_of_rows(rows, "rows"), {}
    for group in _groups(settings, predictor.model.variables):
        (first, reference), *others = group
        base = _average(predictor, table, reference)
        for name, values in others:
            other = _average(predictor, table, values)
            with np.errstate(divide="ignore", invalid="ignore"):
                compared = other / base if ratio else other - base  # (3), (2)
            found[_title(name, first, ratio)] = compared
    return _summarised(found, prob, "ratio" if ratio else "difference")


def effects(
    predictor: Predictor, rows: Any, variables: Sequence[str] | None = None, prob: float = 0.9
) -> AnswerTable:
    """Return the table of `Result.effects`, which explains the arguments."""
    table, found, model = table_of_rows(rows, "rows"), {}, predictor.model
    wanted = model.variables if variables is None else _known(variables, model.variables)
    for variable in wanted:
        if compared := _compared(model, table, variable):
            first, *others = compared
            base = _average(predictor, table, {variable: first})
            for level in others:
                here = _average(predictor, table, {variable: level})
                found[f"{variable}: {_title(str(level), str(first), False)}"] = here - base  # (2)
        else:
            found[f"{variable}: slope"] = _slope(predictor, table, variable)
    return _summarised(found, prob, "effect")


def _compared(model: RegressionModel, table: pd.DataFrame, variable: str) -> Sequence[Any]:
    """The values of a category or of a truth value, the reference first; () for a number."""
    if variable in model.levels:
        return model.levels[variable]
    is_truth = variable in table.columns and pd.api.types.is_bool_dtype(table[variable])
    return (False, True) if is_truth else ()


def _average(predictor: Predictor, table: pd.DataFrame, values: Mapping[str, Any]) -> np.ndarray:
    """The average of the expected outcomes of all rows with some columns set, eq. (1), (draw,)."""
    rows = predictor.model.rows(table.assign(**values))
    parts = (predictor.expected(some).sum(axis=1) for some in predictor.blocks(rows))
    return sum(parts) / len(table)


def _slope(predictor: Predictor, table: pd.DataFrame, variable: str) -> np.ndarray:
    """The average derivative of the expected outcome by a numerical column, eq. (4), (draw,)."""
    if variable not in table.columns:
        raise ValueError(f"`rows` must have the column {variable!r}, whose effect is asked for.")
    half = RELATIVE_STEP * predictor.model.scale_of(variable)
    values = table[variable].astype(float)
    above, below = (_average(predictor, table, {variable: values + h}) for h in (half, -half))
    return (above - below) / (2 * half)


def _groups(settings: Any, variables: Sequence[str]) -> list[list[tuple[str, Any]]]:
    """The settings that are compared with each other, the reference first."""
    if isinstance(settings, Mapping):
        _known(settings, variables)
        groups = [
            [(f"{variable} = {value}", {variable: value}) for value in values]
            for variable, values in settings.items()
            if not isinstance(values, str)
        ]
    elif isinstance(settings, Sequence) and all(isinstance(each, Mapping) for each in settings):
        _known([name for each in settings for name in each], variables)
        groups = [[(_in_words(each), each) for each in settings]]
    else:
        groups = []
    if not groups or any(len(group) < 2 for group in groups):
        raise ValueError(
            "`settings` must map columns to at least two values, such as "
            '{"smoker": [0, 1]}, or list at least two settings, such as '
            f'[{{"age": 40}}, {{"age": 60}}], got {settings!r}.'
        )
    return groups


def _known(names: Any, variables: Sequence[str]) -> list[str]:
    found = [names] if isinstance(names, str) else list(names)
    for name in found:
        if name not in variables:
            raise ValueError(
                f"the model has the covariates {list(variables)}, got {name!r}."
                f"{nearest(name, variables)}"
            )
    return found


def _in_words(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in setting.items())


def _title(one: str, other: str, ratio: bool) -> str:
    return f"{one} {'relative to' if ratio else 'minus'} {other}"


def _summarised(found: Mapping[str, np.ndarray], prob: float, heading: str) -> AnswerTable:
    """Mean, sd and interval of every answer, from its draws."""
    columns = moments_and_interval(np.stack(list(found.values()), axis=1), prob)
    table = AnswerTable(columns.set_axis(list(found)))
    table.attrs[ROW_HEADING] = heading
    return table
