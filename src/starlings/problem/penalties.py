"""Convex functions g of the parameters that need no derivative: penalties, by their proximal map.

A penalty takes the place of a part of the prior: exp(-g) is a density, up to a factor. It may have
kinks, or be infinite outside of a set (see `supports`). All that a sampler needs of it is

    prox_{t g}(x) = argmin_z  g(z) + |z - x|^2 / 2t,      t > 0                             (1)

which is a point, however rough g is. It makes a smooth function of any g, the Moreau envelope

    g^s(x) = min_z  g(z) + |z - x|^2 / 2s,    grad g^s(x) = (x - prox_{s g}(x)) / s         (2)

that comes to g as s goes to zero. For coordinates x_k and groups x_G of them,

    Lasso        sum_k a_k |x_k|        prox: x_k moved towards 0 by t a_k, and not beyond  (3)
    GroupLasso   sum_G a_G |x_G|        prox: x_G moved towards 0 by t a_G, and not beyond  (4)
    Ridge        p |x|^2 / 2            prox: x / (1 + t p)                                 (5)

exp(-g) is a Laplace density of scale 1 / a_k for (3), and N(0, I / p) for (5).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import check_positive
from starlings.pytrees import choice, pytree

if TYPE_CHECKING:
    from starlings.problem import Problem


class Penalty(abc.ABC):
    """A closed convex function of the parameters, in the model's unconstrained coordinates."""

    @abc.abstractmethod
    def value(self, x: jax.Array) -> jax.Array:
        """g(x), one number; infinite where x is not allowed."""

    @abc.abstractmethod
    def prox(self, x: jax.Array, step: Any) -> jax.Array:
        """The proximal map of g with t = `step`, eq. (1), (dim,)."""

    def removed(self, x: jax.Array, step: Any) -> jax.Array:
        """x - prox_{t g}(x), which is t times the gradient of the envelope, eq. (2)."""
        return x - self.prox(x, step)

    def part(self, share: Any) -> Penalty:
        """The penalty g times a number above zero."""
        return Part(self, share)


@pytree
@dataclass(frozen=True)
class Part(Penalty):
    """A penalty times a number: one agent's share of it."""

    whole: Penalty
    share: Any

    def value(self, x: jax.Array) -> jax.Array:
        """The share of g(x)."""
        return self.share * self.whole.value(x)

    def prox(self, x: jax.Array, step: Any) -> jax.Array:
        """Eq. (1), in which a factor of g is one of the step."""
        return self.whole.prox(x, step * self.share)


@pytree
@dataclass(frozen=True)
class Lasso(Penalty):
    """The absolute values of the parameters: the Laplace prior, which prefers zeros.

    Args:
        strength: a, one number for all coordinates or one for each; 0 leaves a coordinate free,
            such as an intercept.

    >>> import jax.numpy as jnp
    >>> [float(entry) for entry in Lasso(1.0).prox(jnp.array([-2.0, 0.5, 3.0]), 1.0)]
    [-1.0, 0.0, 2.0]
    """

    strength: Any

    def __post_init__(self) -> None:
        check_strength(self.strength)

    def value(self, x: jax.Array) -> jax.Array:
        """The weighted sum of absolute values."""
        return jnp.sum(jnp.asarray(self.strength, x.dtype) * jnp.abs(x))

    def prox(self, x: jax.Array, step: Any) -> jax.Array:
        """Eq. (3): the soft threshold."""
        threshold = step * jnp.asarray(self.strength, x.dtype)
        return jnp.sign(x) * jnp.maximum(jnp.abs(x) - threshold, 0.0)  # (3)


