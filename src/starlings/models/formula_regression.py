"""`starlings.regression`: a regression from a formula and a table with a label of each row's site.

The columns of X and their levels, knots and means are those that the sites agree on by sums (see
`starlings.formulas`). In one process nothing is sent, and the problem notes how many sums there
would have been between sites, so that every run on a network counts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from starlings.errors import FormulaError, nearest
from starlings.formulas import Encoding, Formula, Request, SiteRows, Sums, agree
from starlings.formulas.parsing import SITE
from starlings.formulas.tables import as_table
from starlings.models.formula_families import family_of, problem_of
from starlings.problem import Problem
from starlings.problem.shards import check_one_kind, in_order, site_names


def regression(
    formula: str,
    data: Any,
    sites: Any = None,
    family: str = "gaussian",
    *,
    missing: str | None = None,
    priors: Mapping[str, str] | None = None,
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
        data: a table with named columns; or a table for each site, by the name of the site.
        sites: the column of `data` that names the site of each row, or a label for each row.
        family: of the outcomes, such as "gaussian" or "logistic".
        missing: "drop" leaves rows with a missing entry out, "error" refuses them. It has to be
            chosen where there are any.
        priors: by the label of a coefficient, a text such as "normal(0, 1)". All others have
            defaults on the scale of the data.
        levels: by column, the names of its categories; the first one is the reference. By default
            those that occur, in sorted order, or those of a pandas Categorical.
        reference: by column, the level to which the others are compared.
        offset: the column of what is added to the linear predictor.
        weights: the column of weights of the rows.
        trials: the column of the numbers of trials.
        random: what varies from site to site, such as "(1 + age | site)".
        settings: of the family.

    >>> data = {"y": [1.0, 2.0, 2.5, 4.0], "dose": [0.0, 1.0, 2.0, 3.0], "at": list("aabb")}
    >>> problem = regression("y ~ dose", data, sites="at")
    >>> problem.parameters.labels()
    ['beta[Intercept]', 'beta[dose]', 'sigma']
    """
    chosen = family_of(family, **settings)
    tables, group = tables_of_sites(data, sites)
    parsed = Formula.of(formula, random, has_trials=family == "binomial", group=group)
    declared = {**_declared(parsed, tables), **(levels or {})}
    request = Request.of(parsed, missing, declared, reference, offset, weights, trials)
    rows = [SiteRows.of(site, table) for site, table in tables.items()]
    return agreed_problem(request, rows, Sums(), chosen, priors)


def agreed_problem(
    request: Request,
    rows: Sequence[SiteRows],
    sums: Sums,
    family: Any,
    priors: Mapping[str, str] | None = None,
) -> Problem:
    """The problem of the local sites, after the sites have agreed on its columns.

    Args:
        request: what the user asks for.
        rows: of each local site.
        sums: what makes sums over all sites.
        family: of the outcomes.
        priors: those that are given, as texts.
    """
    encoding, used = agree(request, rows, sums)
    shards = {}
    for each in used:
        with each.named():
            shards[each.site] = encoding.columns(each.table)
    problem, about = problem_of(encoding, shards, family, priors)
    by_site = {each.site: each.missing(request.columns) for each in rows}
    dropped = {a.site: len(a.table) - len(b.table) for a, b in zip(rows, used, strict=True)}
    gaps = {"policy": request.missing, "by_site": by_site, "dropped": dropped}
    return problem.with_description(
        kind="regression",
        formula=request.formula.text,
        regression={
            "encoding": encoding.as_json(),
            **about,
            "missing": gaps,
            "sums": list(sums.account),
        },
    )


def tables_of_sites(data: Any, sites: Any) -> tuple[dict[str, pd.DataFrame], str]:
    """The table of each site, in order, and the name of the column of sites.

    The index of each table has the numbers of its rows in the table that the user has.
    """
    if isinstance(data, Mapping) and sites is None:
        check_one_kind("`data`", data)
        tables = {str(site).strip(): as_table(table) for site, table in data.items()}
        return {site: tables[site] for site in in_order(tables)}, SITE
    table, group = as_table(data), SITE
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


def _declared(formula: Formula, tables: Mapping[str, pd.DataFrame]) -> dict[str, list[str]]:
    """The categories of pandas columns, where all tables have the same."""
    found = {}
    for name in formula.columns:
        types = [table[name].dtype for table in tables.values() if name in table.columns]
        first = types[0] if types else None
        if isinstance(first, pd.CategoricalDtype) and all(each == first for each in types):
            found[name] = [str(category) for category in first.categories]
    return found


def encoding_of(problem: Problem) -> Encoding:
    """The encoding of a regression from a formula."""
    return Encoding.from_json(problem.description["regression"]["encoding"])
