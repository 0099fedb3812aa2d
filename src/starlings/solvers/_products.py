"""Products of small matrices and vectors, written so that each compiler makes fast code of them.

Nothing here changes a result by more than rounding. The product of one agent, M v, is computed for
all agents and chains at once: `jax.custom_batching` tells how many chains share an agent's matrix,
and by that, by the dimension and by the platform one of two ways is chosen.

    product        a contraction, M @ v                                                         (1)
    by columns     sum_k M[:, k] v[k], which becomes part of the loop that computes v           (2)

With a single chain on CPU, XLA would put the computation of v into the loop of (2) once for every
column. A conditional keeps it out, for its operands are stored in memory.

Rounds on CPU take so many times as long without this file's choices (measured in turns in one
process):

    v not stored                                    1.09 to 1.34, and 1.69 with 10^6 agents
    the same way for every number of chains         1.1 to 1.5 in most cases
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

FEW_COLUMNS = 2
"""Largest dimension at which (2) is used with several chains."""
COLUMNS_FOR_ONE_CHAIN = 8
"""Largest dimension at which (2) is used with a single chain."""
MANY_CHAINS = 32
"""Number of chains from which (1) is faster on CPU at any dimension."""


def by_columns(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    """The product (2) of a matrix (dim, dim) and a vector (dim,)."""
    terms = [matrix[:, k] * vector[k] for k in range(vector.size)]
    return sum(terms[1:], terms[0])


def product(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    """M v, for a matrix that is computed in every step and differs from chain to chain."""
    return by_columns(matrix, vector) if vector.size <= FEW_COLUMNS else matrix @ vector


@custom_vmap
def fixed_product(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    """M v, for a matrix of an agent that all chains and all rounds share."""
    return matrix @ vector


@fixed_product.def_vmap
def _for_all_agents(size: int, batched: Any, matrix: Any, vector: Any) -> Any:
    """One level of `jax.vmap`: over the agents, if both arguments have an axis for it."""
    if all(batched):
        return _agents_product(matrix, vector), True
    return jax.vmap(jnp.matmul, _axes(batched))(matrix, vector), True


@custom_vmap
def _agents_product(matrices: jax.Array, vectors: jax.Array) -> jax.Array:
    """M_i v_i for all agents i, with the agents along the first axes."""
    return jax.vmap(jnp.matmul)(matrices, vectors)


@_agents_product.def_vmap
def _for_all_chains(chains: int, batched: Any, matrices: Any, vectors: Any) -> Any:
    """Matrices (agent, dim, dim), which the chains share, times vectors (chain, agent, dim)."""
    if batched[0]:
        return jax.vmap(jax.vmap(jnp.matmul), _axes(batched))(matrices, vectors), True
    dim = vectors.shape[-1]
    if chains == 1:
        cpu = _columns_of_stored if dim <= COLUMNS_FOR_ONE_CHAIN else _contraction
    else:
        cpu = _columns if dim <= FEW_COLUMNS and chains < MANY_CHAINS else _contraction
    default = _columns if dim <= FEW_COLUMNS else _contraction
    return jax.lax.platform_dependent(matrices, vectors, cpu=cpu, default=default), True


def _axes(batched: Any) -> list[int | None]:
    return [0 if is_batched else None for is_batched in batched]


def _contraction(matrices: jax.Array, vectors: jax.Array) -> jax.Array:
    return jnp.moveaxis(matrices @ jnp.moveaxis(vectors, 0, -1), -1, 0)


def _columns(matrices: jax.Array, vectors: jax.Array) -> jax.Array:
    return jax.vmap(jax.vmap(by_columns), (None, 0))(matrices, vectors)


def _columns_of_stored(matrices: jax.Array, vectors: jax.Array) -> jax.Array:
    """(2) with the vectors stored first: both branches are the product, the first one faster."""
    is_number = ~jnp.isnan(matrices[0, 0, 0])  # not known to the compiler, which keeps the branches
    return jax.lax.cond(is_number, _columns, _contraction, matrices, vectors)