@pytree
@dataclass(frozen=True)
class GroupLasso(Penalty):
    """The lengths of groups of parameters, which prefers groups that are zero as a whole.

    Args:
        strength: a, one number for all groups or one for each.
        groups: the number of the group of every coordinate: with G groups, 0 to G - 1.

    >>> import jax.numpy as jnp
    >>> moved = GroupLasso(5.0, (0, 0, 1)).prox(jnp.array([6.0, 8.0, 3.0]), 1.0)
    >>> [float(entry) for entry in moved]
    [3.0, 4.0, 0.0]
    """

    strength: Any
    groups: tuple[int, ...] = choice()

    def __post_init__(self) -> None:
        check_strength(self.strength)
        groups = np.asarray(self.groups)
        is_list = groups.ndim == 1 and groups.size > 0 and groups.dtype.kind in "iu"
        if not is_list or set(groups.tolist()) != set(range(groups.max() + 1)):
            raise ValueError(
                "`groups` must be a list with the number of the group of every coordinate, from 0 "
                f"on and without gaps, such as (0, 0, 1), got {self.groups!r}."
            )
        object.__setattr__(self, "groups", tuple(groups.tolist()))

    def value(self, x: jax.Array) -> jax.Array:
        """The weighted sum of lengths."""
        return jnp.sum(jnp.asarray(self.strength, x.dtype) * jnp.sqrt(self._squares(x)))

    def prox(self, x: jax.Array, step: Any) -> jax.Array:
        """Eq. (4)."""
        squares = self._squares(x)
        threshold = step * jnp.asarray(self.strength, x.dtype)
        is_long = squares > threshold**2
        lengths = jnp.sqrt(jnp.where(is_long, squares, 1.0))
        kept = jnp.where(is_long, 1 - threshold / lengths, 0.0)  # (4)
        return kept[np.asarray(self.groups)] * x

    def _squares(self, x: jax.Array) -> jax.Array:
        """|x_G|^2 of every group."""
        if x.shape != (len(self.groups),):
            raise ValueError(f"`groups` is for {len(self.groups)} coordinates, and x has {x.size}.")
        count = max(self.groups) + 1
        return jax.ops.segment_sum(x**2, np.asarray(self.groups), count)


@pytree
@dataclass(frozen=True)
class Ridge(Penalty):
    """The square of the parameters: a Gaussian prior, with which laws are known exactly.

    Args:
        precision: p, one over the variance of the prior.

    >>> import jax.numpy as jnp
    >>> [float(entry) for entry in Ridge(1.0).prox(jnp.array([-2.0, 1.0]), 1.0)]
    [-1.0, 0.5]
    """

    precision: Any

    def __post_init__(self) -> None:
        check_positive(precision=self.precision)

    def value(self, x: jax.Array) -> jax.Array:
        """p |x|^2 / 2."""
        return self.precision * (x @ x) / 2

    def prox(self, x: jax.Array, step: Any) -> jax.Array:
        """Eq. (5)."""
        return x / (1 + step * self.precision)  # (5)


PENALTIES: Mapping[str, type[Penalty]] = {"lasso": Lasso, "group-lasso": GroupLasso, "ridge": Ridge}
"""The penalties by name, for studies; those that are sets are `supports.SUPPORTS`."""


def check_is_penalty(penalty: Any, may_be_none: bool = False) -> None:
    """Refuse what is no penalty."""
    if not isinstance(penalty, Penalty) and not (penalty is None and may_be_none):
        raise TypeError(
            "`penalty` must be a penalty such as `starlings.Lasso(2.0)`, or a support such as "
            f"`starlings.Box(0.0, 1.0)`, got {penalty!r}."
        )


def envelope_pull(penalty: Penalty | None, x: jax.Array, smoothing: Any) -> jax.Array:
    """The gradient of the Moreau envelope, eq. (2), (dim,); zeros without a penalty."""
    return jnp.zeros_like(x) if penalty is None else penalty.removed(x, smoothing) / smoothing


def check_fits(penalty: Penalty | None, problem: Problem, title: str) -> None:
    """Refuse other coordinates, in which g would be another function, and another size.

    Args:
        penalty: g; nothing is refused if it is None.
        problem: the problem that is to be sampled.
        title: how the sampler is called in messages.
    """
    if penalty is None:
        return
    if problem.frame is not None:
        raise ValueError(
            f"the penalty of {title} is a function of the model's own coordinates, and the problem "
            "was moved to others: give the original problem."
        )
    point = jax.ShapeDtypeStruct((problem.dim,), jnp.float32)
    try:
        moved = jax.eval_shape(penalty.prox, point, 1.0)
    except (TypeError, ValueError) as error:
        text = str(error)
    else:
        if moved.shape == point.shape:
            return
        text = f"its proximal map has the shape {moved.shape}"
    raise ValueError(
        f"`penalty` does not fit a model of {problem.dim} parameters: {text}"
    ) from None


def check_strength(strength: Any) -> None:
    """Refuse a strength that is not one number or several, none of them negative."""
    if not np.all(numbers("strength", strength) >= 0):
        raise ValueError(f"`strength` must not be negative, got {strength!r}.")


def numbers(name: str, value: Any) -> np.ndarray:
    """One number, or a list of numbers, as an array; an error that names it for anything else."""
    try:
        found = np.asarray(value, float)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    if found.ndim > 1 or np.isnan(found).any():
        raise ValueError(f"`{name}` must be a number or a list of numbers, got {value!r}.")
    return found
