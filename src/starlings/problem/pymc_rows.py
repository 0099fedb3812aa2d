"""Where the rows enter a PyMC model: the variables of its graph that stand for columns.

Either a function builds the model from columns, or a model has a `pm.Data` for each column, or the
model has the rows of all sites, as constants and `pm.Data` with one entry for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from starlings.problem.pytensor import Graph, SharedVariable, ancestors, depends, pt, pymc
from starlings.problem.shards import Rows, check_shards, count_rows, divide_by_site

from pymc.distributions.distribution import PartialObservedRV  # isort: skip
from pymc.variational.minibatch_rv import MinibatchRandomVariable  # isort: skip
from pytensor import shared  # isort: skip
from pytensor.graph import Constant  # isort: skip

SYMBOLS = (
    "columns come as symbols of PyTensor, like `pm.Data`: write `x.shape[0]` for `len(x)`, and "
    "functions of `pm.math` for those of NumPy"
)
"""What to know about the arguments of a function that builds a model."""


@dataclass(frozen=True)
class RowModel:
    """A PyMC model, and which variables of its graph are columns of rows."""

    model: Any
    terms: dict[str, Graph]
    """The terms of its log-density, see `terms_of`."""
    shards: Mapping[str, Rows]
    roots: dict[str, Graph]
    """By column: the variable of the graph."""
    axes: dict[str, int]
    """By column: the axis of its variable along which the rows are."""
    has_all_rows: bool
    """Whether the model itself has the rows of all sites."""
    name: str

    @property
    def num_rows(self) -> int:
        """The number of rows of all sites."""
        return sum(map(count_rows, self.shards.values()))

    def symbols(self) -> dict[str, Graph]:
        """By column: a symbol of any number of rows, along its first axis."""
        found = {}
        for name, root in self.roots.items():
            shape = list(root.type.shape)
            del shape[self.axes[name]]
            found[name] = pt.TensorType(root.dtype, shape=(None, *shape))(name)
        return found

    def depends(self, graph: Graph) -> bool:
        """Whether a variable of the model, of any kind, is computed from rows."""
        if not self.has_all_rows:
            return depends(graph, self.roots.values())
        return any(_row_axis(v, self.num_rows) is not None for v in ancestors([graph]))


def terms_of(model: Any) -> dict[str, Graph]:
    """The terms of the log-density of a model by name, each with as many entries as it has."""
    variables = [*model.basic_RVs, *model.potentials]
    for variable in model.basic_RVs:
        if isinstance(variable.owner.op, MinibatchRandomVariable):
            raise ValueError(
                f"{variable.name!r} has a `total_size`, for minibatches of PyMC; leave it out: a "
                "sampler here takes minibatches by itself."
            )
        if isinstance(variable.owner.op, PartialObservedRV):
            raise ValueError(
                f"{variable.name!r} is a part of outcomes of which some are missing, and PyMC "
                "would draw those: drop the rows without an outcome."
            )
    terms = model.logp(variables, sum=False)
    return {variable.name: term for variable, term in zip(variables, terms, strict=True)}


def model_with_rows(
    model: Any, shards: Mapping[Any, Rows] | Sequence[Rows] | None, sites: Any
) -> RowModel:
    """The model with symbols for its rows; see `Problem.from_pymc` for the arguments."""
    if (shards is None) == (sites is None):
        raise ValueError(
            "give either `shards`, the columns of every site, or `sites`, the label of each row of "
            "a model that has the rows of all sites."
        )
    if shards is None:
        return _with_all_rows(_checked(model, "with `sites`"), np.asarray(sites))
    rows = check_shards(shards)
    first = next(iter(rows.values()))
    name = getattr(model, "__name__", "") or getattr(model, "name", "") or "model"
    if isinstance(model, pymc.Model):
        roots = _data(model, first)
    else:
        roots = {column: shared(values, column) for column, values in first.items()}
        model = _built(model, roots)
    return RowModel(model, terms_of(model), rows, roots, dict.fromkeys(first, 0), False, name)


def _checked(model: Any, how: str) -> Any:
    if not isinstance(model, pymc.Model):
        kind = type(model).__name__
        raise TypeError(f"`model` {how} must be a `pm.Model`, got {kind}.")
    return model


def _built(function: Callable[..., Any], roots: dict[str, Graph]) -> Any:
    """The model that a user's function builds from symbols."""
    if not callable(function):
        kind = type(function).__name__
        raise TypeError(f"`model` must be a `pm.Model` or a function that returns one, got {kind}.")
    try:
        model = function(**roots)
    except Exception as error:
        raise ValueError(
            f"`model` fails with {type(error).__name__}: {error} (Its {SYMBOLS}.)"
        ) from error
    return _checked(model, "is a function, and what it returns")


def _data(model: Any, columns: Rows) -> dict[str, Graph]:
    """The `pm.Data` of every column."""
    found = {data.name: data for data in model.data_vars}
    missing = sorted(set(columns) - set(found))
    if missing:
        raise ValueError(
            f"the model has no `pm.Data` for the columns {missing} of `shards`; it has "
            f"{sorted(found)}. Wrap the arrays of rows in `pm.Data(name, values)`."
        )
    return {name: found[name] for name in columns}


def _with_all_rows(model: Any, sites: Any) -> RowModel:
    """A model whose constants and `pm.Data` with an entry for each label are columns."""
    roots: dict[str, Graph] = {}
    terms = terms_of(model)  # once, since it makes new constants
    for variable in dict.fromkeys(ancestors(list(terms.values()))):
        if _row_axis(variable, len(sites)) is not None:
            roots[_unused(variable.name or "column", roots)] = variable
    if not roots:
        raise ValueError(
            f"no data of the model have {len(sites)} entries along an axis, one for each label in "
            "`sites`."
        )
    axes = {name: _row_axis(variable, len(sites)) or 0 for name, variable in roots.items()}
    columns = {name: np.moveaxis(_entries(v), axes[name], 0) for name, v in roots.items()}
    rows = check_shards(divide_by_site(columns, sites))
    return RowModel(model, terms, rows, roots, axes, True, model.name or "model")


def _row_axis(variable: Graph, count: int) -> int | None:
    """The first axis along which a variable has so many entries that are known, or None."""
    shape = np.shape(_entries(variable))
    return shape.index(count) if count in shape else None


def _entries(variable: Graph) -> Any:
    """The values of a constant or a `pm.Data`; None for what is neither."""
    if isinstance(variable, Constant):
        return variable.data if isinstance(variable.data, np.ndarray) else None
    is_data = isinstance(variable, SharedVariable) and hasattr(variable.type, "dtype")
    return np.asarray(variable.get_value(borrow=True)) if is_data else None


def _unused(name: str, names: dict[str, Graph]) -> str:
    """The name itself or, if it is taken, the same with a number."""
    numbered = (f"{name}{number or ''}" for number in range(len(names) + 1))
    return next(candidate for candidate in numbered if candidate not in names)
