"""Potentials that are known to be quadratic.

    f_i(z) = z'H_i z / 2 - b_i'z + c_i                                     (1)

Fields are those of one agent inside compiled code, and of a stack of agents, with the agent as
first axis, outside it.
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
    """(H + c I)^-1 for a Hessian H and a number c: it solves a proximal step by one product."""

    matrix: Any
    """The inverse, (dim, dim)."""
    is_positive: Any
    """Whether H + c I is positive definite, so that the proximal step has a minimum."""

    @property
    def residual(self) -> Any:
        """The residual of the proximal step: 0, or infinite if it has no minimum."""
        return jnp.where(self.is_positive, 0.0, jnp.inf).astype(self.matrix.dtype)


@pytree
@dataclass(frozen=True)
class Quadratic:
    """A quadratic potential, eq. (1), with H = Q diag(curvatures) Q' factored once."""

    hessian: Any
    """H, (dim, dim)."""
    linear: Any
    """b, (dim,)."""
    constant: Any
    """c, one number."""
    basis: Any
    """Q, the orthogonal matrix of eigenvectors of H, (dim, dim)."""
    curvatures: Any
    """The eigenvalues of H, ascending, (dim,)."""
    shifted: ShiftedInverse | None = None
    """The inverse for the proximal steps of a run; None until a sampler has computed it."""

    @classmethod
    def factored(cls, hessian: np.ndarray, linear: np.ndarray, constant: np.ndarray) -> Quadratic:
        """The potentials of a stack of agents, with every H_i factored."""
        curvatures, basis = np.linalg.eigh(hessian)
        return cls(hessian, linear, constant, basis, curvatures)

    def values(self, z: np.ndarray) -> np.ndarray:
        """Eq. (1) for a stack of agents at one z, (agent,)."""
        return self.derivatives(z)[0]

    def derivatives(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, gradients and Hessians of a stack of agents at one z, in NumPy."""
        hessian, linear, constant = map(np.asarray, (self.hessian, self.linear, self.constant))
        product = hessian @ z
        return (product / 2 - linear) @ z + constant, product - linear, hessian

    def in_frame(self, frame: Frame) -> Quadratic:
        """The potentials g_i of a stack of agents in a frame, see `problem.coordinates` eq. (1)."""
        scale, tilt = map(_as_matrices, (frame.scale, frame.quadratic_tilt), (1, 2))
        gradient = self.hessian @ frame.centre - self.linear
        hessian = scale.T @ self.hessian @ scale - tilt
        linear = frame.linear_tilt - gradient @ scale
        return Quadratic.factored(hessian, linear, self.values(frame.centre))

    def shifted_by(self, shift: Any) -> ShiftedInverse:
        """(H + shift I)^-1, which means something only if that matrix is positive definite."""
        inverse = (self.basis / (self.curvatures + shift)) @ self.basis.T
        return ShiftedInverse(inverse, jnp.min(self.curvatures) + shift > 0)


def _as_matrices(array: np.ndarray, diagonal_ndim: int) -> np.ndarray:
    """An array of matrices; an array with `diagonal_ndim` axes has only their diagonals."""
    return array[..., None] * np.eye(array.shape[-1]) if array.ndim == diagonal_ndim else array
