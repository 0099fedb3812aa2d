"""Densities of the flat vector: of all rows, and of the prior; and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from starlings.problem.parameters import Identity, Parameters
from starlings.problem.shards import Rows

LARGEST_PAIRED = 2**16
"""Entries of all pairs of columns, which are kept in memory for every agent."""


@dataclass(frozen=True)
class RowwiseLikelihood:
    """A log-likelihood of one row, applied to all rows at a flat vector.

    A row of a generalised linear model sees the parameters through x'beta alone. Its log-likelihood
    says so by a method `of_predictor(eta, row)`: its value l, slope l' and curvature l'' at the
    predictor eta. With X the covariates of all rows, w their weights, the sum then has

        gradient = X'(w l'),     Hessian = X' diag(w l'') X                (1)
    """

    parameters: Parameters
    log_likelihood: Callable[..., Any]

    def __call__(self, z: jax.Array, rows: Rows) -> jax.Array:
        """One log-likelihood per row."""
        named = self.parameters.constrain(z)
        values = jax.vmap(lambda row: self.log_likelihood(named, row))(rows)
        if values is None:
            raise ValueError("`log_likelihood` must return one number for a row, got None.")
        if jnp.ndim(values) != 1:
            raise ValueError(
                "`log_likelihood` must return one number for a row, "
                f"got shape {jnp.shape(values)[1:]}; sum over its entries."
            )
        return values

    @property
    def has_structure(self) -> bool:
        """Whether this is a generalised linear model whose flat vector is beta."""
        blocks = self.parameters.blocks
        is_beta = list(blocks) == ["beta"] and isinstance(blocks["beta"].bijection, Identity)
        return is_beta and hasattr(self.log_likelihood, "of_predictor")

    def derivatives(self, z: jax.Array, rows: Rows, weights: jax.Array) -> tuple[Any, Any, Any]:
        """The weighted sum over all rows, with its gradient and its Hessian, eq. (1)."""
        X = rows["x"].astype(z.dtype)  # whole numbers would overflow in products
        columns = X.T * weights  # the same at every z, so computed once, before a loop over them
        value, slope, curvature = self.log_likelihood.of_predictor(X @ z, rows)  # type: ignore[attr-defined]
        return weights @ value, columns @ slope, weighted_product(columns, X, curvature)  # (1)


def weighted_product(columns: jax.Array, X: jax.Array, curvature: jax.Array) -> jax.Array:
    """columns diag(curvature) X; if X is small, one product with its pairs, which chains share."""
    size, dim = X.shape
    if size * dim * dim > LARGEST_PAIRED:
        return (columns * curvature) @ X
    pairs = (columns[:, None] * X.T).reshape(dim * dim, size)
    return (pairs @ curvature).reshape(dim, dim)


@dataclass(frozen=True)
class UnconstrainedPrior:
    """A log-prior of the constrained parameters, as a density of the flat vector."""

    parameters: Parameters
    log_prior: Callable[..., Any]

    def __call__(self, z: jax.Array) -> jax.Array:
        """log p(z) with the log-determinant of the constraints."""
        return self.log_prior(self.parameters.constrain(z)) + self.parameters.log_determinant(z)


def derivatives_of(
    function: Callable[[jax.Array], jax.Array], z: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Value, gradient and Hessian by automatic differentiation."""
    value, gradient = jax.value_and_grad(function)(z)
    return value, gradient, jax.hessian(function)(z)
