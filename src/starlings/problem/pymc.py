"""Problems from PyMC models, through PyMC's JAX backend.

PyMC writes a model as a graph. With symbols for the rows, and values z of the free random variables
in unconstrained space, the terms of its log-density are of two kinds:

    log p(rows | z)  one value per row: observed variables, and potentials, that depend on rows  (1)
    log p(z)         all others: free variables with log |det dT/dz|, further potentials         (2)

PyMC's own code computes them all, so that they are what `pymc.sample` sees. Deterministic variables
are saved with the draws, unless they depend on the rows, which differ between agents.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.model_checks import check_likelihood, check_prior
from starlings.problem.model_parts import ModelParts
from starlings.problem.pymc_parameters import Latents, axes_of, in_results, saved
from starlings.problem.pymc_rows import RowModel, model_with_rows
from starlings.problem.pytensor import Graph, as_jax, depends, pt, replaced
from starlings.problem.report import Report
from starlings.problem.shards import Rows, count_rows

POINTS = 2
"""Number of random points at which a model that has all rows is compared with its parts."""
TOLERANCE = 1e-8
"""The largest difference there, relative to the log-density; sums are made in another order."""


def read_pymc(
    model: Any,
    shards: Mapping[Any, Rows] | Sequence[Rows] | None,
    sites: Any,
    warns: bool = True,
) -> ModelParts:
    """The parts of a problem from a PyMC model; see `Problem.from_pymc`.

    Args:
        model: a model, or a function of columns that returns one.
        shards: the columns of every site, if the model does not have the rows.
        sites: the label of each row, if it has them.
        warns: whether to name deterministic variables that are not saved.
    """
    rows = model_with_rows(model, shards, sites)
    split = SplitModel(rows)
    split.latents.check()
    parameters, first = split.latents.parameters, next(iter(rows.shards.values()))
    split.check_rows()
    check_likelihood(split.log_likelihoods, parameters.dim, first, parameters.blocks)
    check_prior(split.log_prior, parameters.dim, parameters.blocks)
    if rows.has_all_rows:
        split.check_sum()
    return ModelParts(
        split.log_likelihoods,
        split.log_prior,
        parameters,
        rows.shards,
        _report(split, warns),
        rows.name,
    )


@dataclass(frozen=True, eq=False)
class SplitModel:
    """The likelihood and the prior of a model, each as a function of the flat vector z."""

    rows: RowModel

    @cached_property
    def latents(self) -> Latents:
        """The free variables."""
        return Latents(self.rows)

    def log_likelihoods(self, z: jax.Array, rows: Rows) -> jax.Array:
        """Eq. (1): the log-likelihood of every row, (row,)."""
        columns = [rows[name] for name in self._columns]
        terms = self._row_function(*self._values(z), *columns)
        by_row = [jnp.reshape(term, (count_rows(rows), -1)).sum(axis=1) for term in terms]
        return sum(by_row, start=jnp.zeros(count_rows(rows), z.dtype)).astype(z.dtype)

    def log_prior(self, z: jax.Array) -> jax.Array:
        """Eq. (2): the log-density of z under the prior."""
        terms = [jnp.sum(term) for term in self._prior_function(*self._values(z))]
        return sum(terms, start=jnp.zeros((), z.dtype)).astype(z.dtype)

    def check_rows(self) -> None:
        """Refuse terms of the rows that are not one value, or several, for each row."""
        if not self._row_terms:
            raise ValueError(
                "the model has no observed variables that depend on the rows; pass `observed=`."
            )
        for count in (2, 3):  # not 1, which JAX would stretch
            some = {c: _taken(v, count) for c, v in next(iter(self.rows.shards.values())).items()}
            shapes = self._shapes(some)
            for name, shape in zip(self._row_terms, shapes, strict=True):
                if not shape or shape[0] != count:
                    raise ValueError(
                        f"{name!r} must have one log-probability for each row, and has shape "
                        f"{shape} for {count} rows: observe the rows along the first axis, without "
                        "latent variables that grow with them; a potential that depends on rows "
                        "needs one term for each row."
                    )

    def check_sum(self) -> None:
        """Refuse a model whose parts do not sum to its own log-density."""
        own = as_jax(self.latents.values, [self.rows.model.logp()])
        shards = list(self.rows.shards.values())
        rows = {name: np.concatenate([s[name] for s in shards]) for name in self._columns}

        @jax.jit
        def both(z: jax.Array) -> tuple[jax.Array, jax.Array]:
            parts = self.log_likelihoods(z, rows).sum() + self.log_prior(z)
            return own(*self._values(z))[0], parts

        random = np.random.default_rng(0)
        for z in random.normal(size=(POINTS, self.latents.parameters.dim)):
            with jax.enable_x64(True):
                wanted, found = map(float, both(jnp.asarray(z)))
            if not np.isclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
                raise ValueError(
                    f"the log-density of the model is {wanted:.10g} at a random point, and the sum "
                    f"over its rows {found:.10g}: its data with one entry for each label are not "
                    "all data of the rows. Write the model as a function of the columns of a site, "
                    "and give `shards`."
                )

    def _shapes(self, rows: Rows) -> list[tuple[int, ...]]:
        """The shape of every term of the rows, on some rows."""
        columns = [rows[name] for name in self._columns]
        with jax.enable_x64(True):
            flat = jax.ShapeDtypeStruct((self.latents.parameters.dim,), np.float64)
            try:
                found = jax.eval_shape(
                    lambda z: self._row_function(*self._values(z), *map(jnp.asarray, columns)), flat
                )
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"the model cannot be evaluated on {count_rows(rows)} of its rows: {error} Its "
                    "variables and constants may not have a size that is the number of rows of a "
                    "site; write it as a function of the columns of a site."
                ) from error
        return [term.shape for term in found]

    def _values(self, z: jax.Array) -> list[jax.Array]:
        """The part of z of every free variable."""
        return [part for _, _, part in self.latents.parameters.parts(z)]

    @cached_property
    def _terms(self) -> dict[str, Graph]:
        """All terms of the log-density by name, with symbols of any number of rows."""
        terms, symbols, axes = self.rows.terms, self._columns, self.rows.axes
        by = {r: pt.moveaxis(symbols[n], 0, axes[n]) for n, r in self.rows.roots.items()}
        rows = self.rows.num_rows if self.rows.has_all_rows else -1
        count = next(iter(symbols.values())).shape[0]
        return dict(zip(terms, replaced(list(terms.values()), by, rows, count), strict=True))

    @cached_property
    def _columns(self) -> dict[str, Graph]:
        """The symbol of every column."""
        return self.rows.symbols()

    @cached_property
    def _row_terms(self) -> dict[str, Graph]:
        """The terms of eq. (1)."""
        columns = self._columns.values()
        return {name: term for name, term in self._terms.items() if depends(term, columns)}

    @cached_property
    def _row_function(self) -> Callable[..., list[jax.Array]]:
        inputs = [*self.latents.values, *self._columns.values()]
        return as_jax(inputs, list(self._row_terms.values()))

    @cached_property
    def _prior_function(self) -> Callable[..., list[jax.Array]]:
        terms = [term for name, term in self._terms.items() if name not in self._row_terms]
        return as_jax(self.latents.values, terms)


def _taken(values: np.ndarray, count: int) -> np.ndarray:
    """The first row, so many times."""
    return np.repeat(values[:1], count, axis=0)


def _report(split: SplitModel, warns: bool) -> Report:
    """What is saved: the variables of the model, but for those that depend on the rows."""
    rows, latents, model = split.rows, split.latents, split.rows.model
    varying = [d for d in model.deterministics if rows.depends(d)]
    for variable in varying if warns else ():
        warnings.warn(
            f"the deterministic variable {variable.name!r} depends on the rows, which differ "
            "between agents; it is not saved with the draws.",
            stacklevel=4,
        )
    kept = [d for d in model.deterministics if d not in varying]
    hidden = [in_results(model.rvs_to_values[rv].name) for rv in latents.coupled]
    names = [in_results(variable.name) for variable in (*latents.coupled, *kept)]
    further = latents.constrained(kept) if names else lambda _: ()
    dims, coords = axes_of(model, {rv.name for rv in (*model.free_RVs, *kept)})
    return Report(
        lambda p: saved(p, hidden, dict(zip(names, further(p), strict=True))),
        dims=dims,
        coords=coords,
    )
