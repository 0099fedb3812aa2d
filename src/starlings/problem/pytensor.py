"""Graphs of PyTensor, in which PyMC writes its models, as functions of JAX."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from starlings.system.extras import import_extra

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.23 announces version 1
    pymc = import_extra("pymc", "a PyMC model", extra="pymc")

_IS_DOUBLE = jax.config.read("jax_enable_x64")  # which importing the following package changes

import pytensor.tensor as pt  # noqa: E402
from pymc.logprob.utils import CheckParameterValue  # noqa: E402
from pytensor.compile.mode import get_mode  # noqa: E402
from pytensor.compile.sharedvalue import SharedVariable  # noqa: E402
from pytensor.graph.fg import FunctionGraph  # noqa: E402
from pytensor.graph.traversal import ancestors, io_toposort  # noqa: E402
from pytensor.link.jax.dispatch import jax_funcify  # noqa: E402
from pytensor.tensor.basic import Alloc  # noqa: E402
from pytensor.tensor.shape import SpecifyShape  # noqa: E402

jax.config.update("jax_enable_x64", _IS_DOUBLE)

Graph = Any
"""A variable of PyTensor: an input, a constant, or what is computed from others."""


@jax_funcify.register(CheckParameterValue)
def _unchecked(op: Any, **_: Any) -> Callable[..., Any]:
    """Checks of parameters, such as sigma > 0: JAX raises no errors, and transforms ensure it."""
    return lambda value, *_: value


def as_jax(inputs: Sequence[Graph], outputs: Sequence[Graph]) -> Callable[..., list[jax.Array]]:
    """A function of JAX from the values of some variables to those of others.

    Args:
        inputs: variables that are computed from nothing.
        outputs: what is computed from them, and from shared variables, whose values become fixed.
    """
    shared = [v for v in ancestors(outputs) if isinstance(v, SharedVariable) and v not in inputs]
    generators = [v for v in shared if not hasattr(v.type, "dtype")]
    fixed = {v: pt.constant(v.get_value(borrow=True)) for v in shared if hasattr(v.type, "dtype")}
    # Constants keep their precision, and are no part of what is traced when this is called.
    with jax.enable_x64(True), jax.ensure_compile_time_eval(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s)PyTensor could not link to a BLAS")
        warnings.filterwarnings("ignore", "Skipping .* as JAX tracing would remove it")
        graph = FunctionGraph([*inputs, *generators], replaced(outputs, fixed), clone=True)
        get_mode("JAX").optimizer.rewrite(graph)
        function = jax_funcify(graph)
    unused = [None] * len(generators)  # of random numbers: no density or shape is computed from one
    return lambda *values: [jnp.asarray(value) for value in function(*values, *unused)]


def replaced(
    graphs: Sequence[Graph], by: Mapping[Graph, Graph], rows: int = -1, count: Graph = None
) -> list[Graph]:
    """Graphs in which some variables are replaced by others, which may have any static shape.

    Args:
        graphs: what is computed from these variables.
        by: the new variable for each.
        rows: a length; arrays that are filled to this length are then filled to another one.
        count: the other length.
    """
    new = dict(by)
    for node in io_toposort([], list(graphs)) if graphs else ():
        inputs = [new.get(variable, variable) for variable in node.inputs]
        if isinstance(node.op, Alloc) and node.outputs[0].type.shape[:1] == (rows,):
            inputs[1] = count
        if inputs == node.inputs:
            continue
        outputs = inputs[:1] if _asks_for_shape(node) else _made(node.op, inputs).outputs
        new.update((v, o) for v, o in zip(node.outputs, outputs, strict=True) if v not in by)
    return [new.get(graph, graph) for graph in graphs]


def _made(op: Any, inputs: Sequence[Graph]) -> Any:
    """A node of a graph that does not ask for the shapes that its inputs had before."""
    node = op.make_node(*inputs)
    for place, (own, given) in enumerate(zip(node.inputs, inputs, strict=True)):
        if own is not given and own.owner is not None and _asks_for_shape(own.owner):
            node.inputs[place] = given
    return node


def _asks_for_shape(node: Any) -> bool:
    return isinstance(node.op, SpecifyShape)


def depends(graph: Graph, on: Iterable[Graph]) -> bool:
    """Whether a variable is computed from one of some others, or is one of them."""
    wanted = set(on)
    return any(variable in wanted for variable in ancestors([graph]))
