"""Potentials that are known to be quadratic,

f_i(z) = z'H_i z / 2 - b_i'z + c_i                                     (1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from starlings.problem.coordinates import Frame
from starlings.pytrees import pytree


@pytree
@dataclass(frozen=True)
class ShiftedInverse:
    """The inverse of a matrix plus a multiple of the identity."""

    matrix: Any
    is_positive: Any

    @property
    def residual(self) -> Any:
        """Of the equations that it solves: infinite where there is no minimum."""
        return jnp.where(self.is_positive, 0.0, jnp.inf).astype(self.matrix.dtype)


@pytree
@dataclass(frozen=True)
class Quadratic:
    """A quadratic potential, eq. (1), with H = Q diag(curvatures) Q' factored once."""

    hessian: Any
    linear: Any
    constant: Any
    basis: Any
    """Q, orthogonal."""
    curvatures: Any
    """The eigenvalues of H."""
    shifted: ShiftedInverse | None = None
    """For the shift of a run, once that is known: a proximal step then is one product."""

    @classmethod
    def factored(cls, hessian: np.ndarray, linear: np.ndarray, constant: np.ndarray) -> Quadratic:
        """Factor H_i for a stack of agents."""
        curvatures, basis = np.linalg.eigh(hessian)
        return cls(hessian, linear, constant, basis, curvatures)

    def values(self, z: np.ndarray) -> np.ndarray:
        """Eq. (1) of a stack of agents at one z."""
        return self.derivatives(z)[0]

    def derivatives(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, gradients and Hessians of a stack of agents at one z, in NumPy."""
        hessian, linear, constant = map(np.asarray, (self.hessian, self.linear, self.constant))
        bent = hessian @ z
        return (bent / 2 - linear) @ z + constant, bent - linear, hessian

    def in_frame(self, frame: Frame) -> Quadratic:
        """Of a stack of agents in other coordinates: g_i of `frames`, eq. (1), is quadratic too."""
        scale, tilt = map(_as_matrices, (frame.scale, frame.quadratic_tilt), (1, 2))
        gradient = self.hessian @ frame.centre - self.linear
        hessian = scale.T @ self.hessian @ scale - tilt
        linear = frame.linear_tilt - gradient @ scale
        return Quadratic.factored(hessian, linear, self.values(frame.centre))

    def shifted_by(self, shift: Any) -> ShiftedInverse:
        """(H + shift)^-1, of use only where H + shift is positive definite."""
        inverse = (self.basis / (self.curvatures + shift)) @ self.basis.T
        return ShiftedInverse(inverse, jnp.min(self.curvatures) + shift > 0)


def _as_matrices(array: np.ndarray, diagonal_ndim: int) -> np.ndarray:
    """Matrices, where vectors may stand for diagonal ones."""
    return array[..., None] * np.eye(array.shape[-1]) if array.ndim == diagonal_ndim else array
