"""Expressions of a formula, such as `bs(log(stay), df=4)`: a short list of functions, and no code.

A formula may come in the study file of another organisation. Nothing of it is ever handed to
Python's `eval`: an expression is read as a tree, everything in the tree has to be on the lists
below, and the values are computed by walking it. What can stand in an expression:

    columns               age, `days in hospital` (in backticks)
    numbers, arithmetic   + - * / **, comparisons such as age > 65, which are 0 or 1; in I(...)
    functions             log, log2, log10, log1p, exp, sqrt, abs
    with a memory         center, scale, poly, bs, cr (also called cs), see `transforms`
    categories            C(ward), C(ward, Sum), C(ward, Treatment("B")), C(ward, levels=["A", "B"])
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from starlings.errors import FormulaError
from starlings.formulas.allowed import (
    CATEGORY_CALL,
    CODINGS,
    COMPARISONS,
    FUNCTIONS,
    OPERATORS,
    STATEFUL,
    check_expression,
    constant,
    function_of,
    refusal,
    walk,
)

LONGEST = 10_000
"""Characters of a formula, at most."""
BACKTICKS = re.compile("`([^`]*)`")
PLACEHOLDER = "_column_in_backticks_"
"""What stands for a name in backticks while an expression is read."""


@dataclass(frozen=True)
class Category:
    """A column of categories in a formula."""

    column: str
    levels: tuple[str, ...] = ()
    """Its levels, if the formula says them."""
    coding: str = "Treatment"
    """One of `CODINGS`."""
    reference: str | None = None
    """The reference level, if the formula says it."""


@dataclass(frozen=True)
class Call:
    """A call of one of the `STATEFUL` functions."""

    key: str
    """The call as text, by which its state is known."""
    name: str
    argument: ast.expr
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Expression:
    """An expression that has been read, and in which everything is allowed.

    >>> Expression.of("log(age) + scale(`a b`)").columns
    ['age', 'a b']
    >>> Expression.of("open('x')")
    Traceback (most recent call last):
    ...
    starlings.errors.FormulaError: `formula` calls open(...), which is not one of C, I, abs, bs, ...
    """

    text: str
    tree: ast.expr
    names: Mapping[str, str] = field(default_factory=dict)
    """What placeholders stand for."""

    @classmethod
    def of(cls, text: str) -> Expression:
        """Read an expression; what is not allowed in one is an error."""
        names: dict[str, str] = {}

        def replaced(match: re.Match[str]) -> str:
            name = f"{PLACEHOLDER}{len(names)}"
            names[name] = match.group(1)
            return name

        try:
            tree = ast.parse(BACKTICKS.sub(replaced, text.strip()), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise FormulaError(
                f"`formula` has {text!r}, which cannot be read. Names with spaces stand in "
                "backticks, such as `days in hospital`."
            ) from None
        found = cls(text, tree, names)
        try:
            if function_of(tree) == CATEGORY_CALL and tree.args:  # type: ignore[attr-defined]
                found._category(tree)  # type: ignore[arg-type]
            else:
                check_expression(tree, found._text)
        except RecursionError:
            raise FormulaError("`formula` has an expression that is nested too deeply.") from None
        return found

    @cached_property
    def columns(self) -> list[str]:
        """The columns that it reads, in order."""
        found: dict[str, None] = {}
        for node in walk(self.tree):
            if isinstance(node, ast.Name):
                found[self._name(node)] = None
        return list(found)

    @cached_property
    def category(self) -> Category | None:
        """The column of categories that it is, if it is `C(...)`."""
        node = self.tree
        if not (isinstance(node, ast.Call) and node.func.id == CATEGORY_CALL):  # type: ignore[attr-defined]
            return None
        return self._category(node)

    @property
    def is_column(self) -> bool:
        """Whether it is a column as it is."""
        return isinstance(self.tree, ast.Name)

    @cached_property
    def calls(self) -> list[Call]:
        """Its calls with a memory; a call stands after those in its argument."""
        nodes = [node for node in walk(self.tree) if isinstance(node, ast.Call)]
        return [self._call(node) for node in reversed(nodes) if function_of(node) in STATEFUL]

    def depth(self, call: Call) -> int:
        """How many calls with a memory are around each other in the argument of a call."""
        inner = self.part(call.argument).calls
        return max((1 + self.depth(each) for each in inner), default=0)

    def value(self, columns: Mapping[str, np.ndarray], apply: Callable[[Call, Any], Any]) -> Any:
        """Its value in every row.

        Args:
            columns: numbers by the name of a column.
            apply: the value of a call with a memory, from the value of its argument.
        """
        with np.errstate(all="ignore"):  # the caller refuses what is not finite
            return self._value(self.tree, columns, apply)

    def part(self, node: ast.expr) -> Expression:
        """A part of it as an expression."""
        return Expression(self._text(node), node, self.names)

    def _value(self, node: ast.expr, columns: Mapping[str, np.ndarray], apply: Any) -> Any:
        if isinstance(node, ast.Name):
            return columns[self._name(node)]
        if isinstance(node, ast.Constant):
            return float(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand, columns, apply)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp):
            sides = (self._value(side, columns, apply) for side in (node.left, node.right))
            return OPERATORS[type(node.op)](*sides)
        if isinstance(node, ast.Compare):
            sides = (self._value(side, columns, apply) for side in (node.left, node.comparators[0]))
            return np.asarray(COMPARISONS[type(node.ops[0])](*sides), float)
        assert isinstance(node, ast.Call)
        value = self._value(node.args[0], columns, apply)
        name = function_of(node)
        return FUNCTIONS[name](value) if name in FUNCTIONS else apply(self._call(node), value)

    def _name(self, node: ast.Name) -> str:
        return self.names.get(node.id, node.id)

    def _text(self, node: ast.AST) -> str:
        """A part of the expression as text, with names in backticks."""
        text = ast.unparse(node)
        for placeholder, name in self.names.items():
            text = text.replace(placeholder, f"`{name}`")
        return text

    def _call(self, node: ast.Call) -> Call:
        name = function_of(node)
        settings = dict(zip(STATEFUL[name], map(constant, node.args[1:]), strict=False))
        settings |= {str(each.arg): constant(each.value) for each in node.keywords}
        return Call(self._text(node), name, node.args[0], settings)

    def _category(self, node: ast.Call) -> Category:
        column, *more = node.args
        if not isinstance(column, ast.Name) or len(more) > 1:
            raise refusal(node, "C(...) takes one column, such as C(ward)", self._text)
        settings = {each.arg: each.value for each in node.keywords}
        if unknown := set(settings) - {"levels"}:
            raise refusal(node, f"C(...) has no argument {sorted(map(str, unknown))}", self._text)
        levels = constant(settings["levels"]) if "levels" in settings else ()
        coding, reference = self._coding(more[0]) if more else ("Treatment", None)
        found = tuple(str(level) for level in levels or ())
        return Category(self._name(column), found, coding, reference)

    def _coding(self, node: ast.expr) -> tuple[str, str | None]:
        """How a category is coded, and its reference level if that is said."""
        if isinstance(node, ast.Name) and node.id in CODINGS:
            return node.id, None
        if isinstance(node, ast.Call) and function_of(node) == "Treatment":
            given = [*node.args, *(each.value for each in node.keywords)]
            if len(given) == 1 and isinstance(given[0], ast.Constant):
                return "Treatment", str(given[0].value)
        raise refusal(node, 'a category is coded by Sum, Treatment or Treatment("B")', self._text)
