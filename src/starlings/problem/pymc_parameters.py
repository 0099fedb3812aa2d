"""The free variables of a PyMC model as parameters, with PyMC's maps to unconstrained space.

The map of a variable may depend on other variables, as that of pm.Uniform("u", 0, s) does. No
parameter here has such a map: z itself is then the parameter, under PyMC's name for it, such as
`u_interval__`, and u is computed from all parameters together, like a `pm.Deterministic`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pymc.logprob.transforms import LogOddsTransform, LogTransform

from starlings.problem.parameters import RESERVED, Parameter, Parameters
from starlings.problem.pymc_rows import RowModel
from starlings.problem.pytensor import Graph, as_jax, depends, replaced
from starlings.problem.report import Values

SAME = {LogTransform: "positive", LogOddsTransform: "unit_interval"}
"""Transforms of PyMC that this library has too, by the name of the constraint."""


class PyMCTransform:
    """A transform of PyMC as this library and NumPyro write transforms.

    Args:
        transform: PyMC's transform.
        variable: the random variable, whose parameters it may need.
    """

    def __init__(self, transform: Any, variable: Graph) -> None:
        arguments = variable.owner.inputs
        theta, z = variable.type(), transform.forward(variable, *arguments).type()
        self.name = transform.name
        self._backward = as_jax([z], [transform.backward(z, *arguments)])
        self._forward = as_jax([theta], [transform.forward(theta, *arguments)])
        self._log_determinant = as_jax([z], [transform.log_jac_det(z, *arguments)])

    def __call__(self, z: jax.Array) -> jax.Array:
        """The constrained value theta = T(z)."""
        return self._backward(z)[0]

    def _inverse(self, theta: jax.Array) -> jax.Array:
        return self._forward(theta)[0]

    def log_abs_det_jacobian(self, z: jax.Array, theta: jax.Array) -> jax.Array:
        """log |det dT/dz| at z; for each entry, or their sum."""
        return self._log_determinant(z)[0]


@dataclass(frozen=True)
class Latents:
    """The free variables of a model."""

    rows: RowModel

    @property
    def values(self) -> list[Graph]:
        """The symbols of their values in unconstrained space."""
        return [self.rows.model.rvs_to_values[rv] for rv in self.rows.model.free_RVs]

    @cached_property
    def parameters(self) -> Parameters:
        """One parameter for each, in the order of the model."""
        blocks = {}
        for rv, shape in zip(self.rows.model.free_RVs, self._shapes, strict=True):
            name, block = self._named(rv, shape)
            if name in blocks:
                raise ValueError(
                    f"free variables of the model have the same name, {name!r}, once `/` is "
                    "replaced by `.`; rename one."
                )
            blocks[name] = block
        return Parameters(blocks)

    def check(self) -> None:
        """Refuse variables that are discrete, that depend on the rows, or that are not there."""
        free = self.rows.model.free_RVs
        if not free:
            raise ValueError(
                "the model has no free random variables, so there is nothing to infer; add one, "
                "such as `pm.Normal`."
            )
        for rv in free:
            if rv.type.dtype[:5] != "float":
                raise ValueError(
                    f"the free variable {rv.name!r} is discrete, but all samplers here need "
                    "continuous parameters: sum it out of the model, such as by `pm.Mixture`."
                )
            if self.rows.depends(rv):
                raise ValueError(
                    f"the free variable {rv.name!r} depends on the rows, by its shape or its "
                    "prior: a latent variable may not grow with the rows, and a prior is the same "
                    "at all sites."
                )

    def constrained(self, graphs: list[Graph]) -> Any:
        """Graphs as a function of the values of all parameters by name."""
        inputs = [self._input(rv) for rv in self.rows.model.free_RVs]
        by: dict[Graph, Graph] = {}
        for rv, symbol in zip(self.rows.model.free_RVs, inputs, strict=True):
            by[rv] = symbol
            if self._is_coupled(rv):
                transform = self.rows.model.rvs_to_transforms[rv]
                by[rv] = transform.backward(symbol, *replaced(rv.owner.inputs, by))
        coupled = [by[rv] for rv in self.coupled]
        function = as_jax(inputs, [*coupled, *replaced(graphs, by)])
        names = list(self.parameters.blocks)
        return lambda values: function(*(jnp.asarray(values[name]) for name in names))

    @cached_property
    def coupled(self) -> list[Graph]:
        """The free variables whose transform depends on others."""
        return [rv for rv in self.rows.model.free_RVs if self._is_coupled(rv)]

    def _is_coupled(self, rv: Graph) -> bool:
        if self.rows.model.rvs_to_transforms[rv] is None:
            return False
        others = [other for other in self.rows.model.free_RVs if other is not rv]
        transform = self.rows.model.rvs_to_transforms[rv]
        value = self.rows.model.rvs_to_values[rv]
        return depends(transform.backward(value, *rv.owner.inputs), others)

    def _input(self, rv: Graph) -> Graph:
        """A symbol for the value of a parameter."""
        return (self.rows.model.rvs_to_values[rv] if self._is_coupled(rv) else rv).type()

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        """The shape of every free variable."""
        shapes = as_jax([], [rv.shape for rv in self.rows.model.free_RVs])()
        return [tuple(np.asarray(shape).tolist()) for shape in shapes]

    def _named(self, rv: Graph, shape: tuple[int, ...]) -> tuple[str, Parameter]:
        transform, name = self.rows.model.rvs_to_transforms[rv], in_results(rv.name)
        labels = labels_of(self.rows.model, rv.name, shape)
        if transform is None:
            return name, Parameter(shape, labels=labels)
        if type(transform) in SAME:
            return name, Parameter(shape, SAME[type(transform)], labels=labels)
        if self._is_coupled(rv):
            return in_results(self.rows.model.rvs_to_values[rv].name), Parameter(shape)
        bijection = PyMCTransform(transform, rv)
        with jax.enable_x64(True):
            theta = jax.ShapeDtypeStruct(shape, np.float64)
            free_shape = jax.eval_shape(bijection._inverse, theta).shape
        return name, Parameter(shape, labels=labels, transform=bijection, free_shape=free_shape)


def in_results(name: str) -> str:
    """The name of a variable in results, where `.` replaces `/`."""
    return name.replace("/", ".")


def labels_of(model: Any, name: str, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    """The coordinates of a vector as texts; None if it has none."""
    dims = list(model.named_vars_to_dims.get(name) or [])
    coords = model.coords.get(dims[0]) if len(dims) == len(shape) == 1 else None
    return None if coords is None else tuple(map(str, coords))


def axes_of(
    model: Any, names: set[str]
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[Any, ...]]]:
    """The names of the axes of some variables of a model, and the labels along these axes.

    An axis that is called like a variable, or like a dimension of all draws, gets no name here.
    """
    dims = {
        in_results(name): tuple(map(in_results, axes))
        for name, axes in model.named_vars_to_dims.items()
        if name in names and axes and not {None, *RESERVED, *names} & set(axes)
    }
    known = {in_results(dim): labels for dim, labels in model.coords.items() if labels is not None}
    used = {axis for axes in dims.values() for axis in axes if axis in known}
    return dims, {axis: tuple(map(str, known[axis])) for axis in sorted(used)}


def saved(values: Values, without: list[str], more: Values) -> Values:
    """Values that are saved: some parameters left out, and others added."""
    return {**{name: value for name, value in values.items() if name not in without}, **more}
