"""Functions of a formula that remember numbers of the data: center, scale, poly, bs and cr.

What they remember (their state) is agreed by sums over all sites, and is kept with the result: with
it, and without any row, they have the same columns for new rows. With the mean m of all n rows,

    center, scale    x - m, and (x - m) / s   with s^2 = sum (x - m)^2 / (n - ddof)             (1)
    poly             P_0 = 1, P_{k+1} = (x - a_k) P_k - (N_k / N_{k-1}) P_{k-1},
                     with N_k = sum P_k^2 and a_k = sum x P_k^2 / N_k; columns P_k / N_k^(1/2)  (2)
    bs, cr           bounds, and knots at quantiles: see `knots`

These are the columns that `formulaic` makes of the pooled rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from starlings.errors import FormulaError
from starlings.formulas.allowed import SPLINES
from starlings.formulas.expressions import Call
from starlings.formulas.knots import MOMENTS, Values, agreed_range, agreed_spread
from starlings.formulas.sums import Agreement, Parts

MOST_COLUMNS = 50
"""Columns of one spline or polynomial, at most."""
EXTRAPOLATIONS = ("raise", "clip", "extend", "zero")
"""What a spline does outside of its bounds."""
DEGREE = 3
"""The default degree of `bs`."""
State = dict[str, Any]
"""What a function remembers, in types that JSON has."""


def agreed_state(call: Call, values: Values) -> Agreement:
    """The state of a call, from the values of its argument at each local site."""
    if call.name in SPLINES:
        return _spline(call, values)
    if call.name == "poly":
        return _poly(call, values)
    return _scale(call, values)


def applied(call: Call, state: Mapping[str, Any], value: np.ndarray) -> Any:
    """The value of a call in rows whose argument has this value."""
    value = np.broadcast_to(np.asarray(value, float), np.shape(value))
    if call.name in ("center", "scale"):
        centred = value - state["center"]
        return centred if state["scale"] is None else centred / state["scale"]  # (1)
    if call.name == "poly":
        return _poly_columns(call, state, value)
    return _spline_columns(call, state, value)


def _scale(call: Call, values: Values) -> Agreement:
    ddof = _number(call, "ddof", 1)
    is_centred = call.name == "center" or call.settings.get("center", True) is True
    spread = yield from agreed_spread(values, f"`{call.key}`")
    square = spread.sd**2 if is_centred else spread.sd**2 + spread.mean**2
    sd = float(np.sqrt(square * spread.rows / (spread.rows - ddof)))
    is_scaled = call.name == "scale" and call.settings.get("scale", True) is True
    return {"center": spread.mean if is_centred else 0.0, "scale": sd if is_scaled else None}


def _poly(call: Call, values: Values) -> Agreement:
    """The coefficients of eq. (2), from sums of u = (x - m) / s, which are of moderate size."""
    degree = _count(call, "degree", 1)
    if call.settings.get("raw"):
        return {}
    rows, m, s = yield from agreed_spread(values, f"`{call.key}`")
    columns = [(v - m) / s for v in values]
    norms, alphas = [float(rows)], [0.0]
    before, last = [np.zeros_like(u) for u in columns], [np.ones_like(u) for u in columns]
    for k in range(degree):
        beta = norms[k] / norms[k - 1] if k else 0.0
        new = [
            (u - alphas[k]) * p - beta * q for u, p, q in zip(columns, last, before, strict=True)
        ]
        before, last = last, new
        sums = [[(p**2).sum(), (u * p**2).sum()] for u, p in zip(columns, last, strict=True)]
        norm, product = yield Parts(MOMENTS, np.array(sums))
        if norm < 1e-10 * rows:
            raise FormulaError(f"`{call.key}` has as few as {k + 1} values: take a lower degree.")
        norms.append(float(norm))
        alphas.append(float(product / norm))
    return {
        "alpha": [m + s * a for a in alphas[:degree]],
        "norms2": [norm * s ** (2 * k) for k, norm in enumerate(norms)],
    }


def _poly_columns(call: Call, state: Mapping[str, Any], x: np.ndarray) -> Any:
    from formulaic.materializers.types import FactorValues

    degree = _count(call, "degree", 1)
    if call.settings.get("raw"):
        columns = [x**k for k in range(1, degree + 1)]
    else:
        norms, columns, before = state["norms2"], [np.ones_like(x)], np.zeros_like(x)
        for k in range(degree):
            beta = norms[k] / norms[k - 1] if k else 0.0
            columns.append((x - state["alpha"][k]) * columns[-1] - beta * before)  # (2)
            before = columns[-2]
        columns = [c / np.sqrt(n) for c, n in zip(columns[1:], norms[1:], strict=True)]
    return FactorValues({k + 1: column for k, column in enumerate(columns)}, **_NUMBERS)


def _spline(call: Call, values: Values) -> Agreement:
    settings = call.settings
    inner = _inner_knots(call)
    given = settings.get("knots")
    probabilities = [] if given is not None else np.linspace(0, 1, inner + 2)[1:-1].tolist()
    found = yield from agreed_range(values, probabilities, f"`{call.key}`")
    lower = _number(call, "lower_bound", found.lower)
    upper = _number(call, "upper_bound", found.upper)
    knots = sorted(found.quantiles if given is None else _knots(call))
    if not all(a < b for a, b in zip([lower, *knots], [*knots, upper], strict=True)):
        raise FormulaError(
            f"`{call.key}`: two of its knots {knots} and bounds {lower:g} and {upper:g} are the "
            "same, or not in order: many rows have one value. Take a smaller `df`, or give `knots`."
        )
    state = {"lower_bound": lower, "upper_bound": upper, "precision": found.precision}
    if call.name == "bs":
        degree = _count(call, "degree", DEGREE)
        return {**state, "knots": [lower] * (degree + 1) + knots + [upper] * (degree + 1)}
    state |= {"knots": [lower, *knots, upper], "constraints": None, "cyclic": False}
    if settings.get("constraints") == "center":
        columns = [_wide(_spline_columns(call, state, v)) for v in values]
        sums = [[len(c), *c.sum(axis=0)] for c in columns]
        total = yield Parts(MOMENTS, np.array(sums))
        state["constraints"] = [(total[1:] / total[0]).tolist()]
    return state


def _spline_columns(call: Call, state: Mapping[str, Any], x: np.ndarray) -> Any:
    from formulaic.transforms import basis_spline, natural_cubic_spline

    lower, upper = state["lower_bound"], state["upper_bound"]
    how = call.settings.get("extrapolation", "raise")
    if how not in EXTRAPOLATIONS:
        raise FormulaError(
            f"`{call.key}`: `extrapolation` must be one of {list(EXTRAPOLATIONS)}, got {how!r}."
        )
    if how == "raise" and len(outside := x[(x < lower) | (x > upper)]):
        raise FormulaError(
            f"`{call.key}` has the value {outside[0]:g}, and the spline was made for values from "
            f'{lower:g} to {upper:g}. Leave such rows out, or write extrapolation="clip" or '
            '"extend" in it.'
        )
    function = basis_spline if call.name == "bs" else natural_cubic_spline
    known = {**state}
    if known.get("constraints") is not None:
        known["constraints"] = np.array(known["constraints"])
    own = ("degree", "include_intercept") if call.name == "bs" else ()
    settings = {name: call.settings[name] for name in own if name in call.settings}
    try:
        return function(x, **settings, extrapolation=how, _state=known)
    except ValueError as error:
        raise FormulaError(f"`{call.key}`: {error}") from None


def _inner_knots(call: Call) -> int:
    """The number of knots between the bounds, from `df`."""
    settings, df = call.settings, _count(call, "df", 0)
    if (settings.get("knots") is None) == (not df) and not (call.name == "bs" and not df):
        raise FormulaError(f"`{call.key}` needs either `df` or `knots`, such as df=4.")
    if call.name == "bs":
        least = _count(call, "degree", DEGREE) + bool(settings.get("include_intercept"))
        least_df, inner = least, df - least
    else:
        is_centred = settings.get("constraints") == "center"
        least_df, inner = 2 - is_centred, df - 2 + is_centred
    if df and inner < 0:
        raise FormulaError(f"`{call.key}`: `df` must be at least {least_df}.")
    return max(0, inner)


def _count(call: Call, name: str, default: int) -> int:
    value = call.settings.get(name, default)
    if value is None:
        return default
    if type(value) is not int or not 0 <= value <= MOST_COLUMNS:
        raise FormulaError(
            f"`{call.key}`: `{name}` must be a whole number up to {MOST_COLUMNS}, got {value!r}."
        )
    return value


def _number(call: Call, name: str, default: float) -> float:
    """A setting that is a number."""
    value = call.settings.get(name)
    if value is None:
        return default
    if type(value) not in (int, float):
        raise FormulaError(f"`{call.key}`: `{name}` must be a number, got {value!r}.")
    return float(value)


def _knots(call: Call) -> list[float]:
    """The knots that the formula gives."""
    given = call.settings["knots"]
    if not isinstance(given, list) or not all(type(knot) in (int, float) for knot in given):
        raise FormulaError(f"`{call.key}`: `knots` must be a list of numbers, got {given!r}.")
    return [float(knot) for knot in given]


def _wide(values: Any) -> np.ndarray:
    """Columns as one array (row, column)."""
    return np.column_stack(list(values.values()))


_NUMBERS: dict[str, Any] = {
    "kind": "numerical",
    "spans_intercept": False,
    "format": "{name}[{field}]",
    "encoded": False,
}
"""How `formulaic` takes several columns of numbers."""
