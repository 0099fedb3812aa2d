"""What is asked for: a formula, and what the user says about columns, levels and gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlings.errors import FormulaError, check_choice, nearest
from starlings.formulas.encoding import Encoding
from starlings.formulas.expressions import Call, Category
from starlings.formulas.parsing import Formula
from starlings.formulas.rows import SiteRows
from starlings.formulas.tables import label_of

POLICIES = ("drop", "error")
"""What can be done with rows that have missing entries."""
MOST_SITES_NAMED = 8


@dataclass(frozen=True)
class Request:
    """A formula, and what the user says about it."""

    formula: Formula
    missing: str | None = None
    """One of `POLICIES`; None if the user has not chosen."""
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By column: its declared levels."""
    reference: Mapping[str, str] = field(default_factory=dict)
    """By column: its reference level, if it is not the first one."""
    offset: str | None = None
    weights: str | None = None
    trials: str | None = None
    levels_of_outcome: int | None = 0
    """Levels that a categorical outcome may have: 0 if it has to be a number, 2, or, if their order
    matters, any number of them (None)."""
    takes_intercept: bool = True
    """Whether the columns of X have an intercept; some families have one of their own."""
    fewest_in_level: int = 0
    """Rows of a site in each level whose name it tells, at least: a guard rail."""

    @classmethod
    def of(
        cls,
        formula: Formula,
        missing: str | None = None,
        levels: Mapping[str, Sequence[Any]] | None = None,
        reference: Mapping[str, Any] | None = None,
        offset: str | None = None,
        weights: str | None = None,
        trials: str | None = None,
        **of_family: Any,
    ) -> Request:
        """Check what the user says; `of_family` are further fields."""
        if missing is not None:
            check_choice(POLICIES, missing=missing)
        trials = trials if formula.outcome.trials is None else formula.outcome.trials
        found = cls(formula, missing, {}, {}, offset, weights, trials)
        declared = {str(name): _levels(str(name), found) for name, found in (levels or {}).items()}
        references = {str(name): label_of(level) for name, level in (reference or {}).items()}
        for category in found.categories.values():
            if category.levels:
                declared[category.column] = category.levels
            if category.reference is not None:
                references[category.column] = category.reference
        for argument, names in (("levels", declared), ("reference", references)):
            for name in names:
                if name not in found.columns:
                    raise FormulaError(
                        f"`{argument}` names {name!r}, which is not a column of the formula: "
                        f"{found.columns}.{nearest(name, found.columns)}"
                    )
        said = (declared, references, offset, weights, trials)
        return cls(formula, missing, *said, **of_family)

    @property
    def columns(self) -> list[str]:
        """All columns that are used, the outcome's first."""
        more = [name for name in (self.offset, self.weights, self.trials) if name is not None]
        return list(dict.fromkeys([*self.formula.columns, *more]))

    @property
    def measured(self) -> list[str]:
        """The columns that have to be numbers, beside those of expressions."""
        every = (self.offset, self.weights, self.trials, self.formula.outcome.event)
        return [name for name in every if name is not None]

    @property
    def outcome(self) -> str | None:
        """The column that the outcome is; None if it is an expression."""
        value = self.formula.outcome.value
        return value.columns[0] if value.is_column else None

    @property
    def categories(self) -> dict[str, Category]:
        """The columns that the formula calls categories, by `C(...)`."""
        found: dict[str, Category] = {}
        for each in (expression.category for expression in self.formula.expressions):
            if each is None:
                continue
            if found.get(each.column, each) != each:
                raise FormulaError(
                    f"`formula` codes the categories of {each.column!r} in two ways; take one."
                )
            found[each.column] = each
        return found

    @property
    def calls(self) -> list[list[Call]]:
        """The calls with a memory, without repeats; each list needs those before only."""
        found: dict[str, tuple[int, Call]] = {}
        for expression in self.formula.expressions:
            for call in expression.calls:
                found[call.key] = (expression.depth(call), call)
        deepest = max((depth for depth, _ in found.values()), default=-1)
        return [[c for depth, c in found.values() if depth == k] for k in range(deepest + 1)]

    def encoding(self, **agreed: Any) -> Encoding:
        """An encoding with what the formula itself says."""
        formula = self.formula
        return Encoding(
            formula.terms.text,
            formula.outcome.value.text,
            None if formula.random is None else formula.random.text,
            self.offset,
            self.weights,
            self.trials,
            formula.outcome.event,
            is_correlated=formula.is_correlated,
            has_intercept=self.takes_intercept,
            **agreed,
        )

    def check_own_gaps(self, rows: SiteRows) -> None:
        """Refuse missing entries of one site, unless the user has said what is to be done."""
        if self.missing != "drop" and (found := rows.missing(self.columns)):
            left_out = int((~rows.is_complete(self.columns)).sum())
            raise self._refusal(found, {rows.site: found}, left_out, len(rows.table))

    def check_missing(self, encoding: Encoding, sites: Sequence[SiteRows]) -> None:
        """Refuse missing entries of any site, unless the user has said what is to be done."""
        everywhere = {name: count for name, count in encoding.missing.items() if count}
        if self.missing == "drop" or not everywhere:
            return
        found = {rows.site: rows.missing(self.columns) for rows in sites}
        here = {site: missing for site, missing in found.items() if missing}
        rows = encoding.rows + encoding.dropped
        raise self._refusal(everywhere, here, encoding.dropped, rows)

    def _refusal(
        self,
        everywhere: Mapping[str, int],
        here: Mapping[str, Mapping[str, int]],
        left_out: int,
        rows: int,
    ) -> FormulaError:
        """The error about missing entries, with their numbers."""
        shown = [f"{site!r} {_counts(found)}" for site, found in here.items()]
        more = len(shown) - MOST_SITES_NAMED
        named = "; ".join(shown[:MOST_SITES_NAMED]) or "at other sites"
        if more > 0:
            named += f"; and {more} more sites"
        chosen = "" if self.missing is None else ' (`missing` is "error")'
        return FormulaError(
            f"the rows have missing entries{chosen}: {_counts(everywhere)} in all; by site: "
            f'{named}. Write missing = "drop" to leave out {left_out:,} of {rows:,} rows, or fill '
            "the gaps beforehand."
        )


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in found.items())


def _levels(name: str, levels: Sequence[Any]) -> tuple[str, ...]:
    """Declared levels as text."""
    if isinstance(levels, str) or not isinstance(levels, Sequence):
        raise FormulaError(f"`levels` of {name!r} must be a list of names, got {levels!r}.")
    found = tuple(label_of(level) for level in levels)
    if len(set(found)) < len(found):
        raise FormulaError(f"`levels` of {name!r} has a level twice: {list(levels)}.")
    return found
