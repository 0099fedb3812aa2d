"""The posterior of the paper's logistic regression, to compare with what agents draw.

In three dimensions the mean m and covariance C of the posterior exp(-F) of all rows need no
sampler. They are sums over a grid that is white under their last estimate, starting from the mode
and the Hessian there,

    m, C <- moments of exp(-F) at the points m + C^1/2 u,     u in a cube of spacing h       (1)

where the trapezoidal rule errs by about exp(-2 pi^2 / h^2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import softmax

from starlings.problem import Problem
from starlings.solvers.pooled.mode import local_mode

HALF_WIDTH, NODES, PASSES = 8.0, 25, 3
"""The grid (1): standard deviations to each side, points along an axis, and repetitions."""
CHUNK = 256
"""Points of the grid at which the density is computed at once, to save memory."""


@dataclass(frozen=True)
class Posterior:
    """The posterior of all rows, and how accurate its draws are on these rows."""

    mode: np.ndarray
    largest_curvature: float
    """The largest eigenvalue of the Hessian of the pooled potential F, at the mode."""
    mean: np.ndarray
    covariance: np.ndarray
    accuracy: float
    """The expected share of rows that a draw labels right."""
    accuracy_sd: float
    """The standard deviation of that share over draws."""

    @classmethod
    def of(cls, problem: Problem, nodes: int = NODES, half_width: float = HALF_WIDTH) -> Posterior:
        """Compute all of them by sums over a grid of nodes^dim points."""
        with jax.enable_x64(True):
            agent = jax.tree.map(lambda stack: stack[0], problem.pooled().agents())
            mode, hessian = local_mode(problem.pooled())[:2]
            log_density = jax.jit(
                partial(jax.lax.map, lambda z: -agent.potential(z), batch_size=CHUNK)
            )
            cube = grid(np.linspace(-half_width, half_width, nodes), problem.dim)
            points, weights = integrate(log_density, cube, mode, np.linalg.inv(hessian))
        mean, covariance = moments(points, weights)
        hits = accuracies(problem, points[None])[0]
        accuracy = weights @ hits
        spread = np.sqrt(weights @ (hits - accuracy) ** 2)
        stiffest = np.linalg.eigvalsh(hessian)[-1]
        return cls(mode, stiffest, mean, covariance, accuracy, spread)


def grid(axis: np.ndarray, dim: int) -> np.ndarray:
    """All points (len(axis)^dim, dim) with coordinates on one axis."""
    return np.stack(np.meshgrid(*[axis] * dim), axis=-1).reshape(-1, dim)


def integrate(
    log_density: Callable[[np.ndarray], jax.Array],
    cube: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of eq. (1), after `PASSES` estimates of where the points should be."""
    for _ in range(PASSES):
        points = mean + cube @ np.linalg.cholesky(covariance).T  # (1)
        weights = softmax(np.array(log_density(points)))
        mean, covariance = moments(points, weights)
    return points, weights


def moments(points: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of weighted points."""
    mean = weights @ points
    return mean, (points - mean).T * weights @ (points - mean)


def accuracies(problem: Problem, positions: np.ndarray) -> np.ndarray:
    """The share of all rows that each of the positions (round, ..., dim) labels right."""
    pooled = problem.pooled().shards["pooled"]
    return np.array(_share_right(positions, pooled["x"], pooled["y"] == 1), dtype=float)


@jax.jit
def _share_right(positions, rows, labels):
    def in_one_round(x):
        return jnp.mean((x @ rows.T >= 0) == labels, axis=-1)

    return jax.lax.map(in_one_round, positions)
