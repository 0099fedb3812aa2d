"""A Gaussian target given by its local potentials, for theory and tests."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from starlings.problem import Problem
from starlings.problem.quadratic import Quadratic


def gaussian(hessians: Any, linear: Any = None) -> Problem:
    """A Gaussian target by its local potentials f_i(x) = x'H_i x / 2 - b_i'x, for theory and tests.

    Args:
        hessians: H_i of every agent, (agents, dim, dim).
        linear: b_i of every agent, (agents, dim); by default zero.

    >>> problem = gaussian([[[2.0]], [[3.0]]])
    >>> problem.potential([1.0])
    2.5
    """
    stack = np.asarray(hessians, float)
    if stack.ndim != 3 or stack.shape[1] != stack.shape[2]:
        raise ValueError(f"`hessians` must have shape (agents, dim, dim), got {stack.shape}.")
    vectors = np.zeros(stack.shape[:2]) if linear is None else np.asarray(linear, float)
    if vectors.shape != stack.shape[:2]:
        raise ValueError(f"`linear` must have shape {stack.shape[:2]}, got {vectors.shape}.")
    shards = [{"hessian": H[None], "linear": b[None]} for H, b in zip(stack, vectors, strict=True)]
    parameters = {"x": (stack.shape[1],)}
    symmetric = (stack + stack.swapaxes(1, 2)) / 2
    known = Quadratic.factored(symmetric, vectors, np.zeros(len(stack)))
    return Problem(local_quadratic, flat_prior, parameters, shards).with_quadratic(known)


def local_quadratic(p: dict[str, Any], row: dict[str, Any]) -> jax.Array:
    """The log-likelihood b'x - x'Hx/2 of a row that contains a potential, H and b."""
    x = p["x"]
    return -0.5 * x @ row["hessian"] @ x + row["linear"] @ x


def flat_prior(p: dict[str, Any]) -> float:
    """The log-density, zero everywhere, of an improper flat prior."""
    return 0.0
