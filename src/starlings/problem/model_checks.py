"""Checks of a user's model when its problem is built, so that errors come before a long run.

JAX traces the functions on the shapes of their arguments. This finds misspelt names, wrong shapes
and code that cannot be compiled, and evaluates nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import nearest
from starlings.problem.shards import Rows

UNTRACEABLE = (
    jax.errors.ConcretizationTypeError,  # Python's `if`, `while`, `float()`, `range()`
    jax.errors.TracerArrayConversionError,  # functions of NumPy and SciPy
    jax.errors.TracerIntegerConversionError,  # a traced number as an index of a Python list
)
"""Errors that JAX raises for code that it cannot compile."""


def check_likelihood(
    log_likelihoods: Callable[..., Any], dim: int, rows: Rows, names: Iterable[str]
) -> None:
    """Refuse a log-likelihood that cannot be evaluated on rows like these.

    Args:
        log_likelihoods: takes a flat vector z and rows, and returns one number for each row.
        dim: the length of z.
        rows: some rows, of which only names, shapes and types matter.
        names: of the parameters, for messages.
    """
    known = {"columns of the rows": list(rows), "parameters": list(names)}
    found = _traced("log_likelihood", known, log_likelihoods, _flat(dim), _shapes(rows))
    count = len(next(iter(rows.values())))
    if getattr(found, "shape", None) != (count,):
        shape = getattr(found, "shape", type(found).__name__)
        raise ValueError(
            f"`log_likelihood` must return one number for a row, got {shape} for {count} rows; sum "
            "over the entries of a row."
        )


def check_prior(
    log_prior: Callable[..., Any], dim: int, names: Iterable[str], what: str = "log_prior"
) -> None:
    """Refuse a log-prior of z (dim,) that cannot be evaluated, or that is not one number."""
    found = _traced(what, {"parameters": list(names)}, log_prior, _flat(dim))
    if getattr(found, "shape", None) != ():
        shape = getattr(found, "shape", type(found).__name__)
        raise ValueError(f"`{what}` must return one number, got {shape}; sum over the entries.")


def check_report(compute: Callable[..., Any], parameters: Any) -> dict[str, Any]:
    """The shapes by name of the values that are saved for a draw, if they can be computed."""
    flat = _flat(parameters.dim)
    known = {"parameters": list(parameters.blocks)}
    return _traced("derived", known, lambda z: compute(parameters.constrain(z)), flat)


def check_mapping(values: Any) -> dict[str, Any]:
    """The values by name that `derived` returned; refused if it returned something else."""
    if not isinstance(values, Mapping):
        kind = type(values).__name__
        raise ValueError(f"`derived` must return a mapping of names to values, got {kind}.")
    return dict(values)


def _flat(dim: int) -> jax.ShapeDtypeStruct:
    """The shape and the type of a flat vector z."""
    return jax.ShapeDtypeStruct((dim,), np.float64)


def _shapes(rows: Rows) -> Rows:
    """The shapes and the types of the columns."""
    return {name: jax.ShapeDtypeStruct(column.shape, column.dtype) for name, column in rows.items()}


def _traced(
    what: str, known: dict[str, list[str]], function: Callable[..., Any], *arguments: Any
) -> Any:
    """The shape of what a user's function returns, or an error that says what is wrong with it.

    Args:
        what: the name of the function, for messages.
        known: names that the function can ask for, by what they are, such as "parameters".
        function: the user's function.
        arguments: their shapes and types.
    """

    def as_arrays(*arguments: Any) -> Any:
        return jax.tree.map(jnp.asarray, function(*arguments))

    try:
        with jax.enable_x64(True):
            return jax.eval_shape(as_arrays, *arguments)
    except KeyError as error:
        wanted = error.args[0] if error.args else ""
        lists = " and ".join(f"the {kind} are {names}" for kind, names in known.items())
        hint = nearest(wanted, [name for names in known.values() for name in names])
        raise ValueError(f"`{what}` asks for {wanted!r}, but {lists}.{hint}") from error
    except UNTRACEABLE as error:
        raise ValueError(
            f"`{what}` cannot be compiled: it uses a parameter or a column in a Python `if`, "
            "`while`, `float()` or a function of NumPy. Write `jnp.where(condition, a, b)` for "
            "`if`, and functions of `jax.numpy` and `jax.scipy`."
        ) from error
    except ValueError as error:
        if f"`{what}`" in str(error):  # the message names the function already
            raise
        raise ValueError(f"`{what}` fails: {error}") from error
    except Exception as error:
        raise ValueError(f"`{what}` fails with {type(error).__name__}: {error}") from error
