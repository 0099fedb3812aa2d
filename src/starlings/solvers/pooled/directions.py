"""Directions of descent for the search of the mode, and the metric that a Hessian gives."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

import numpy as np

from starlings.solvers.pooled.potential import Derivatives

MAX_NEWTON_ITERATIONS = 60
"""Number of Newton iterations after which the search is given up."""
MAX_QUASI_NEWTON_ITERATIONS = 300
"""Number of iterations of L-BFGS after which the search is given up."""
DAMPING = (0.1, 1.0, 10.0, 100.0)
"""What is added, without unit, to the eigenvalues of a Hessian that is scaled to a unit diagonal,
for shorter steps."""
DOWNWARD = -1e-6
"""Eigenvalue, without unit, of such a Hessian below which F surely curves downwards."""
MEMORY = 20
"""Number of pairs (step, change of gradient) that L-BFGS remembers."""
SMALLEST_EIGENVALUE = 1e-12
"""Smallest eigenvalue, without unit, of a Hessian that is scaled to a unit diagonal. Rounding
changes eigenvalues by about 1e-15, so that a smaller one is not known."""
SMALLEST_COSINE = 1e-10
"""Smallest cosine of the angle between a step and its change of gradient at which L-BFGS remembers
the pair: at a smaller one the curvature along the step is not known to be positive."""


class Descent(NamedTuple):
    """Where to go from a point, by the derivatives there."""

    direction: np.ndarray
    """The whole step of the rule, (dim,)."""
    decrement: float
    """The slope of F against the direction, the squared Newton decrement: twice the nats by which
    F should fall."""
    damped: np.ndarray
    """Shorter steps that turn towards the scaled gradient, by `DAMPING`, (step, dim)."""
    escape: np.ndarray | None = None
    """A direction along which F curves downwards; None if there is none."""


class DescentRule(Protocol):
    """A rule for the next direction of descent."""

    max_iterations: int
    """Number of iterations after which the search is given up."""
    patience: int
    """Number of iterations in which the search has to come nearer to its end."""

    def next(self, point: np.ndarray, here: Derivatives) -> Descent:
        """Where to go from a point."""


class NewtonDescent:
    """Directions from the whole Hessian."""

    max_iterations, patience = MAX_NEWTON_ITERATIONS, MAX_NEWTON_ITERATIONS // 3

    def next(self, point: np.ndarray, here: Derivatives) -> Descent:
        """-(|H| + damping)^-1 g, by the eigenvalues of H scaled to a unit diagonal."""
        unit, signed, vectors = _scaled_eigen(here.hessian)
        slopes, values = vectors.T @ (unit * here.gradient), _away_from_zero(signed)
        damping = np.array((0.0, *DAMPING))[:, None]
        steps = -unit * ((slopes / (values + damping)) @ vectors.T)
        escape = unit * vectors[:, 0] / np.sqrt(values[0])
        return Descent(
            steps[0],
            float(slopes @ (slopes / values)),
            steps[1:],
            escape if signed[0] < DOWNWARD else None,
        )


class LimitedMemoryDescent:
    """Directions of L-BFGS, started from the absolute diagonal of the Hessian."""

    max_iterations, patience = MAX_QUASI_NEWTON_ITERATIONS, MAX_QUASI_NEWTON_ITERATIONS // 3

    def __init__(self) -> None:
        self.pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=MEMORY)
        self.last: tuple[np.ndarray, np.ndarray] | None = None

    def next(self, point: np.ndarray, here: Derivatives) -> Descent:
        """-B g, with B the inverse Hessian that the remembered pairs suggest."""
        self._remember(point, here.gradient)
        direction, shares = -here.gradient, []
        for step, change in reversed(self.pairs):
            share = (step @ direction) / (step @ change)
            direction = direction - share * change
            shares.append(share)
        direction = direction / _away_from_zero(here.hessian)
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            direction = direction + (share - (change @ direction) / (step @ change)) * step
        return Descent(direction, float(-here.gradient @ direction), np.zeros((0, len(point))))

    def _remember(self, point: np.ndarray, gradient: np.ndarray) -> None:
        if self.last is not None:
            step, change = point - self.last[0], gradient - self.last[1]
            lengths = np.linalg.norm(step) * np.linalg.norm(change)
            if step @ change > SMALLEST_COSINE * lengths:
                self.pairs.append((step, change))
        self.last = (point, gradient)


def inverse_root(hessian: np.ndarray) -> np.ndarray:
    """L with L L' = |H|^-1, a matrix or the vector of a diagonal."""
    if hessian.ndim == 1:
        return 1 / np.sqrt(_away_from_zero(hessian))
    unit, values, vectors = _scaled_eigen(hessian)
    return unit[:, None] * vectors / np.sqrt(_away_from_zero(values))


def flat_direction(hessian: np.ndarray) -> np.ndarray | None:
    """Absolute entries (dim,) of a direction without known curvature; None if there is none."""
    if hessian.ndim == 1:
        return None
    _, values, vectors = _scaled_eigen(hessian)
    flattest = int(np.abs(values).argmin())
    is_flat = np.abs(values[flattest]) <= SMALLEST_EIGENVALUE
    return np.abs(vectors[:, flattest]) if is_flat else None


def _scaled_eigen(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The scale of a unit diagonal, and eigenvalues (ascending) and eigenvectors at that scale."""
    diagonal = np.abs(np.diag(hessian))
    unit = 1 / np.sqrt(np.maximum(diagonal, 1e-12 * max(diagonal.max(), 1e-12)))
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    return unit, values, vectors


def _away_from_zero(curvatures: np.ndarray) -> np.ndarray:
    return np.maximum(np.abs(curvatures), SMALLEST_EIGENVALUE)
