"""Models side by side, by their evidence or by leave-one-out cross-validation.

With Z_k the evidence of model k, the marginal likelihood of all rows, and b the best model,

    log Bayes factor  = log Z_k - log Z_b                                                   (1)
    probability       = Z_k / sum_j Z_j            at equal prior odds                      (2)

The errors of two estimates of log Z are independent, so the variances of (1) add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from starlings.comparison.loo import Loo
from starlings.results.evidence import Evidence
from starlings.results.groups import model_record
from starlings.results.result import Result

Columns = Mapping[str, Mapping[str, int]]
"""Checksums of columns by name, for every site."""
OUTCOME = "y"
"""The column of the outcomes, in the models of this library."""


def compare_models(models: Mapping[str, Result | Loo]) -> pd.DataFrame:
    """Compare models of the same rows, by results with a log-evidence or by `Loo` objects.

    The table has one row for each model, best first. For results its columns are `log_evidence`
    and its standard error `error`; `log_bayes_factor`, eq. (1), against the best model, at most 0,
    with its standard error `log_bayes_factor_error`; and `probability`, eq. (2), of each model if
    all are equally probable before the data. For `Loo` objects they are `elpd`, `se`, `p_loo`,
    `difference` to the best model, and `unreliable_rows`. The standard error of a difference needs
    the terms of every row, which stay at the sites: `starlings.compare_loo` computes it.

    Results of other rows are refused: by the numbers of rows, and by checksums of the outcomes (the
    column `y`, or else any column that the models share) at every site. Results with
    privacy="totals" have no checksums, and say nothing of the rows of a site: whether their models
    are of the same rows is for you to know.

    Args:
        models: results by `sample(..., method="weights")`, or what `starlings.loo` returned, by the
            name of the model. All are of one kind.

    >>> def of(elpd):
    ...     return Loo(elpd, 3.0, 2.0, 50, 0, 0.7, 4000, rounds=4, bytes=320)
    >>> compare_models({"line": of(-70.0), "parabola": of(-64.5)})[["elpd", "difference"]]
              elpd  difference
    parabola -64.5         0.0
    line     -70.0        -5.5
    """
    kind = _common_kind(models)
    _check_row_counts({name: _num_rows(model) for name, model in models.items()})
    _check_outcomes({name: _columns(model) for name, model in models.items()})
    return _by_evidence(models) if kind is Result else _by_loo(models)


def _by_evidence(models: Mapping[str, Any]) -> pd.DataFrame:
    value, error = np.array([_evidence(name, model) for name, model in models.items()]).T
    best = int(value.argmax())
    is_best = np.arange(len(value)) == best
    columns = {
        "log_evidence": value,
        "error": error,
        "log_bayes_factor": value - value[best],  # (1)
        "log_bayes_factor_error": np.where(is_best, 0.0, np.hypot(error, error[best])),
        "probability": softmax(value),  # (2)
    }
    return pd.DataFrame(columns, index=list(models)).sort_values("log_evidence", ascending=False)


def _evidence(name: str, model: Result) -> Evidence:
    try:
        return model.log_evidence
    except ValueError as error:
        raise ValueError(f"`models` has {name!r}: {error}") from None


def _by_loo(models: Mapping[str, Any]) -> pd.DataFrame:
    elpd = np.array([model.elpd for model in models.values()])
    columns = {
        "elpd": elpd,
        "se": [model.se for model in models.values()],
        "p_loo": [model.p_loo for model in models.values()],
        "difference": elpd - elpd.max(),
        "unreliable_rows": [model.num_unreliable for model in models.values()],
    }
    return pd.DataFrame(columns, index=list(models)).sort_values("elpd", ascending=False)


def _common_kind(models: Any) -> type:
    """Return `Result` or `Loo`, of which all models are."""
    if not isinstance(models, Mapping) or len(models) < 2:
        raise ValueError(
            "`models` must map the names of at least two models to results, or to what "
            f"`starlings.loo` returned, got {models!r}."
        )
    for kind in (Result, Loo):
        if all(isinstance(model, kind) for model in models.values()):
            return kind
    kinds = {name: type(model).__name__ for name, model in models.items()}
    raise TypeError(f"`models` must be results only, or `Loo` objects only, got {kinds}.")


def _num_rows(model: Any) -> int | None:
    """Return the number of rows of all sites; None if a result does not say."""
    if isinstance(model, Loo):
        return model.num_rows
    rows = model_record(model.attrs).get("rows")
    return None if rows is None else sum(rows.values())


def _columns(model: Any) -> Columns:
    """Return the checksums of the columns of every site; none if a result does not say."""
    if isinstance(model, Loo):
        return {}
    return model_record(model.attrs).get("columns", {})


def _check_outcomes(models: Mapping[str, Columns]) -> None:
    """Refuse models of which the outcomes of a site differ."""
    (first, reference), *others = models.items()
    for name, columns in others:
        for site in columns.keys() & reference.keys():
            if not _have_outcome_in_common(columns[site], reference[site]):
                raise ValueError(
                    f"`models` must be of the same rows, and the outcomes of {first!r} and "
                    f"{name!r} differ at site {site!r}."
                )


def _have_outcome_in_common(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    """Return whether outcomes are equal; if nobody knows which column they are, whether any is."""
    shared = {OUTCOME} & one.keys() & other.keys() or one.keys() & other.keys()
    return not shared or any(one[column] == other[column] for column in shared)


def _check_row_counts(counts: Mapping[str, int | None]) -> None:
    known = {name: count for name, count in counts.items() if count is not None}
    if len(set(known.values())) > 1:
        raise ValueError(f"`models` must be of the same rows, got numbers of rows {known}.")
