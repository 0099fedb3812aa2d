"""What a solver is given, what it finds, and what a rule for its steps has to provide."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from starlings.problem.likelihood import derivatives_of


class Objective(NamedTuple):
    """A smooth function phi of a vector, and a way to all its derivatives at once."""

    value: Callable[[Float[Array, " dim"]], Float[Array, ""]]
    """The function phi."""
    derivatives: Callable[
        [Float[Array, " dim"]],
        tuple[Float[Array, ""], Float[Array, " dim"], Float[Array, "dim dim"]],
    ]
    """Value, gradient and Hessian of phi at a point."""

    @classmethod
    def of(cls, function: Callable[[Float[Array, " dim"]], Float[Array, ""]]) -> Objective:
        """An objective whose derivatives come from automatic differentiation."""
        return cls(function, partial(derivatives_of, function))


class Minimum(NamedTuple):
    """A local minimum, and how well it was found."""

    point: Float[Array, " dim"]
    """Where the minimum is."""
    residual: Float[Array, ""]
    """The Newton decrement at the last point where it was computed; 0 for a closed form, and
    infinite if there is no minimum."""
    iterations: Int[Array, ""]
    """Evaluations of derivatives, each of which makes one step or shortens it."""


class Direction(NamedTuple):
    """Where to go from a point."""

    value: Float[Array, ""]
    """phi at the point."""
    vector: Float[Array, " dim"]
    """The whole step, before a line search shortens it."""
    decrement: Float[Array, ""]
    """The Newton decrement at the point, not a number if there is no such step."""
    memory: Any
    """What the rule remembers for the next point: a pytree, or None."""


class Directions(Protocol):
    """A rule for the steps of a search."""

    @property
    def settling(self) -> int:
        """Steps in a row with a decrement below the tolerance after which a search ends."""

    def tolerance(self, dtype: Any) -> float:
        """The decrement below which a search settles, in units of the root of phi."""

    def start(self, point: Float[Array, " dim"]) -> Any:
        """The memory at the start of a search."""

    def at(self, objective: Objective, point: Float[Array, " dim"], memory: Any) -> Direction:
        """The direction at a point."""


def tolerance(dtype: Any) -> float:
    """The largest accepted residual, eps^(1/3); the Newton step that follows leaves its square."""
    return float(jnp.finfo(dtype).eps) ** (1 / 3)
