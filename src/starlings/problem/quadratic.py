"""Potentials that are known to be quadratic,

f_i(z) = z'H_i z / 2 - b_i'z + c_i                                     (1)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.problem.coordinates import Frame
from starlings.pytrees import pytree

FEW_COLUMNS, SEVERAL_COLUMNS = 2, 8
"""A matrix with so few is multiplied column by column; with several, only if by one vector."""
MANY_VECTORS = 32
"""From so many on a processor is faster with a product of matrices, however small."""


@pytree
@dataclass(frozen=True)
class ShiftedInverse:
    """The inverse of a matrix plus a multiple of the identity."""

    matrix: Any
    is_positive: Any
    vectors: int | None = field(default=None, metadata={"static": True})
    """With how many, one for each chain, a round multiplies it; None if that is not known."""

    @property
    def residual(self) -> Any:
        """Of the equations that it solves: infinite where there is no minimum."""
        return jnp.where(self.is_positive, 0.0, jnp.inf).astype(self.matrix.dtype)

    def times(self, vector: jax.Array) -> jax.Array:
        """The product with a vector: as a sum over columns where that is faster."""
        is_small = vector.size <= FEW_COLUMNS
        is_met_by_few = self.vectors is not None and self.vectors < MANY_VECTORS
        in_columns = self.is_small_for_one or (is_small and is_met_by_few)
        return jax.lax.platform_dependent(
            self.matrix,
            vector,
            cpu=sum_of_columns if in_columns else jnp.matmul,
            default=sum_of_columns if is_small else jnp.matmul,
        )

    @property
    def is_small_for_one(self) -> bool:
        """Whether it is small and meets a single vector."""
        return self.vectors == 1 and self.matrix.shape[-1] <= SEVERAL_COLUMNS


def sum_of_columns(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    """matrix @ vector, column by column: part of the loop that computes the vector."""
    terms = [matrix[:, k] * vector[k] for k in range(vector.size)]
    return sum(terms[1:], terms[0])


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
        scale, tilt = map(_as_matrices, (frame.scale, frame.quadratic), (1, 2))
        gradient = self.hessian @ frame.centre - self.linear
        hessian = scale.T @ self.hessian @ scale - tilt
        linear = frame.linear - gradient @ scale
        return Quadratic.factored(hessian, linear, self.values(frame.centre))

    def shifted_by(self, shift: Any) -> ShiftedInverse:
        """(H + shift)^-1, of use only where H + shift is positive definite."""
        inverse = (self.basis / (self.curvatures + shift)) @ self.basis.T
        return ShiftedInverse(inverse, jnp.min(self.curvatures) + shift > 0)


def _as_matrices(array: np.ndarray, diagonal_ndim: int) -> np.ndarray:
    """Matrices, where vectors may stand for diagonal ones."""
    return array[..., None] * np.eye(array.shape[-1]) if array.ndim == diagonal_ndim else array
