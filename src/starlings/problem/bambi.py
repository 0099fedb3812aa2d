"""Problems from Bambi models: the PyMC model that Bambi builds, with Bambi's intercept.

Bambi centres the columns x of a formula by their means over all rows. With the coefficients b and
the intercept a of the centred columns, it reports

    intercept = a - mean(x)'b                                              (1)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.model_parts import ModelParts
from starlings.problem.pymc import read_pymc
from starlings.problem.pymc_parameters import in_results
from starlings.problem.report import Report, Values

CENTRED = "{} of centred columns"
"""What the parameter behind an intercept is called among the coordinates."""


def read_bambi(model: Any, sites: str | Sequence[Any]) -> ModelParts:
    """The parts of a problem from a Bambi model; see `Problem.from_bambi`."""
    if not hasattr(model, "formula") or not hasattr(model, "backend"):
        raise TypeError(f"`model` must be a `bambi.Model`, got {type(model).__name__}.")
    if not model.built:
        model.build()
    labels = _labels(model, sites)
    parts = read_pymc(model.backend.model, None, labels, warns=False)
    report = _with(parts.report or Report(dict), _intercepts(model))
    return parts._replace(report=report, name=str(model.formula.main))


def _labels(model: Any, sites: str | Sequence[Any]) -> Any:
    """The label of each row."""
    if not isinstance(sites, str):
        return np.asarray(sites)
    if sites not in model.data.columns:
        raise ValueError(
            f"`sites` must be a column of the model's data, {list(model.data.columns)}, or one "
            f"label for each row, got {sites!r}."
        )
    return model.data[sites].to_numpy()


@dataclass(frozen=True)
class Intercept:
    """The intercept of a linear predictor with centred columns."""

    name: str
    terms: list[str]
    """The names of the coefficients."""
    means: np.ndarray
    """The means of the columns before they were centred."""

    def of(self, values: Values) -> jax.Array:
        """Eq. (1)."""
        own = jnp.asarray(values[self.name])
        coefficients = [jnp.asarray(values[t]).reshape(-1, *own.shape) for t in self.terms]
        return own - jnp.tensordot(jnp.asarray(self.means), jnp.concatenate(coefficients), 1)


def _intercepts(model: Any) -> list[Intercept]:
    """The intercepts that Bambi computes from centred columns."""
    if not model.center_predictors:
        return []
    found = []
    for component in model.backend.distributional_components.values():
        spec = component.component
        if spec.intercept_term and spec.common_terms:
            name = in_results(_name(spec.intercept_term))
            terms = [in_results(_name(term)) for term in spec.common_terms.values()]
            means = np.asarray(component.design_matrix_without_intercept).mean(axis=0)
            found.append(Intercept(name, terms, means))
    return found


def _name(term: Any) -> str:
    """The name of a term's parameter: its alias if the user has given one."""
    return str(getattr(term, "alias", None) or term.name)


def _with(report: Report, intercepts: list[Intercept]) -> Report:
    """A report with the intercepts that Bambi reports."""

    def compute(values: Values) -> Values:
        return {**report.compute(values), **{own.name: own.of(values) for own in intercepts}}

    names = {own.name: CENTRED.format(own.name) for own in intercepts}
    return dataclasses.replace(report, compute=compute, names=names)
