"""What the numbers that a site sends have to do with its rows, for logistic regression.

A row has covariates a, the first of which is 1 (the intercept), and a label y of 0 or 1. Its part
of the potential f_i depends on one vector only, the signed row

    b = (1 - 2 y) a                                                                         (1)

and with those of all rows of the site, and 1/N of the log-prior,

    f_i(x)      = sum_r log(1 + exp(b_r'x)) - (1/N) log p(x)                                (2)
    grad f_i(x) = sum_r s(b_r'x) b_r - (1/N) grad log p(x),     s(t) = 1 / (1 + exp(-t))    (3)
    Hess f_i(x) = sum_r s'(b_r'x) b_r b_r' - (1/N) Hess log p(x)                            (4)

Curvature noise adds to a gradient, with standard normal w_i that follow from the seed (eq. (7) of
`starlings.samplers.dadmms`), or with normal v that all agents share (eq. (8) there),

    R_i w_i,   R_i R_i' = Hess f_i(x),      or      Hess f_i(x) v                           (5)

and a minibatch of B of n rows, whose numbers r_1..r_B follow from the seed too, makes

    (n / B) sum_k s(b_k'x) b_k,   k = r_1, ..., r_B,   instead of the sum in (3)            (6)

The sign of b's first entry tells the label, for the covariate there is 1. In a model without an
intercept, (a, y) and (-a, 1 - y) cannot be told apart.

`Equations` pair what rows would make with the numbers that were received. A neighbour knows the
prior, and takes its part off the numbers first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Equations(NamedTuple):
    """Numbers that were received, and what signed rows would make instead."""

    predicted: Callable[[jax.Array], jax.Array]
    """The numbers (any shape) of a site with signed rows (row, dim)."""
    received: np.ndarray
    """The numbers, of the same shape."""


def value(rows: Any, points: Any) -> jax.Array:
    """The rows' part of eq. (2) at points (point, dim), as (point,)."""
    return jax.nn.softplus(points @ rows.T).sum(axis=1)  # (2)


def gradient(rows: Any, points: Any) -> jax.Array:
    """The rows' part of eq. (3) at points (point, dim), as (point, dim)."""
    return jax.nn.sigmoid(points @ rows.T) @ rows  # (3)


def hessian(rows: Any, points: Any) -> jax.Array:
    """The rows' part of eq. (4) at points (point, dim), as (point, dim, dim)."""
    probability = jax.nn.sigmoid(points @ rows.T)
    return jnp.einsum("pr,ri,rj->pij", probability * (1 - probability), rows, rows)  # (4)


def of_values(points: np.ndarray, values: np.ndarray) -> Equations:
    """Potentials (point,) at points (point, dim)."""
    return Equations(lambda rows: value(rows, points), values)


def of_changes(before: np.ndarray, after: np.ndarray, changes: np.ndarray) -> Equations:
    """Changes (point,) of the potential from some points (point, dim) to others."""
    return Equations(lambda rows: value(rows, after) - value(rows, before), changes)


def of_gradients(points: np.ndarray, gradients: np.ndarray) -> Equations:
    """Gradients (point, dim) at points (point, dim)."""
    return Equations(lambda rows: gradient(rows, points), gradients)


def of_hessians(points: np.ndarray, hessians: np.ndarray) -> Equations:
    """Hessians (point, dim, dim) at points (point, dim)."""
    return Equations(lambda rows: hessian(rows, points), hessians)


def of_root_noise(
    slopes: np.ndarray,
    points: np.ndarray,
    before: np.ndarray,
    normal: np.ndarray,
    prior: np.ndarray,
) -> Equations:
    """Gradients (point, dim) at points, plus noise R_i w_i of eq. (5) at the points before.

    Args:
        slopes: gradients plus noise, without the prior's part of the gradients.
        points: where the gradients were taken, (point, dim).
        before: where the Hessian was taken, (point, dim).
        normal: w_i, (point, dim).
        prior: the prior's part of the Hessian, (point, dim, dim).
    """

    def predicted(rows: jax.Array) -> jax.Array:
        roots = jax.vmap(symmetric_root)(hessian(rows, before) + prior)
        return gradient(rows, points) + jnp.einsum("pij,pj->pi", roots, normal)  # (5)

    return Equations(predicted, slopes)


def of_hessian_noise(
    slopes: np.ndarray,
    points: np.ndarray,
    before: np.ndarray,
    normal: np.ndarray,
    prior: np.ndarray,
) -> Equations:
    """The same with noise Hess f_i(x) v of eq. (5); `normal` is v, (point, dim)."""

    def predicted(rows: jax.Array) -> jax.Array:
        noise = jnp.einsum("pij,pj->pi", hessian(rows, before) + prior, normal)  # (5)
        return gradient(rows, points) + noise

    return Equations(predicted, slopes)


def of_minibatches(points: np.ndarray, gradients: np.ndarray, batches: np.ndarray) -> Equations:
    """Gradients (point, dim) of minibatches with rows of these numbers, (point, batch), eq. (6)."""

    def predicted(rows: jax.Array) -> jax.Array:
        chosen = rows[batches]
        probability = jax.nn.sigmoid(jnp.einsum("pbi,pi->pb", chosen, points))
        return len(rows) / batches.shape[1] * jnp.einsum("pb,pbi->pi", probability, chosen)  # (6)

    return Equations(predicted, gradients)


def of_votes(
    before: np.ndarray, after: np.ndarray, thresholds: np.ndarray, votes: np.ndarray
) -> Equations:
    """Votes (point,), 1 where the potential rises by a threshold or more from one point to another.

    A vote is an inequality. What is predicted is 1, and more where rows contradict a vote.
    """
    side = np.where(votes == 1, 1.0, -1.0)

    def predicted(rows: jax.Array) -> jax.Array:
        above = value(rows, after) - value(rows, before) - thresholds
        return 1 + jnp.maximum(0.0, -side * above)

    return Equations(predicted, np.ones(len(votes)))


def of_two_sites(
    points: np.ndarray, others: np.ndarray, differences: np.ndarray, num_first: int
) -> Equations:
    """Gradients of one site at points less those of another site at other points, (point, dim).

    The first `num_first` rows are those of the first site.
    """

    def predicted(rows: jax.Array) -> jax.Array:
        return gradient(rows[:num_first], points) - gradient(rows[num_first:], others)

    return Equations(predicted, differences)


@jax.custom_jvp
def symmetric_root(matrix: jax.Array) -> jax.Array:
    """The symmetric root of a positive definite matrix."""
    values, vectors = jnp.linalg.eigh(matrix)
    return (vectors * jnp.sqrt(values)) @ vectors.T


@symmetric_root.defjvp
def _change_of_root(primals: Any, tangents: Any) -> tuple[jax.Array, jax.Array]:
    """The change dR of a root, which solves R dR + dR R = dH, also where eigenvalues are equal."""
    values, vectors = jnp.linalg.eigh(primals[0])
    roots = jnp.sqrt(values)
    turned = vectors.T @ tangents[0] @ vectors / (roots[:, None] + roots)
    return (vectors * roots) @ vectors.T, vectors @ turned @ vectors.T
