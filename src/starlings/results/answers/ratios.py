"""The table of the parameters, or of exponentiated coefficients: odds, rate and hazard ratios.

A coefficient b is the change of the linear predictor for one unit of its covariate. Where the link
is a logarithm of odds, of a rate or of a hazard, exp(b) is their ratio:

    mean of the ratio = (1/S) sum_s exp(b_s), over the draws s = 1..S                         (1)

    quantile of the ratio = exp(quantile of b)                                               (2)

where (1) is not exp(mean of b). Ranks do not change, so that R-hat, effective sample sizes and the
range of means are those of b; the Monte Carlo standard error is that of (1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from starlings.errors import nearest
from starlings.results.answers.model import COEFFICIENTS, family_in
from starlings.results.intervals import interval_levels
from starlings.results.parameter_table import (
    MAX_SERIES,
    ParameterTable,
    diagnostics_of_all,
    entries_of_all,
    parameter_table,
    pooled_of_all,
)


def ratio_name(attrs: Mapping[str, Any]) -> str | None:
    """Return what exp(coefficient) is, such as "odds ratio"; None if it is nothing with a name."""
    family = family_in(attrs)
    return None if family is None else family.ratio


def summary_table(
    posterior: xr.Dataset,
    attrs: Mapping[str, Any],
    exp: bool = False,
    prob: float = 0.9,
    parameters: str | Sequence[str] | None = None,
) -> ParameterTable:
    """Return the table of `Result.summary`, which explains the arguments."""
    interval_levels(prob)  # refuses what is no probability
    if not exp:
        table = parameter_table(_variables(posterior, parameters), MAX_SERIES, prob)
        return _rows(table, posterior, parameters)
    wanted = _coefficients(attrs, posterior) if parameters is None else parameters
    chosen, heading = _variables(posterior, wanted), ratio_name(attrs) or "exp of"
    table = parameter_table(chosen, MAX_SERIES, prob, heading)
    with np.errstate(all="ignore"):  # of separable data, a ratio may be infinite
        _exponentiate(table, chosen, prob)
    return _rows(table, posterior, wanted)


def _exponentiate(table: ParameterTable, posterior: xr.Dataset, prob: float) -> None:
    """Replace the moments, quantiles and standard errors of a table by those of exp(draws)."""
    ratios = posterior.map(np.exp, keep_attrs=True)
    pooled = pooled_of_all(ratios, {})  # (1)
    table[pooled.columns] = pooled.loc[table.index]
    levels = list(interval_levels(prob))
    table[levels] = np.exp(table[levels])  # (2)
    table["mcse"] = diagnostics_of_all(ratios, MAX_SERIES)["mcse"].reindex(table.index)


def _coefficients(attrs: Mapping[str, Any], posterior: xr.Dataset) -> str:
    """The name of the coefficients whose exponentials mean something."""
    if ratio_name(attrs) is None or COEFFICIENTS not in posterior:
        raise ValueError(
            "`exp=True` needs a regression whose exponentiated coefficients have a meaning (such "
            "as logistic, Poisson or survival), and this result is of another model. To "
            'exponentiate nevertheless, name what: `parameters="..."`, one of '
            f"{[str(name) for name in posterior.data_vars]}."
        )
    return COEFFICIENTS


def _variables(posterior: xr.Dataset, parameters: str | Sequence[str] | None) -> xr.Dataset:
    """The parameters that are named, or of which an entry is."""
    if parameters is None:
        return posterior
    names = _listed(parameters)
    entries = {name: entries_of_all(posterior[[name]]) for name in map(str, posterior.data_vars)}
    known = [*entries, *(entry for own in entries.values() for entry in own)]
    for name in names:
        if name not in known:
            raise ValueError(
                f"`parameters` must name parameters such as {list(entries)[:5]}, or entries such "
                f"as {known[len(entries)]!r}, got {name!r}.{nearest(name, known)}"
            )
    return posterior[[n for n, own in entries.items() if {n, *own} & set(names)]]


def _rows(
    table: ParameterTable, posterior: xr.Dataset, parameters: str | Sequence[str] | None
) -> ParameterTable:
    """The rows of the entries that are named, in the order of the table."""
    if parameters is None:
        return table
    names = set(_listed(parameters))
    wanted = names.union(
        *(entries_of_all(posterior[[n]]) for n in names & set(posterior.data_vars))
    )
    chosen = ParameterTable(table[table.index.isin(list(wanted))])
    chosen.attrs.update(table.attrs)
    return chosen


def _listed(parameters: str | Sequence[str]) -> list[str]:
    return [parameters] if isinstance(parameters, str) else [str(name) for name in parameters]
