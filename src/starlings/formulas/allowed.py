"""What may stand in an expression of a formula; everything else is refused, with what may.

The lists below are all there is. See `expressions` for what they mean.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from starlings.errors import FormulaError, nearest

LARGEST_POWER = 20
"""The largest exponent that a formula may write, so that no number grows without bound."""
FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "I": lambda value: value,
}
"""Functions of one column."""
SPLINES = ("bs", "cr", "cs")
STATEFUL: Mapping[str, tuple[str, ...]] = {
    "center": (),
    "scale": ("center", "scale", "ddof"),
    "poly": ("degree", "raw"),
    "bs": (
        *("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
        "extrapolation",
    ),
    **dict.fromkeys(
        ("cr", "cs"), ("df", "knots", "lower_bound", "upper_bound", "constraints", "extrapolation")
    ),
}
"""Functions that remember numbers of the data, such as a mean, and their settings in order."""
WIDE = ("poly", *SPLINES)
"""Those of them with several columns, which can only be a whole term."""
CATEGORY_CALL = "C"
"""What makes a term of categories of a column."""
ELSEWHERE: Mapping[str, str] = {
    "offset": 'Compute such a column beforehand, and name it in `offset = "column"`',
    "factor": "Write C(...) for categories",
    **dict.fromkeys(("ns", "s", "pspline"), "Write bs(...) or cr(...) for a smooth curve"),
    "Surv": "Write survival(time, event) as the outcome",
    "cbind": "Write successes / trials as the outcome",
}
"""What is written instead of functions that formulas of other programs have."""
CODINGS = ("Treatment", "Sum")
"""How a category is coded in `C(column, coding)`."""
OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
COMPARISONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
Spelled = Callable[[ast.AST], str]
"""From a part of an expression to its text."""


def check_expression(tree: ast.expr, spelled: Spelled) -> None:
    """Refuse whatever is not allowed in an expression that is no category."""
    if isinstance(tree, ast.Call) and function_of(tree) in WIDE:
        _check_call(tree, spelled)
    else:
        _check_node(tree, spelled)


def _check_node(node: ast.AST, spelled: Spelled) -> None:
    """Refuse a part of an expression, or what is in it."""
    if isinstance(node, ast.Call):
        if function_of(node) in WIDE:
            raise refusal(
                node,
                f"{function_of(node)}(...) has several columns and can only be a term",
                spelled,
            )
        _check_call(node, spelled)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        _check_power(node, spelled)
        _check_node(node.left, spelled)
        _check_node(node.right, spelled)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        _check_node(node.operand, spelled)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        if type(node.ops[0]) not in COMPARISONS:
            raise refusal(node, "comparisons are <, <=, >, >=, == and !=", spelled)
        _check_node(node.left, spelled)
        _check_node(node.comparators[0], spelled)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
        raise refusal(node, "a power of a column is written with **, such as I(age**2)", spelled)
    elif not (isinstance(node, ast.Name) or is_number(node)):
        raise refusal(
            node, "an expression may have columns, numbers, arithmetic and known functions", spelled
        )


def _check_power(node: ast.BinOp, spelled: Spelled) -> None:
    """Refuse powers that could be numbers without bound."""
    if not isinstance(node.op, ast.Pow):
        return
    power = node.right.operand if isinstance(node.right, ast.UnaryOp) else node.right
    has_column = any(isinstance(each, ast.Name) for each in ast.walk(node.left))
    if not (is_number(power) and abs(power.value) <= LARGEST_POWER and has_column):  # type: ignore[attr-defined]
        raise refusal(
            node, f"a power has a column below and a number up to {LARGEST_POWER} above", spelled
        )


def _check_call(node: ast.Call, spelled: Spelled) -> None:
    """Refuse functions that are not on the lists, and arguments that they do not have."""
    name = function_of(node)
    if name not in FUNCTIONS and name not in STATEFUL:
        known = sorted([*FUNCTIONS, *STATEFUL, CATEGORY_CALL])
        hint = nearest(name, known)
        if name == CATEGORY_CALL:
            raise refusal(node, "C(...) takes one column, and can only be a term", spelled)
        shown = f"{name}(...)" if name else repr(spelled(node))
        remedy = ELSEWHERE.get(name, "Compute such a column beforehand")
        raise FormulaError(
            f"`formula` calls {shown}, which is not one of {', '.join(known)}: formulas run no "
            f"code. {remedy}.{'' if name in ELSEWHERE else hint}"
        )
    if not node.args:
        raise refusal(node, f"{name}(...) needs a column", spelled)
    _check_node(node.args[0], spelled)
    known_settings = STATEFUL.get(name, ())
    given = [each.arg for each in node.keywords]
    if len(node.args) > 1 + len(known_settings) or not set(given) <= set(known_settings):
        allowed = ", ".join(known_settings) or "no further arguments"
        raise refusal(node, f"{name}(column, ...) takes {allowed}", spelled)
    for each in [*node.args[1:], *(keyword.value for keyword in node.keywords)]:
        constant(each)


def refusal(node: ast.AST, text: str, spelled: Spelled) -> FormulaError:
    """The error about a part of an expression."""
    return FormulaError(f"`formula` has {spelled(node)!r}: {text}.")


def walk(node: ast.AST) -> list[ast.AST]:
    """What is computed, without settings and names of functions; an outer node before an inner."""
    found = [node]
    if isinstance(node, ast.Call):
        return found + walk(node.args[0])
    for child in ast.iter_child_nodes(node):
        found += walk(child)
    return found


def function_of(node: ast.AST) -> str:
    """The name of the function that is called; empty if it has none, or nothing is called."""
    is_plain = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return node.func.id if is_plain else ""  # type: ignore[attr-defined]


def is_number(node: ast.AST) -> bool:
    """Whether a part of an expression is a number."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def constant(node: ast.expr) -> Any:
    """A setting: a number, a text, true or false, or a list of these."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            return node.value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as size)):
            return -size
        case ast.List(elts=entries) | ast.Tuple(elts=entries):
            return [constant(entry) for entry in entries]
    raise FormulaError(
        f"`formula` has the setting {ast.unparse(node)!r}, which must be a number, a text or a "
        "list of such."
    )
