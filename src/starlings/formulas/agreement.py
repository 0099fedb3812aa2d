"""The agreement of sites on the encoding of a formula, by sums over all of them.

    1. the kinds of columns, and their missing entries                       one sum
    2. levels (see `levels`), and what functions remember (`transforms`)     as the longest needs
    3. means of the columns of X and of the outcome, and their products      two sums

No row, and no number of a single site, is needed anywhere but at the site: `Sums.total` may be a
sum within a process, or a masked sum over a network. All sites find the same encoding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from starlings.errors import FormulaError
from starlings.formulas.encoding import CATEGORY, NUMBER, Encoding
from starlings.formulas.expressions import Call
from starlings.formulas.levels import agreed_levels
from starlings.formulas.moments import agreed_moments
from starlings.formulas.request import Request
from starlings.formulas.rows import SiteRows
from starlings.formulas.sums import Agreement, Parts, Sums
from starlings.formulas.tables import (
    CATEGORIES,
    DATES,
    KINDS,
    NUMBERS,
    OTHER,
    TEXT,
    entries_of,
)
from starlings.formulas.transforms import agreed_state
from starlings.problem.shards import NUMBER as NUMBER_TEXT

COUNTS = "numbers of rows, and of entries of each kind"
"""What is sent first, in the account of what leaves a site."""
MOST_LEVELS = 1_000
"""Levels of one column, at most."""


def agree(request: Request, sites: Sequence[SiteRows], sums: Sums) -> Encoding:
    """The encoding that all sites agree on.

    Args:
        request: the formula, and what the user says about it.
        sites: the rows of each local site.
        sums: what makes the sums over all sites.
    """
    encoding = sums.together([_agreed_kinds(request, sites)])[0]
    request.check_missing(encoding, sites)
    used = [rows.complete(request.columns) for rows in sites]
    encoding = _with_levels_and_states(request, encoding, used, sums)
    encoding = _labelled(encoding, used[0])
    matrices = [_matrix(encoding, rows) for rows in used]
    return sums.together([agreed_moments(encoding, matrices)])[0]


def _agreed_kinds(request: Request, sites: Sequence[SiteRows]) -> Agreement:
    """An encoding with the kinds of all columns, and the numbers of rows and missing entries."""
    columns = request.columns
    total = yield Parts(COUNTS, np.array([rows.counts(columns) for rows in sites]))
    found = np.round(total).astype(int)
    missing, counts = {}, found[2:].reshape(len(columns), -1)
    for name, each in zip(columns, counts, strict=True):
        missing[name] = int(each[0])
    kinds = {
        name: _kind(name, each[1:].tolist(), request)
        for name, each in zip(columns, counts, strict=True)
    }
    return request.encoding(
        kinds=kinds,
        rows=int(found[1]),
        dropped=int(found[0] - found[1]),
        missing=missing,
    )


def _kind(name: str, counts: Sequence[int], request: Request) -> str:
    """The kind of a column, from its entries of each kind at all sites."""
    if sum(counts) == 0:
        raise FormulaError(f"column {name!r} has no entry at any site: leave it out.")
    if counts[OTHER]:
        raise FormulaError(f"column {name!r} has {counts[OTHER]:,} {KINDS[OTHER]}: convert them.")
    is_ordered = name == request.outcome and request.levels_of_outcome is None
    if name in request.categories:
        is_category = name not in _as_they_are(request)
    else:
        is_category = name in request.levels or is_ordered
    if is_category:
        return CATEGORY
    if counts[NUMBERS] == sum(counts):
        return NUMBER
    if counts[DATES]:
        raise FormulaError(
            f"column {name!r} has {counts[DATES]:,} dates or times, which are no numbers: convert "
            "them to numbers with a unit, such as days since a date."
        )
    is_text = counts[TEXT] + counts[CATEGORIES] == sum(counts)
    if is_text and name in _whole(request) and name not in request.measured:
        return CATEGORY
    seen = ", ".join(f"{n:,} {kind}" for kind, n in zip(KINDS, counts, strict=True) if n)
    remedy = "" if is_text else f": convert it{_or_categories(name, request)}"
    raise FormulaError(
        f"column {name!r} has {seen} at all sites together, and has to have numbers{remedy}."
    )


def _or_categories(name: str, request: Request) -> str:
    """The other remedy for a column of numbers as text, if it may have categories."""
    if name in request.measured or name == request.outcome:
        return ""
    return f", or write C({_quoted(name)}) if they are names of categories"


def _as_they_are(request: Request) -> set[str]:
    """The columns that are used without C(...)."""
    every = [each for each in request.formula.expressions if each.category is None]
    every.append(request.formula.outcome.value)
    return {name for each in every for name in each.columns} | set(request.measured)


def _whole(request: Request) -> set[str]:
    """The columns that are factors as they are, or the outcome, and can be categories."""
    every = {each.columns[0] for each in request.formula.expressions if each.is_column}
    return every if request.outcome is None else {*every, request.outcome}


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"


def _with_levels_and_states(
    request: Request, encoding: Encoding, used: Sequence[SiteRows], sums: Sums
) -> Encoding:
    """The encoding with the levels of categories, and what functions remember."""
    plain = [name for name, kind in encoding.kinds.items() if kind == CATEGORY]
    categories = list(dict.fromkeys([*plain, *request.categories]))
    open_ = [name for name in categories if name not in request.levels]
    labels = [_labels(request, rows, open_) for rows in used]
    waves = request.calls or [[]]
    asked: list[Agreement] = [agreed_levels(open_, labels)] if open_ else []
    levels: Mapping[str, tuple[str, ...]] = {}
    states: dict[str, Any] = {}
    for number, calls in enumerate(waves):
        known = dataclasses.replace(encoding, transforms=states)
        started = [agreed_state(call, _arguments(request, known, call, used)) for call in calls]
        found = sums.together([*asked, *started])
        if number == 0 and asked:
            levels, asked, found = found[0], [], found[1:]
        states = states | dict(zip((call.key for call in calls), found, strict=True))
    ordered = {name: _ordered(request, name, levels) for name in categories}
    return dataclasses.replace(encoding, levels=ordered, transforms=states)


def _labels(request: Request, rows: SiteRows, columns: Sequence[str]) -> dict[str, list[str]]:
    """The labels of a site, by column; too few rows with one of them break a guard rail."""
    found = {}
    for name in columns:
        labels, counts = np.unique(
            entries_of(rows.table[name]).labels.astype(str), return_counts=True
        )
        if counts.min() < request.fewest_in_level:
            raise FormulaError(
                f"guard rail fewest_rows_in_category: at site {rows.site!r} the column {name!r} "
                f"has the level {str(labels[counts.argmin()])!r} in {counts.min()} rows, and "
                f"{request.fewest_in_level} are needed before its name may leave the site. Merge "
                "rare levels, or have the study declare `levels`."
            )
        found[name] = labels.tolist()
    return found


def _arguments(
    request: Request, encoding: Encoding, call: Call, used: Sequence[SiteRows]
) -> list[np.ndarray]:
    """The value of the argument of a call at each local site."""
    owner = next(
        expression
        for expression in request.formula.expressions
        if any(each.key == call.key for each in expression.calls)
    )
    values = []
    for rows in used:
        with rows.named():
            values.append(encoding.numbers_of(owner.part(call.argument), rows.table))
    return values


def _ordered(request: Request, name: str, found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The levels of a column, with the reference level first."""
    levels = request.levels.get(name) or found[name]
    if len(levels) > MOST_LEVELS:
        raise FormulaError(
            f"column {name!r} has {len(levels):,} levels, and {MOST_LEVELS:,} are allowed: is it "
            "the name of a row? Merge levels."
        )
    if len(levels) < 2:
        raise FormulaError(
            f"column {name!r} has one level only, {list(levels)}, at all sites: leave it out of "
            "the formula, or declare its other `levels`."
        )
    if name == request.outcome:
        _check_outcome(request, name, levels)
    reference = request.reference.get(name)
    if reference is None:
        return levels
    if name == request.outcome and request.levels_of_outcome is None:
        raise FormulaError(
            f"`reference` of the outcome {name!r} would change the order of its levels: write them "
            "from the lowest to the highest, in `levels`."
        )
    if reference not in levels:
        raise FormulaError(
            f"`reference` of {name!r} must be one of {list(levels)}, got {reference!r}."
        )
    return (reference, *(level for level in levels if level != reference))


