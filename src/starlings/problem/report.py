"""The named values that are saved for every draw: the parameters, or values computed from them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.coordinates import Frame, times
from starlings.problem.model_checks import check_mapping, check_report
from starlings.problem.parameters import Parameters, check_names

Values = dict[str, Any]
"""Arrays by name."""


@dataclass(frozen=True, eq=False)
class Report:
    """Which named values are saved for a draw, computed from the model's parameters.

    >>> odds = Report(lambda parameters: {**parameters, "odds": parameters["p"] / 2})
    >>> odds.compute({"p": 0.5})
    {'p': 0.5, 'odds': 0.25}
    """

    compute: Callable[[Values], Values]
    """Constrained parameters by name -> values to save by name; written in JAX."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For a saved vector, by its name: the names of its entries."""
    names: Mapping[str, str] = field(default_factory=dict)
    """For a parameter that is saved under another name: its own name -> the other name."""
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For a saved array, by its name: the names of its axes."""
    coords: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """By the name of an axis: the labels along it."""

    @classmethod
    def with_derived(cls, derived: Callable[[Values], Values]) -> Report:
        """The parameters and, beside them, what a user's function computes from them."""
        return cls(lambda named: {**named, **check_mapping(derived(named))})

    def checked(self, parameters: Parameters) -> Report:
        """This report, if it can be computed and its names can be names of variables in a file."""
        shapes = check_report(self.compute, parameters)
        check_names({name: value.ndim for name, value in shapes.items()})
        return self


def num_values(parameters: Parameters, report: Report | None) -> int:
    """The number of floating-point numbers that are saved for one draw of one agent."""
    if report is None:
        return sum(math.prod(block.shape) for block in parameters.blocks.values())
    shapes = check_report(report.compute, parameters).values()
    return sum(math.prod(value.shape) for value in shapes)


def named_values(
    parameters: Parameters, report: Report | None, frame: Frame | None, z: Any
) -> dict[str, np.ndarray]:
    """The values by name at flat vectors z (..., dim), each of shape (..., shape of the value)."""
    with jax.enable_x64(True):
        flat = jnp.asarray(z, float)
        lead = flat.shape[:-1]
        found = _named_values(parameters, report, frame, flat.reshape(-1, parameters.dim))
        return {k: np.asarray(v).reshape(lead + v.shape[1:]) for k, v in found.items()}


@functools.partial(jax.jit, static_argnums=(0, 1))
def _named_values(
    parameters: Parameters, report: Report | None, frame: Frame | None, z: jax.Array
) -> dict[str, jax.Array]:
    """The values by name at flat vectors z (point, dim) in the coordinates of a frame."""
    if frame is not None:
        z = frame.centre + jax.vmap(functools.partial(times, frame.scale))(z)

    def at_one_point(z: jax.Array) -> dict[str, jax.Array]:
        named = parameters.constrain(z)
        return named if report is None else report.compute(named)

    return jax.vmap(at_one_point)(z)


def values_as_text(values: Mapping[str, np.ndarray]) -> str:
    """Values by name in one line, such as "beta = [1. 2.], sigma = 0.5", for messages."""

    def number(value: np.ndarray) -> str:
        return np.array2string(value, precision=3, threshold=6) if value.ndim else f"{value:.3g}"

    return ", ".join(f"{name} = {number(value)}" for name, value in values.items())
