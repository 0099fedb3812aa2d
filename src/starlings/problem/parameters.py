"""Named parameters with shapes and constraints, and the flat unconstrained vector behind them.

Samplers see one vector z in R^dim. A parameter theta with a constraint is theta = T(z) for a
smooth bijection T, and its log-density in z gains the log-determinant of T:

    log p(z) = log p(theta = T(z)) + log |det dT/dz|                       (1)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import nearest


class Transform(Protocol):
    """A smooth bijection T from R^n; the transforms of NumPyro have these methods."""

    def __call__(self, z: jax.Array) -> jax.Array:
        """The constrained value theta = T(z)."""

    def _inverse(self, theta: jax.Array) -> jax.Array:
        """The unconstrained z with T(z) = theta."""

    def log_abs_det_jacobian(self, z: jax.Array, theta: jax.Array) -> jax.Array:
        """log |det dT/dz| at z, where theta = T(z); for each entry, or their sum."""


class Identity:
    """The transform of a parameter without a constraint: theta = z."""

    def __call__(self, z: jax.Array) -> jax.Array:
        """The constrained value theta = T(z)."""
        return z

    def _inverse(self, theta: jax.Array) -> jax.Array:
        return theta

    def log_abs_det_jacobian(self, z: jax.Array, theta: jax.Array) -> jax.Array:
        """Zero, since theta is z itself."""
        return jnp.zeros_like(z)


class Exponential:
    """The transform of a positive parameter: theta = exp(z)."""

    def __call__(self, z: jax.Array) -> jax.Array:
        """The constrained value theta = T(z)."""
        return jnp.exp(z)

    def _inverse(self, theta: jax.Array) -> jax.Array:
        return jnp.log(theta)

    def log_abs_det_jacobian(self, z: jax.Array, theta: jax.Array) -> jax.Array:
        """z, since the derivative is exp(z)."""
        return z


class Logistic:
    """The transform of a parameter between 0 and 1: theta = 1 / (1 + exp(-z))."""

    def __call__(self, z: jax.Array) -> jax.Array:
        """The constrained value theta = T(z)."""
        return jax.nn.sigmoid(z)

    def _inverse(self, theta: jax.Array) -> jax.Array:
        return jnp.log(theta) - jnp.log1p(-theta)

    def log_abs_det_jacobian(self, z: jax.Array, theta: jax.Array) -> jax.Array:
        """log theta + log(1 - theta), since the derivative is theta (1 - theta)."""
        return -jax.nn.softplus(z) - jax.nn.softplus(-z)


CONSTRAINTS: dict[str, Transform] = {
    "real": Identity(),
    "positive": Exponential(),
    "unit_interval": Logistic(),
}
"""The constraints that a parameter can have by name, with their transforms."""

INVERSES = {
    "Identity": "",
    "IdentityTransform": "",
    "Exponential": "log ",
    "ExpTransform": "log ",
    "Logistic": "logit ",
    "SigmoidTransform": "logit ",
}
"""Words for z as a function of theta, such as "log " for sigma = exp(z), by the class of the
transform. NumPyro has other names for the same transforms."""

RESERVED = ("chain", "draw", "agent")
"""Names of the dimensions of all draws, which no parameter can have."""


def check_names(dimensions: Mapping[str, int]) -> None:
    """Refuse names that cannot be names of variables in a file of draws.

    Args:
        dimensions: the number of axes of every variable, by its name.
    """
    for name in dimensions:
        if not isinstance(name, str) or not name.strip():
            raise TypeError(f"the name of a parameter must be text, got {name!r}.")
        if name in RESERVED:
            raise ValueError(
                f"no parameter can be called {name!r}, a dimension of all draws; rename it."
            )
        if "/" in name:
            raise ValueError(
                f"the name of a parameter must not contain `/`, got {name!r}; rename it, such as "
                f"{name.replace('/', '.')!r}."
            )
    axes = {f"{name}_dim_{k}": name for name, count in dimensions.items() for k in range(count)}
    for name in sorted(set(axes) & set(dimensions)):
        raise ValueError(
            f"no parameter can be called {name!r} beside {axes[name]!r}, one of whose dimensions "
            "has that name; rename it."
        )


@dataclass(frozen=True)
class Parameter:
    """One parameter of a model: its shape, its constraint, and labels for its entries."""

    shape: tuple[int, ...] = ()
    """The shape of theta; () for a single number."""
    constraint: str = "real"
    """One of the names in `CONSTRAINTS`."""
    labels: tuple[str, ...] | None = None
    """Names of the entries of a vector, such as those of the covariates of a regression."""
    transform: Transform | None = None
    """A bijection of your own; if there is one, `constraint` has no effect."""
    free_shape: tuple[int, ...] | None = None
    """The shape of z if it differs from that of theta, as for a simplex; None if it does not."""
    local: bool = False
    """Whether every agent has a value of its own, which never leaves it; see `problem.local`."""

    def __post_init__(self) -> None:
        if isinstance(self.shape, int):
            object.__setattr__(self, "shape", (self.shape,))
        object.__setattr__(self, "shape", tuple(self.shape))
        if any(size != int(size) or size < 1 for size in self.shape):
            raise ValueError(f"`shape` must be positive whole numbers, got {self.shape}.")
        if self.constraint not in CONSTRAINTS:
            raise ValueError(
                f"`constraint` must be one of {sorted(CONSTRAINTS)}, got {self.constraint!r}."
                f"{nearest(self.constraint, CONSTRAINTS)}"
            )
        if self.labels is not None and self.shape != (len(self.labels),):
            raise ValueError(
                f"`labels` names {len(self.labels)} entries but the shape is {self.shape}; give "
                "one name for each entry."
            )

    @property
    def bijection(self) -> Transform:
        """The transform T from z to theta."""
        return self.transform if self.transform is not None else CONSTRAINTS[self.constraint]

    @property
    def unconstrained_shape(self) -> tuple[int, ...]:
        """The shape of z."""
        return self.shape if self.free_shape is None else self.free_shape

    @property
    def size(self) -> int:
        """The number of entries of z."""
        return math.prod(self.unconstrained_shape)


class Parameters:
    """The parameters of a model in a fixed order, with the map to and from one flat vector.

    Local parameters come last, whatever the order in which they are given.
    """

    def __init__(self, parameters: Mapping[str, Parameter | Sequence[int] | int]) -> None:
        if not isinstance(parameters, Mapping):
            kind = type(parameters).__name__
            raise TypeError(f"`parameters` must map names, such as 'beta', to shapes, got {kind}.")
        if not parameters:
            raise ValueError("`parameters` is empty; name at least one parameter.")
        blocks = {
            name: block if isinstance(block, Parameter) else Parameter(shape=_shape(block))
            for name, block in parameters.items()
        }
        self.blocks: dict[str, Parameter] = dict(sorted(blocks.items(), key=lambda b: b[1].local))
        check_names({name: len(block.shape) for name, block in self.blocks.items()})
        self.dim = sum(block.size for block in self.blocks.values())
        self.num_local = sum(block.size for block in self.blocks.values() if block.local)

    @property
    def num_shared(self) -> int:
        """The number of entries of the flat vector that all agents share, the first ones."""
        return self.dim - self.num_local

    def part(self, local: bool) -> Parameters:
        """The local parameters alone, or the shared ones."""
        return Parameters({n: block for n, block in self.blocks.items() if block.local == local})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameters) and self.blocks == other.blocks

    def __hash__(self) -> int:
        return hash(tuple((name, block.shape) for name, block in self.blocks.items()))

    def constrain(self, z: jax.Array) -> dict[str, jax.Array]:
        """The constrained parameters theta by name, at the flat vector z (dim,)."""
        return {name: block.bijection(part) for name, block, part in self.parts(z)}

    def log_determinant(self, z: jax.Array) -> jax.Array:
        """log |det dT/dz| of all parameters together at the flat vector z, see eq. (1)."""
        terms = [
            jnp.sum(block.bijection.log_abs_det_jacobian(part, block.bijection(part)))
            for _, block, part in self.parts(z)
        ]
        return sum(terms, start=jnp.zeros((), z.dtype))

    def unconstrain(self, values: Mapping[str, Any]) -> jax.Array:
        """The flat vector z (dim,) at constrained values by name; all parameters must be given."""
        if set(values) != set(self.blocks):
            raise ValueError(
                f"values must be given for exactly the parameters {sorted(self.blocks)}, got "
                f"{sorted(values)}."
            )
        parts = []
        for name, block in self.blocks.items():
            value = _broadcast(name, values[name], block.shape)
            parts.append(jnp.ravel(block.bijection._inverse(value)))
            if not np.all(np.isfinite(parts[-1])):
                raise ValueError(
                    f"the value of {name!r} must be finite and satisfy the constraint of the "
                    f"parameter, got {values[name]}."
                )
        return jnp.concatenate(parts)

    def labels(self) -> list[str]:
        """One name for every entry of the constrained parameters, such as "beta[0]", in order."""
        blocks = self.blocks.items()
        return [label for name, block in blocks for label in _labels(name, block, block.shape)]

    def flat_labels(self, names: Mapping[str, str] | None = None) -> list[str]:
        """One name for every entry of the flat vector, such as "log sigma" where sigma = exp(z).

        Args:
            names: other names for some of the parameters, by their own names.
        """
        labels = []
        for name, block in self.blocks.items():
            label = f"{_inverse_in_words(block)}{(names or {}).get(name, name)}"
            labels += _labels(label, block, block.unconstrained_shape)
        return labels

    def parts(self, z: jax.Array) -> Iterator[tuple[str, Parameter, jax.Array]]:
        """Name, description and part of z, in its own shape, for every parameter."""
        start = 0
        for name, block in self.blocks.items():
            part = z[start : start + block.size].reshape(block.unconstrained_shape)
            yield name, block, part
            start += block.size


def _inverse_in_words(block: Parameter) -> str:
    """z as a function of theta in words that precede the name of theta, such as "log "."""
    # NumPyro wraps the transform of a vector's entries into one of the vector.
    bijection = getattr(block.bijection, "base_transform", block.bijection)
    return INVERSES.get(type(bijection).__name__, "unconstrained ")


def _labels(name: str, block: Parameter, shape: tuple[int, ...]) -> list[str]:
    """A name for every entry of an array of this shape, from the name of the array."""
    if block.labels is not None and shape == block.shape:
        return [f"{name}[{label}]" for label in block.labels]
    return [f"{name}{list(i) if i else ''}" for i in np.ndindex(shape)]


def _broadcast(name: str, value: Any, shape: tuple[int, ...]) -> jax.Array:
    """The value of a parameter in the parameter's shape."""
    try:
        return jnp.broadcast_to(jnp.asarray(value, float), shape)
    except (TypeError, ValueError):
        raise ValueError(
            f"the value of {name!r} must be of shape {shape}, got {value!r}."
        ) from None


def _shape(shape: Sequence[int] | int) -> tuple[int, ...]:
    """A shape as a tuple; one number is the length of a vector."""
    return (shape,) if isinstance(shape, int) else tuple(shape)
