"""A formula such as `readmitted ~ age + C(ward)`, read into its parts.

`formulaic` reads the right side (as R does: `+`, `:`, `*`, `^`, `- 1`, ...) and divides it into
terms and factors. Every factor is then an `Expression`, of which nothing is run as code.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from starlings.errors import FormulaError
from starlings.formulas.expressions import LONGEST, Expression

SITE = "site"
"""How the random part names the sites, beside the name of their column."""
SURVIVAL = "survival"
"""The outcome `survival(time, event)`."""
RANDOM = re.compile(r"\s*\((?P<terms>[^|]*)(?P<bar>\|\|?)(?P<group>[^|]*)\)\s*", re.DOTALL)
POWERS = re.compile(r"(?:\*\*|\^)\s*([0-9]+)")
CALL = re.compile(r"\w\([^()]*\)|\{[^{}]*\}")
MOST_TOGETHER = 6
"""The largest power of a sum of terms, which has products of so many columns."""
COLOURS = re.compile("\x1b\\[[0-9;]*m|[⧛⧚]")


@dataclass(frozen=True)
class Terms:
    """The right side of a formula: terms, each a product of factors."""

    text: str

    @cached_property
    def parsed(self) -> Any:
        """The terms as `formulaic` knows them."""
        return _parsed(self.text)

    @cached_property
    def factors(self) -> dict[str, Expression]:
        """All factors but numbers, by the text that `formulaic` has for them."""
        found = {}
        for factor in (factor for term in self.parsed for factor in term.factors):
            method = factor.eval_method.value
            if method == "lookup":
                found[factor.expr] = Expression.of(f"`{factor.expr}`")
            elif method == "python":
                found[factor.expr] = Expression.of(factor.expr)
        return found


@dataclass(frozen=True)
class Outcome:
    """The left side of a formula."""

    text: str
    value: Expression
    event: str | None = None
    """The column that says whether an event ended the time, for `survival(time, event)`."""
    trials: str | None = None
    """The column of trials, for `successes / trials`."""

    @classmethod
    def of(cls, text: str, has_trials: bool) -> Outcome:
        """Read a left side.

        Args:
            text: the left side.
            has_trials: whether a ratio of two columns means successes of trials.
        """
        survival = re.fullmatch(rf"\s*{SURVIVAL}\s*\((.*),(.*)\)\s*", text, re.DOTALL)
        if survival is not None:
            time, event = (Expression.of(part) for part in survival.groups())
            return cls(text, time, event=_column(event, text))
        value = Expression.of(text)
        tree = value.tree
        if has_trials and isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Div):
            successes, trials = (value.part(side) for side in (tree.left, tree.right))
            return cls(text, successes, trials=_column(trials, text))
        return cls(text, value)


@dataclass(frozen=True)
class Formula:
    """A formula that has been read."""

    text: str
    outcome: Outcome
    terms: Terms
    random: Terms | None = None
    """What varies from site to site; None if nothing does."""
    is_correlated: bool = True
    """Whether what varies is correlated; it is not where two bars stand: (1 + age || site)."""

    @classmethod
    def of(
        cls, text: str, random: str | None = None, has_trials: bool = False, group: str = SITE
    ) -> Formula:
        """Read a formula.

        Args:
            text: such as "readmitted ~ age + C(ward)".
            random: such as "(1 + age | site)", or None.
            has_trials: whether a ratio of two columns as outcome means successes of trials.
            group: the name of the column of sites.
        """
        if not isinstance(text, str):
            raise TypeError(f"`formula` must be text, got {type(text).__name__}.")
        if len(text) > LONGEST:
            raise FormulaError(f"`formula` has {len(text):,} characters; {LONGEST:,} are enough.")
        sides = text.split("~")
        if len(sides) != 2 or not all(side.strip() for side in sides):
            raise FormulaError(
                f'`formula` must be like "outcome ~ age + ward", with one ~, got {text!r}.'
            )
        if "|" in sides[1]:
            raise FormulaError(
                f"`formula` has a |, got {text!r}. Write what varies from site to site as "
                '`random = "(1 + age | site)"`.'
            )
        outcome, terms = Outcome.of(sides[0].strip(), has_trials), Terms(sides[1].strip())
        if not list(terms.parsed):
            raise FormulaError(f"`formula` explains nothing, got {text!r}: name a column, or 1.")
        if random is None:
            return cls(text, outcome, terms)
        return cls(text, outcome, terms, _random(random, group), "||" not in random)

    @property
    def expressions(self) -> list[Expression]:
        """All factors of the right side and of the random part."""
        found = dict(self.terms.factors)
        if self.random is not None:
            found |= self.random.factors
        return list(found.values())

    @property
    def columns(self) -> list[str]:
        """All columns of the formula, the outcome's first."""
        extra = [name for name in (self.outcome.event, self.outcome.trials) if name is not None]
        right = [name for each in self.expressions for name in each.columns]
        return list(dict.fromkeys([*self.outcome.value.columns, *extra, *right]))


def _random(text: str, group: str) -> Terms:
    """What varies from site to site."""
    match = RANDOM.fullmatch(text)
    if match is None:
        raise FormulaError(f'`random` must be like "(1 + age | site)", got {text!r}.')
    named = match["group"].strip().strip("`")
    if named not in (SITE, group):
        raise FormulaError(
            f"`random` varies by {named!r}; only the sites can have parameters of their own: write "
            f'"({match["terms"].strip()} | site)".'
        )
    terms = Terms(match["terms"].strip())
    if not list(terms.parsed):
        raise FormulaError(f"`random` has no terms, got {text!r}: write 1 or a column.")
    return terms


def _parsed(text: str) -> Any:
    """The terms of a right side."""
    from formulaic import Formula as Reader
    from formulaic import SimpleFormula
    from formulaic.errors import FormulaParsingError

    if text.strip() == ".":
        raise FormulaError(
            "`formula` has '.' for all columns; name those that explain the outcome."
        )
    if any(int(power[:3]) > MOST_TOGETHER for power in POWERS.findall(_without_calls(text))):
        raise FormulaError(
            f"`formula` has a power of terms above {MOST_TOGETHER}, got {text!r}. A power of a "
            "column is written I(column**2)."
        )
    try:
        found = Reader(text)
    except (FormulaParsingError, SyntaxError, ValueError, RecursionError) as error:
        reason = COLOURS.sub("", str(error)).split("\n")[0].split(". ")[0].removesuffix(".")
        raise FormulaError(f"`formula` cannot be read, got {text!r}: {reason}.") from None
    if not isinstance(found, SimpleFormula):
        raise FormulaError(f"`formula` has more than one part, got {text!r}: write one side only.")
    return found


def _without_calls(text: str) -> str:
    """The text with nothing between the brackets of calls."""
    while (shorter := CALL.sub("x", text)) != text:
        text = shorter
    return text


def _column(expression: Expression, text: str) -> str:
    """The column that an expression is; anything else is an error."""
    if not expression.is_column:
        raise FormulaError(
            f"`formula` has the outcome {text!r}, in which {expression.text!r} must be a column."
        )
    return expression.columns[0]
