"""Potentials that are known to be quadratic,

f_i(z) = z'H_i z / 2 - b_i'z + c_i                                     (1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class ShiftedInverse(NamedTuple):
    """The inverse of a matrix plus a multiple of the identity."""

    matrix: Any
    is_positive: Any


@jax.tree_util.register_dataclass
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
        return 0.5 * z @ (self.hessian @ z).T - self.linear @ z + self.constant

    def shifted_by(self, shift: Any) -> ShiftedInverse:
        """(H + shift)^-1, of use only where H + shift is positive definite."""
        inverse = (self.basis / (self.curvatures + shift)) @ self.basis.T
        return ShiftedInverse(inverse, jnp.min(self.curvatures) + shift > 0)
