"""Convex sets of parameters, by the map that takes a point to the nearest point of the set.

That map P is the proximal map, with any step, of the function g that is 0 in the set and infinite
outside: a set is a penalty (see `penalties`). Its Moreau envelope with the smoothing s,

    g^s(x) = |x - P(x)|^2 / 2s,   with the gradient (x - P(x)) / s                          (1)

is a potential that is smooth, and 0 in the set.

    Box        a <= x_k <= b for every coordinate k, with numbers or vectors a and b
    Ball       |x - c| <= r
    Simplex    x_k >= 0 and sum_k x_k = s
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_positive
from starlings.problem.penalties import Penalty, numbers
from starlings.pytrees import pytree

ROUNDING = 100
"""Distance from a set, in units of the rounding of the largest coordinate, that counts as none."""


class Support(Penalty):
    """A closed convex set of parameters."""

    @abc.abstractmethod
    def project(self, x: jax.Array) -> jax.Array:
        """P(x), the point of the set that is nearest to x, (dim,)."""

    def value(self, x: jax.Array) -> jax.Array:
        """0 in the set, and infinite outside."""
        rounding = ROUNDING * jnp.finfo(x.dtype).eps * (1 + jnp.max(jnp.abs(x)))
        is_inside = jnp.max(jnp.abs(x - self.project(x))) <= rounding
        return jnp.where(is_inside, 0.0, jnp.inf).astype(x.dtype)

    def prox(self, x: jax.Array, step: Any) -> jax.Array:
        """P(x), whatever the step."""
        return self.project(x)

    def part(self, share: Any) -> Support:
        """The set itself: a part of 0 and infinity is the same again."""
        return self


@pytree
@dataclass(frozen=True)
class Box(Support):
    """An interval for every coordinate; in one dimension an interval.

    Args:
        lower: a, one number for all coordinates or one for each; minus infinity for no limit.
        upper: b, in the same way.

    >>> import jax.numpy as jnp
    >>> [float(entry) for entry in Box(0.0, 1.0).project(jnp.array([-2.0, 0.5, 3.0]))]
    [0.0, 0.5, 1.0]
    """

    lower: Any = -np.inf
    upper: Any = np.inf

    def __post_init__(self) -> None:
        lower, upper = numbers("lower", self.lower), numbers("upper", self.upper)
        if lower.ndim and upper.ndim and lower.shape != upper.shape:
            raise ValueError(
                f"`lower` and `upper` must have as many numbers, got {lower.size} and {upper.size}."
            )
        if not np.all(lower < upper):
            raise ValueError(f"`lower` must be below `upper`, got {self.lower} and {self.upper}.")

    def project(self, x: jax.Array) -> jax.Array:
        """Every coordinate to its interval."""
        return jnp.clip(x, jnp.asarray(self.lower, x.dtype), jnp.asarray(self.upper, x.dtype))


@pytree
@dataclass(frozen=True)
class Ball(Support):
    """All points within a distance of the centre.

    Args:
        radius: r.
        centre: c, one number for all coordinates or one for each.

    >>> import jax.numpy as jnp
    >>> [float(entry) for entry in Ball(5.0).project(jnp.array([6.0, 8.0]))]
    [3.0, 4.0]
    """

    radius: Any
    centre: Any = 0.0

    def __post_init__(self) -> None:
        check_positive(radius=self.radius)

    def project(self, x: jax.Array) -> jax.Array:
        """Along the ray from the centre."""
        centre = jnp.asarray(self.centre, x.dtype)
        away = x - centre
        squared = away @ away
        is_outside = squared > self.radius**2
        distance = jnp.sqrt(jnp.where(is_outside, squared, 1.0))
        return jnp.where(is_outside, centre + away * (self.radius / distance), x)


@pytree
@dataclass(frozen=True)
class Simplex(Support):
    """All points without negative coordinates whose sum is given, such as probabilities.

    Args:
        total: s.

    >>> import jax.numpy as jnp
    >>> [float(entry) for entry in Simplex().project(jnp.array([0.5, 1.5, -1.0]))]
    [0.0, 1.0, 0.0]
    """

    total: Any = 1.0

    def __post_init__(self) -> None:
        check_positive(total=self.total)

    def project(self, x: jax.Array) -> jax.Array:
        """max(x - t, 0), with the t that makes the sum right."""
        descending = -jnp.sort(-x)
        excess = (jnp.cumsum(descending) - self.total) / jnp.arange(1, x.size + 1)
        threshold = jnp.max(excess)  # the mean excess is largest over the coordinates that stay
        return jnp.maximum(x - threshold, 0.0)


SUPPORTS: Mapping[str, type[Support]] = {"box": Box, "ball": Ball, "simplex": Simplex}
"""The sets by name, for studies."""
