"""Directions of descent for the search of the mode, and the metric that a Hessian gives."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import numpy as np

from starlings.solvers.pooled.potential import Derivatives

MEMORY = 20
"""Number of pairs (step, change of gradient) that L-BFGS remembers."""
SMALLEST_EIGENVALUE = 1e-12
"""Smallest eigenvalue, without unit, of a Hessian that is scaled to a unit diagonal. Rounding
changes eigenvalues by about 1e-15, so that a smaller one is not known."""
SMALLEST_COSINE = 1e-10
"""Smallest cosine of the angle between a step and its change of gradient at which L-BFGS remembers
the pair: at a smaller one the curvature along the step is not known to be positive."""


class DescentRule(Protocol):
    """A rule for the next direction of descent."""

    def next(self, point: np.ndarray, here: Derivatives) -> np.ndarray:
        """The direction in which to go from a point."""


class NewtonDescent:
    """Directions from the whole Hessian."""

    def next(self, point: np.ndarray, here: Derivatives) -> np.ndarray:
        """-|H|^-1 g, by the eigenvalues of H scaled to a unit diagonal."""
        unit, values, vectors = _scaled_eigen(here.hessian)
        return -unit * (vectors @ ((vectors.T @ (unit * here.gradient)) / values))


class LimitedMemoryDescent:
    """Directions of L-BFGS, started from the absolute diagonal of the Hessian."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[np.ndarray, np.ndarray]] = deque(maxlen=MEMORY)
        self.last: tuple[np.ndarray, np.ndarray] | None = None

    def next(self, point: np.ndarray, here: Derivatives) -> np.ndarray:
        """-B g, with B the inverse Hessian that the remembered pairs suggest."""
        self._remember(point, here.gradient)
        direction, shares = -here.gradient, []
        for step, change in reversed(self.pairs):
            share = (step @ direction) / (step @ change)
            direction = direction - share * change
            shares.append(share)
        direction = direction / np.maximum(np.abs(here.hessian), SMALLEST_EIGENVALUE)
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            direction = direction + (share - (change @ direction) / (step @ change)) * step
        return direction

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
        return 1 / np.sqrt(np.maximum(np.abs(hessian), SMALLEST_EIGENVALUE))
    unit, values, vectors = _scaled_eigen(hessian)
    return unit[:, None] * vectors / np.sqrt(values)


def flat_direction(hessian: np.ndarray) -> np.ndarray | None:
    """Absolute entries (dim,) of a direction without known curvature; None if there is none."""
    if hessian.ndim == 1:
        return None
    _, values, vectors = _scaled_eigen(hessian)
    flattest = int(values.argmin())
    return np.abs(vectors[:, flattest]) if values[flattest] <= SMALLEST_EIGENVALUE else None


def _scaled_eigen(hessian: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The scale of a unit diagonal, and absolute eigenvalues and eigenvectors at that scale."""
    diagonal = np.abs(np.diag(hessian))
    unit = 1 / np.sqrt(np.maximum(diagonal, 1e-12 * max(diagonal.max(), 1e-12)))
    values, vectors = np.linalg.eigh(unit[:, None] * hessian * unit)
    return unit, np.maximum(np.abs(values), SMALLEST_EIGENVALUE), vectors
