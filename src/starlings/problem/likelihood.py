"""Log-densities of the model's flat vector x: the likelihood of every row, the prior, derivatives.

A row of a generalised linear model depends on the parameters through its linear predictor
eta = x'beta only. Its log-likelihood l then has, over all rows with covariates X and weights w,

    gradient = X'(w l'(eta)),     Hessian = X' diag(w l''(eta)) X          (1)

Rows can have two more columns: `offset`, a known part of the predictor, and `weight`, a known
factor of a row's log-likelihood:

    eta = x'beta + offset,     log-likelihood of the row = weight l(eta)   (2)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from starlings.problem._products import weighted_product
from starlings.problem.parameters import Identity, Parameters
from starlings.problem.shards import Rows

Derivatives = tuple[jax.Array, jax.Array, jax.Array]
"""A value (), its gradient (dim,) and its Hessian (dim, dim) at one point."""
RowLogLikelihood = Callable[[dict[str, Any], dict[str, Any]], Any]
"""(constrained parameters by name, entries of one row by column) -> log-likelihood of the row."""


class Likelihood(ABC):
    """The log-likelihood of many rows at the model's flat vector, as an `Agent` uses it.

    Objects are static arguments of compiled programs, so they need `==` and `hash`: equal objects
    share a compiled program. Frozen dataclasses have both.
    """

    @abstractmethod
    def __call__(self, x: jax.Array, rows: Rows) -> jax.Array:
        """The log-likelihood of every row at the flat vector x, (row,)."""

    @property
    def has_derivatives(self) -> bool:
        """Whether `derivatives` is implemented; if not, automatic differentiation is used."""
        return False

    def derivatives(self, x: jax.Array, rows: Rows, weights: jax.Array) -> Derivatives:
        """The sum over all rows times their weights (row,), with its gradient and its Hessian."""
        raise NotImplementedError(f"{type(self).__name__} has no derivatives of its own.")


@dataclass(frozen=True)
class FlatLikelihood(Likelihood):
    """A function of the flat vector and all rows, taken as it is."""

    function: Callable[[jax.Array, Rows], jax.Array]

    def __call__(self, x: jax.Array, rows: Rows) -> jax.Array:
        """The log-likelihood of every row at the flat vector x, (row,)."""
        return self.function(x, rows)


@dataclass(frozen=True)
class RowwiseLikelihood(Likelihood):
    """A function of the named parameters and one row, applied to all rows."""

    parameters: Parameters
    log_likelihood: RowLogLikelihood

    def __call__(self, x: jax.Array, rows: Rows) -> jax.Array:
        """The log-likelihood of every row at the flat vector x, (row,)."""
        named = self.parameters.constrain(x)
        values = jax.vmap(lambda row: self.log_likelihood(named, row))(rows)
        if values is None:
            raise ValueError("`log_likelihood` must return one number for a row, got None.")
        if jnp.ndim(values) != 1:
            raise ValueError(
                "`log_likelihood` must return one number for a row, "
                f"got shape {jnp.shape(values)[1:]}; sum over its entries."
            )
        return values


class LinearPredictorModel(ABC):
    """The log-likelihood of one row of a generalised linear model: a column `x`, parameters `beta`.

    Rows may have the columns `offset` and `weight` of eq. (2). They are applied here, so that
    `of_predictor` gets the whole predictor and knows of neither. A subclass is a `log_likelihood`
    for `Problem`. If `beta` is the only parameter and has no constraint, agents use eq. (1) instead
    of automatic differentiation.
    """

    @abstractmethod
    def of_predictor(self, eta: jax.Array, row: dict[str, Any]) -> tuple[Any, Any, Any]:
        """The log-likelihood l and its derivatives l' and l'' at the linear predictor eta."""

    def __call__(self, p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
        """The log-likelihood of one row at the named parameters."""
        eta = linear_predictor(row["x"], p["beta"], row)
        return weighted(self.of_predictor(eta, row)[0], row)


@dataclass(frozen=True)
class GeneralisedLinearLikelihood(RowwiseLikelihood):
    """A `LinearPredictorModel` whose flat vector is beta, with the derivatives of eq. (1)."""

    log_likelihood: LinearPredictorModel

    @property
    def has_derivatives(self) -> bool:
        """True: `derivatives` is implemented."""
        return True

    def derivatives(self, x: jax.Array, rows: Rows, weights: jax.Array) -> Derivatives:
        """The sum over all rows times their weights (row,), with its gradient and its Hessian."""
        X = rows["x"].astype(x.dtype)  # products of small integer types would overflow
        weights = weighted(weights, rows)
        columns = X.T * weights  # does not depend on x, so XLA computes it once before a loop
        eta = linear_predictor(X, x, rows)
        value, slope, curvature = self.log_likelihood.of_predictor(eta, rows)
        return weights @ value, columns @ slope, weighted_product(columns, X, curvature)  # (1)


def linear_predictor(x: Any, beta: Any, rows: Rows) -> Any:
    """eta of eq. (2), for the covariates x of one row or of many."""
    eta = x @ beta
    return eta + jnp.asarray(rows["offset"], eta.dtype) if "offset" in rows else eta


def weighted(values: Any, rows: Rows) -> Any:
    """The values of one row or of many, times the weights of the rows if they have any."""
    return values * jnp.asarray(rows["weight"], values.dtype) if "weight" in rows else values


def rowwise_likelihood(parameters: Parameters, log_likelihood: RowLogLikelihood) -> Likelihood:
    """The likelihood of a function of one row, with derivatives if it is known to have them."""
    if isinstance(log_likelihood, LinearPredictorModel) and _flat_vector_is_beta(parameters):
        return GeneralisedLinearLikelihood(parameters, log_likelihood)
    return RowwiseLikelihood(parameters, log_likelihood)


def _flat_vector_is_beta(parameters: Parameters) -> bool:
    blocks = parameters.blocks
    return list(blocks) == ["beta"] and isinstance(blocks["beta"].bijection, Identity)


@dataclass(frozen=True)
class UnconstrainedPrior:
    """A log-prior of the named, constrained parameters, as a log-density of the flat vector."""

    parameters: Parameters
    log_prior: Callable[[dict[str, Any]], Any]

    def __call__(self, x: jax.Array) -> jax.Array:
        """log p(x), with the log-determinant of the constraints."""
        return self.log_prior(self.parameters.constrain(x)) + self.parameters.log_determinant(x)


def derivatives_of(function: Callable[[jax.Array], jax.Array], z: jax.Array) -> Derivatives:
    """Value, gradient and Hessian of a scalar function by automatic differentiation."""
    value, gradient = jax.value_and_grad(function)(z)
    return value, gradient, jax.hessian(function)(z)
