"""The mode of the pooled posterior, by Newton's method on sums over the network.

With F = sum_i f_i, from sums of values, gradients and Hessians that every agent holds alike,

    x <- x - t |H|^-1 sum_i grad f_i(x),   t = 1, 1/2, 1/4, ... while F falls               (1)

where |H| has the absolute eigenvalues of sum_i Hess f_i, scaled to a unit diagonal first: far from
the mode a Hessian may be indefinite, and parameters differ in scale by orders. Past
`DENSE_DIMENSION` parameters only the diagonal of the Hessian is summed, and the direction is that
of L-BFGS started from it: a matrix with d^2 entries would be too much to send and to factorise.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.gossip import Gossip
from starlings.problem import Agent

DENSE_DIMENSION = 300
MAX_ITERATIONS = 200
MEMORY = 20
"""Pairs of steps and changes of gradient that L-BFGS remembers."""
TOLERANCE = 1e-9
"""On half the squared Newton decrement: what F could still fall by."""
SMALLEST_EIGENVALUE = 1e-10
"""Of the scaled Hessian; below it a direction counts as flat."""
TRIALS = 2.0 ** -np.arange(20)

Derivatives = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of every agent: its value, gradient and Hessian, a matrix or the vector of its diagonal."""


class TuningError(RuntimeError):
    """No mode was found, so there is nothing to centre the sampler on."""


def find_mode(
    gossip: Gossip, agents: Agent, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Eq. (1) from `start`: the mode, the summed Hessian there, and the iterations it took.

    The Hessian is a matrix, or past `DENSE_DIMENSION` the vector of its diagonal.
    """
    point = agreed(gossip, start)
    directions = Newton() if len(point) <= DENSE_DIMENSION else LimitedMemory()
    for iteration in range(MAX_ITERATIONS):
        value, gradient, hessian = summed(gossip, derivatives_at(agents, point))
        if not np.isfinite(value):
            raise TuningError(f"the potential is {value} at the start {point}; give another start.")
        direction = directions.next(point, gradient, hessian)
        if -gradient @ direction / 2 < TOLERANCE:
            return point, hessian, iteration
        values = gossip.sum(values_at(agents, point + TRIALS[:, None] * direction))[0]
        allowed = value + 1e-4 * TRIALS * (gradient @ direction) + 1e-12 * abs(value)
        good = np.flatnonzero(np.asarray(values) <= allowed)
        if len(good) == 0:
            break
        point = agreed(gossip, point + TRIALS[good[0]] * direction)  # (1)
    raise TuningError(
        f"no mode was found in {iteration + 1} Newton iterations; the posterior may be improper "
        "or have no mode. Give a `start` nearer to it, or choose a sampler and its rho yourself."
    )


class Newton:
    """Directions from the whole Hessian."""

    def next(self, point: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        """-|H|^-1 g, by the eigenvalues of H scaled to a unit diagonal."""
        unit, values, vectors = _scaled_eigen(hessian)
        return -unit * (vectors @ ((vectors.T @ (unit * gradient)) / values))


class LimitedMemory:
    """Directions of L-BFGS, started from the absolute diagonal of the Hessian."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=MEMORY)
        self.last: tuple[np.ndarray, np.ndarray] | None = None

    def next(self, point: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        """-B g, with B the inverse Hessian that the remembered pairs suggest."""
        self._remember(point, gradient)
        direction, passed = -gradient, []
        for step, change in reversed(self.pairs):
            share = (step @ direction) / (step @ change)
            direction = direction - share * change
            passed.append(share)
        direction = direction / np.maximum(np.abs(hessian), SMALLEST_EIGENVALUE)
        for (step, change), share in zip(self.pairs, reversed(passed), strict=True):
            direction = direction + (share - (change @ direction) / (step @ change)) * step
        return direction

    def _remember(self, point: np.ndarray, gradient: np.ndarray) -> None:
        if self.last is not None:
            step, change = point - self.last[0], gradient - self.last[1]
            if step @ change > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
                self.pairs.append((step, change))
        self.last = (point, gradient)


def inverse_root(hessian: np.ndarray) -> np.ndarray:
    """L with L L' = |H|^-1, a matrix or the vector of a diagonal."""
    if hessian.ndim == 1:
        return 1 / np.sqrt(np.maximum(np.abs(hessian), SMALLEST_EIGENVALUE))
    unit, values, vectors = _scaled_eigen(hessian)
    return unit[:, None] * vectors / np.sqrt(values)


def _scaled_eigen(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    diagonal = np.abs(np.diag(hessian))
    unit = 1 / np.sqrt(np.maximum(diagonal, 1e-12 * max(diagonal.max(), 1e-12)))
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    return unit, np.maximum(np.abs(values), SMALLEST_EIGENVALUE), vectors


def summed(gossip: Gossip, derivatives: Derivatives) -> tuple[float, np.ndarray, np.ndarray]:
    """F, its gradient and its Hessian (or the diagonal), from `derivatives_at` of every agent."""
    values, gradients, packed = derivatives
    dim, is_dense = gradients.shape[1], packed.ndim == 3
    if is_dense:
        upper = np.triu_indices(dim)
        packed = packed[:, *upper]
    total = np.asarray(gossip.sum(np.column_stack([values, gradients, packed])))[0]
    value, gradient, packed = float(total[0]), total[1 : 1 + dim], total[1 + dim :]
    if not is_dense:
        return value, gradient, packed
    hessian = np.zeros((dim, dim))
    hessian[upper] = packed
    return value, gradient, hessian + np.triu(hessian, 1).T


def derivatives_at(agents: Agent, point: np.ndarray) -> Derivatives:
    """f_i, its gradient and its Hessian (or the diagonal), agent by agent."""
    if agents.quadratic is None:
        values, gradients, hessians = map(np.asarray, _derivatives_at(agents, point))
        return values, gradients, hessians
    values, gradients, hessians = agents.quadratic.derivatives(point)  # without compiling anything
    is_dense = len(point) <= DENSE_DIMENSION
    return values, gradients, hessians if is_dense else np.einsum("ijj->ij", hessians)


@jax.jit
def _derivatives_at(agents: Agent, point: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    return jax.vmap(lambda a: (a.potential(point), a.gradient(point), hessian_of(a, point)))(agents)


def hessian_of(agent: Agent, point: jax.Array) -> jax.Array:
    """The Hessian of one agent's potential, or its diagonal past `DENSE_DIMENSION`."""
    if len(point) <= DENSE_DIMENSION:
        hessian = agent.hessian(point)
        return (hessian + hessian.T) / 2

    def entry(k):
        unit = jnp.zeros_like(point).at[k].set(1.0)
        return jax.jvp(agent.gradient, (point,), (unit,))[1][k]

    return jax.lax.map(entry, jnp.arange(len(point)))


def values_at(agents: Agent, points: np.ndarray) -> Any:
    """f_i of every agent at several points, (agent, point)."""
    if agents.quadratic is None:
        return _values_at(agents, points)
    return np.column_stack([agents.quadratic.values(point) for point in points])


@jax.jit
def _values_at(agents: Agent, points: Any) -> jax.Array:
    return jax.vmap(lambda agent: jax.vmap(agent.potential)(points))(agents)


def agreed(gossip: Gossip, value: np.ndarray) -> np.ndarray:
    """The value as agent 0 has it, after it has flooded the network."""
    copies = np.broadcast_to(value, (len(gossip.network.held), *np.shape(value)))
    return gossip.flood(copies)[-1]