def _check_outcome(request: Request, name: str, levels: Sequence[str]) -> None:
    """Refuse an outcome of categories for which the family has no use."""
    allowed = request.levels_of_outcome
    if allowed is None:
        if name not in request.levels and not all(map(NUMBER_TEXT.fullmatch, levels)):
            raise FormulaError(
                f"the outcome {name!r} has the levels {list(levels)}, whose order matters: write "
                "them from the lowest to the highest, in `levels`."
            )
    elif len(levels) != allowed:
        wanted = f"{allowed} levels" if allowed else "numbers"
        raise FormulaError(
            f"the outcome {name!r} has the levels {list(levels)}, and this family needs {wanted}."
        )


def _labelled(encoding: Encoding, rows: SiteRows) -> Encoding:
    """The encoding with the names of its columns, which any rows show."""
    with rows.named():
        first = rows.table.iloc[:1]
        labels = encoding.labelled(encoding.formula, first)[1]
        if not labels:
            raise FormulaError(
                f"`formula` explains nothing, got {encoding.formula!r}, since this family has its "
                "own intercept: name a column."
            )
        random = () if encoding.random is None else encoding.labelled(encoding.random, first)[1]
    return dataclasses.replace(encoding, labels=labels, random_labels=random)


def _matrix(encoding: Encoding, rows: SiteRows) -> np.ndarray:
    """The columns of X, those of the random part, the outcome and the offset, (row, column)."""
    with rows.named():
        x, y = encoding.design(rows.table), encoding.outcomes(rows.table)
        more = encoding.further(rows.table)
    random = [more["r"]] if "r" in more else []
    return np.column_stack([x, *random, y, more.get("offset", np.zeros_like(y))])
