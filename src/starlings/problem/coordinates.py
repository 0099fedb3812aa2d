"""Other coordinates for the same posterior, in which all agents see the same curvature.

In the coordinates z with x = c + L z, and with a tilt b_i, A_i of its own, agent i works on

    g_i(z) = f_i(c + L z) - b_i'z - z'A_i z / 2                                             (1)

Tilts that sum to zero over the agents leave the posterior exp(-sum_i g_i) as it is: they only
change whose potential carries which part of it. With shares s_i that sum to one (those of the
edges, d_i / sum_j d_j), and with b_i and A_i from each agent's gradient and Hessian at c,

    b_i = grad_i - s_i sum_j grad_j,      A_i = Hess_i - s_i sum_j Hess_j                   (2)

every g_i has the gradient and the Hessian of s_i times the whole posterior at c: agents whose data
differ strongly, and agents without a proper posterior of their own, become alike there.

L and A_i are matrices, or vectors that stand for diagonal matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.pytrees import pytree

ROUNDING = 1e-8
"""What may be left of a sum of tilts, as a share of their sizes."""


@pytree
@dataclass(frozen=True)
class Frame:
    """c, L, b_i and A_i of eq. (1); the tilts of all agents are stacked along a first axis."""

    centre: Any
    scale: Any
    linear: Any
    """b_i."""
    quadratic: Any
    """A_i."""

    def to_original(self, z: jax.Array) -> jax.Array:
        """x = c + L z."""
        return self.centre + times(self.scale, z)

    def from_original(self, x: np.ndarray) -> np.ndarray:
        """z = L^-1 (x - c), for any leading shape."""
        apart = np.asarray(x, float) - self.centre
        if self.scale.ndim == 1:
            return apart / self.scale
        return np.linalg.solve(self.scale, apart[..., None])[..., 0]

    def tilt(self, z: jax.Array) -> jax.Array:
        """b_i'z + z'A_i z / 2."""
        return self.linear @ z + 0.5 * z @ times(self.quadratic, z)

    def pull_back(
        self, z: jax.Array, value: jax.Array, gradient: jax.Array, hessian: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """g_i of eq. (1) and its derivatives at z, from those of f_i at x = c + L z.

        grad g_i = L' grad f_i - b_i - A_i z,     Hess g_i = L' Hess f_i L - A_i         (3)
        """
        if self.scale.ndim == 1:
            slope, tilt = self.scale * gradient, jnp.diag(self.quadratic)
            bend = self.scale[:, None] * hessian * self.scale
        else:
            slope, tilt = gradient @ self.scale, self.quadratic
            bend = self.scale.T @ hessian @ self.scale
        slope = slope - self.linear - times(self.quadratic, z)
        return value - self.tilt(z), slope, bend - tilt  # (3)

    def stacked(self) -> Frame:
        """With centre and scale repeated for every agent."""
        agents = len(self.linear)

        def repeated(array: Any) -> np.ndarray:
            return np.broadcast_to(array, (agents, *np.shape(array)))

        return Frame(repeated(self.centre), repeated(self.scale), self.linear, self.quadratic)


def times(matrix: Any, vector: Any) -> Any:
    """The product with a matrix, or with a diagonal matrix given as a vector."""
    return matrix @ vector if matrix.ndim == 2 else matrix * vector


def frame(
    centre: Any,
    scale: Any,
    agents: int,
    linear: Any = None,
    quadratic: Any = None,
    is_whole: bool = True,
    unnoticed: float = 0.0,
) -> Frame:
    """A checked frame for some number of agents; without tilts unless they are given.

    Tilts must sum to zero if these are all the agents (`is_whole`), but for rounding and for what
    is too small to be noticed in these coordinates (`unnoticed`).
    """
    centre, scale = np.asarray(centre, float), np.asarray(scale, float)
    dim = len(centre)
    if centre.ndim != 1 or scale.shape not in ((dim,), (dim, dim)):
        raise ValueError(
            f"`scale` must have shape {(dim, dim)}, or {(dim,)} for a diagonal matrix, where "
            f"`centre` has shape {centre.shape}; got {scale.shape}."
        )
    if (linear is None) != (quadratic is None):
        raise ValueError("`linear` and `quadratic` tilts have to be given together.")
    if linear is None:
        linear, quadratic = np.zeros((agents, dim)), np.zeros((agents, *scale.shape))
    return Frame(
        centre,
        scale,
        _checked_tilt("linear", linear, (agents, dim), is_whole, unnoticed),
        _checked_tilt("quadratic", quadratic, (agents, *scale.shape), is_whole, unnoticed),
    )


def _checked_tilt(
    name: str, tilt: Any, shape: tuple[int, ...], is_whole: bool, unnoticed: float
) -> np.ndarray:
    array = np.full(0, np.nan) if tilt is None else np.asarray(tilt, float)
    if array.shape != shape:
        raise ValueError(f"`{name}` must have shape {shape}, got {np.shape(tilt)}.")
    left, size = np.abs(array.sum(axis=0)), np.abs(array).sum(axis=0)
    if is_whole and np.any(left > unnoticed + ROUNDING * size):
        raise ValueError(f"`{name}` must sum to zero over the agents: the posterior would change.")
    return (array + array.swapaxes(1, 2)) / 2 if array.ndim == 3 else array
