"""`starlings.regression`: a regression from a formula and a table with a label of each row's site.

The columns of X and their levels, knots and means are those that the sites agree on by sums (see
`starlings.formulas`). In one process nothing is sent, and the problem notes how many sums there
would have been between sites, so that every run on a network counts them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from starlings.errors import ConstantColumnWarning, FormulaError, nearest
from starlings.formulas import Encoding, Formula, Request, SiteRows, Sums, agree
from starlings.formulas.parsing import SITE
from starlings.formulas.tables import checked_table
from starlings.models.families import Family, family_of
from starlings.models.formula_families import asked_of_rows, completed, problem_of
from starlings.models.priors import Prior
from starlings.problem import Problem
from starlings.problem.fields import BY_SITE
from starlings.problem.shards import check_one_kind, in_order, site_names

ON_THE_SCALE = ("gaussian", "student_t")
"""Families whose scale has no posterior where all outcomes are the same."""


def regression(
    formula: str,
    data: Any,
    sites: Any = None,
    family: str | Family = "gaussian",
    *,
    missing: str | None = None,
    priors: Mapping[str, str | Prior] | None = None,
    levels: Mapping[str, Sequence[Any]] | None = None,
    reference: Mapping[str, Any] | None = None,
    offset: str | None = None,
    weights: str | None = None,
    trials: str | None = None,
    random: str | None = None,
    **settings: Any,
) -> Problem:
    """A regression on named columns, with the same columns at all sites.

    Args:
        formula: such as "readmitted ~ age + C(ward) + age:smoker + bs(stay, df=4)". A column of
            text is one of categories; `C(...)` makes one of numbers. Survival times are written
            `survival(time, event) ~ ...`, successes `successes / trials ~ ...`. Names with spaces
            stand in backticks. A formula has columns, numbers and known functions, and no code.
            An outcome of two categories is whether a row has the second one.
        data: a table with named columns; or a table for each site, by the name of the site.
        sites: the column of `data` that names the site of each row, or a label for each row.
        family: of the outcomes: "gaussian", "student_t", "logistic", "binomial", "poisson",
            "negative_binomial", "gamma", "weibull", "piecewise_exponential" or "ordinal".
        missing: "drop" leaves rows with a missing entry out, "error" refuses them. It has to be
            chosen where there are any.
        priors: by the label of a coefficient, a text such as "normal(0, 1)". All others have
            defaults on the scale of the data, which `starlings.models.priors_of` shows.
        levels: by column, the names of its categories; the first one is the reference. By default
            those that occur, in sorted order, or those of a pandas Categorical.
        reference: by column, the level to which the others are compared; of an outcome, the level
            that counts as 0.
        offset: the column of what is added to the linear predictor.
        weights: the column of weights of the rows: one of weight 2 counts as two such rows.
        trials: the column of the numbers of trials.
        random: what varies from site to site, such as "(1 + age | site)".
        settings: of the family, such as `degrees_of_freedom` of Student's t, or `cuts`, the times
            between which the hazard of "piecewise_exponential" is constant.

    >>> data = {"y": [1.0, 2.0, 2.5, 4.0], "dose": [0.0, 1.0, 2.0, 3.0], "at": list("aabb")}
    >>> problem = regression("y ~ dose", data, sites="at")
    >>> problem.parameters.labels()
    ['beta[Intercept]', 'beta[dose]', 'sigma']
    """
    chosen = family_of(family, **settings)
    tables, group = tables_of_sites(data, sites)
    parsed = formula_of(formula, chosen, random, group)
    declared = {**_declared(parsed, tables), **(levels or {})}
    said = (missing, declared, reference, offset, weights, trials)
    request = Request.of(parsed, *said, **asked_of_rows(chosen))
    rows = [SiteRows.of(site, table) for site, table in tables.items()]
    return agreed_problem(request, rows, Sums(), chosen, priors)


def formula_of(text: str, family: Family, random: str | None = None, group: str = SITE) -> Formula:
    """A formula, in which a ratio as outcome of the binomial family means successes of trials.

    Args:
        text: such as "readmitted ~ age".
        family: of the outcomes.
        random: what varies from site to site, or None.
        group: the name of the column of sites.
    """
    return Formula.of(text, random, has_trials="trials" in family.row_columns, group=group)


def agreed_problem(
    request: Request,
    rows: Sequence[SiteRows],
    sums: Sums,
    family: Family,
    priors: Mapping[str, str | Prior] | None = None,
) -> Problem:
    """The problem of the local sites, after the sites have agreed on its columns.

    Args:
        request: what the user asks for.
        rows: of each local site.
        sums: what makes sums over all sites.
        family: of the outcomes.
        priors: those that are given, as texts.
    """
    encoding = agree(request, rows, sums)
    return encoded_problem(request, rows, encoding, family, priors, sums.account)


def encoded_problem(
    request: Request,
    rows: Sequence[SiteRows],
    encoding: Encoding,
    family: Family,
    priors: Mapping[str, str | Prior] | None = None,
    account: Sequence[Mapping[str, int]] = (),
) -> Problem:
    """The problem of the local sites with an encoding that is known.

    Args:
        request: what the user asks for.
        rows: of each local site.
        encoding: what the sites have agreed on.
        family: of the outcomes.
        priors: those that are given, as texts.
        account: for each sum of the agreement, how many numbers of which kind it had.
    """
    used = [each.complete(request.columns) for each in rows]
    shards, names, family = {}, _names(encoding), completed(family, encoding)
    for each in used:
        with each.named():
            columns = encoding.columns(each.table)
            family.check({name: v for name, v in columns.items() if name != "x"}, names)
        shards[each.site] = columns
    _check_outcome(encoding, family)
    problem = problem_of(encoding, shards, family, priors, names)
    gaps = {"policy": request.missing, "entries": dict(encoding.missing)}
    regression = {
        "formula": request.formula.text,
        "encoding": encoding.as_json(),
        **problem.description["regression"],
        "missing": {**gaps, "dropped": encoding.dropped},
        "sums": [dict(kinds) for kinds in account],
    }
    by_site = {
        before.site: {
            "entries": before.missing(request.columns),
            "dropped": len(before.table) - len(after.table),
        }
        for before, after in zip(rows, used, strict=True)
    }
    return problem.with_description(regression=regression, **{BY_SITE: by_site})


def _names(encoding: Encoding) -> dict[str, str]:
    """What messages call the columns of a shard."""
    names = {"y": encoding.outcome, "offset": encoding.offset, "weight": encoding.weights}
    names |= {"trials": encoding.trials, "event": encoding.event}
    return {name: column for name, column in names.items() if column is not None}


def _check_outcome(encoding: Encoding, family: Family) -> None:
    """Refuse outcomes that are all the same, or warn of them where a model can still be sampled."""
    if encoding.outcome_scale > 0 or encoding.event is not None:
        return
    said = f"the outcome {encoding.outcome!r} is {encoding.outcome_mean:g} in all rows of all sites"
    if family.name in ON_THE_SCALE:
        raise FormulaError(f"{said}: there is nothing to explain. Take another outcome.")
    warnings.warn(
        f"{said}: only the prior keeps the intercept finite.", ConstantColumnWarning, stacklevel=2
    )


def tables_of_sites(data: Any, sites: Any) -> tuple[dict[str, pd.DataFrame], str]:
    """The table of each site, in order, and the name of the column of sites.

    The index of each table has the numbers of its rows in the table that the user has.
    """
    is_by_site = isinstance(data, Mapping) and all(map(_is_table, data.values()))
    if is_by_site and sites is None:
        check_one_kind("`data`", data)
        tables = {str(site).strip(): checked_table(table) for site, table in data.items()}
        return {site: tables[site] for site in in_order(tables)}, SITE
    table, group = checked_table(data), SITE
    if sites is None:
        raise ValueError(
            "`sites` must be the column that names the site of each row, or a label for each row; "
            "or give `data` as a mapping from sites to tables."
        )
    if isinstance(sites, str):
        group = sites
        if sites not in table.columns:
            known = list(table.columns)
            raise FormulaError(
                f"`sites` must be a column of `data`, got {sites!r}; it has {known}."
                f"{nearest(sites, known)}"
            )
        labels = table[sites].to_numpy(object)
    else:
        labels = pd.Series(list(sites), dtype=object).to_numpy()
    if len(labels) != len(table):
        raise ValueError(
            f"`sites` has {len(labels)} labels and `data` {len(table)} rows; give each row one."
        )
    names, numbers = site_names(labels)
    return {site: table[numbers == k] for k, site in enumerate(names)}, group


def _is_table(value: Any) -> bool:
    """Whether a value of a mapping is the table of a site, and not a column."""
    return isinstance(value, Mapping) or getattr(value, "ndim", 2 * hasattr(value, "columns")) == 2


def _declared(formula: Formula, tables: Mapping[str, pd.DataFrame]) -> dict[str, list[str]]:
    """The categories of pandas columns, where all tables have the same."""
    found = {}
    for name in formula.columns:
        types = [table[name].dtype for table in tables.values() if name in table.columns]
        first = types[0] if types else None
        if isinstance(first, pd.CategoricalDtype) and all(each == first for each in types):
            found[name] = [str(category) for category in first.categories]
    return found
