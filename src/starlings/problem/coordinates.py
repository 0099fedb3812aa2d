"""Other coordinates for the same posterior, in which all agents have the same curvature.

In the coordinates z with x = c + L z, and with a tilt b_i, A_i of its own, agent i works on

    g_i(z) = f_i(c + L z) - b_i'z - z'A_i z / 2                                             (1)

Tilts that sum to zero over the agents leave the posterior exp(-sum_i g_i) as it is: they only
change which agent's potential contains which part of it. With shares s_i that sum to one (those of
the edges, d_i / sum_j d_j), and with b_i and A_i from each agent's gradient and Hessian at c,

    b_i = grad_i - s_i sum_j grad_j,      A_i = Hess_i - s_i sum_j Hess_j                   (2)

every g_i has the gradient and the Hessian of s_i times the whole posterior at c. Near c, agents
then have like potentials even if their data differ strongly, or do not determine all parameters.

L and A_i are matrices, or vectors that stand for diagonal matrices.

A frame inside another one, x = c + L (c' + L' z), is a frame with

    centre c + L c',     scale L L',     tilts L''(b_i + A_i c') + b_i',   L'' A_i L' + A_i'    (4)

where L'' is the transpose of L'; a constant, which changes no law, is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.pytrees import pytree

TILT_ROUNDING = 1e-8
"""Largest rounding error of a sum of tilts over the agents, as a fraction of the sum of their
absolute values; it has no unit."""


@pytree
@dataclass(frozen=True)
class Frame:
    """c, L, b_i and A_i of eq. (1); the tilts of all agents are stacked along a first axis."""

    centre: Any
    """c, (dim,)."""
    scale: Any
    """L, (dim, dim), or (dim,) for a diagonal matrix."""
    linear_tilt: Any
    """b_i, (agent, dim)."""
    quadratic_tilt: Any
    """A_i, (agent, dim, dim), or (agent, dim) for diagonal matrices."""

    def to_original(self, z: jax.Array) -> jax.Array:
        """x = c + L z, the model's flat vector."""
        return self.centre + times(self.scale, z)

    def from_original(self, x: np.ndarray) -> np.ndarray:
        """z = L^-1 (x - c), for x (..., dim)."""
        difference = np.asarray(x, float) - self.centre
        if self.scale.ndim == 1:
            return difference / self.scale
        return np.linalg.solve(self.scale, difference[..., None])[..., 0]

    def tilt(self, z: jax.Array) -> jax.Array:
        """b_i'z + z'A_i z / 2, for one agent."""
        return self.linear_tilt @ z + 0.5 * z @ times(self.quadratic_tilt, z)

    def pull_back(
        self, z: jax.Array, value: jax.Array, gradient: jax.Array, hessian: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """g_i of eq. (1) and its derivatives at z, from those of f_i at x = c + L z.

        grad g_i = L' grad f_i - b_i - A_i z,     Hess g_i = L' Hess f_i L - A_i         (3)
        """
        if self.scale.ndim == 1:
            slope, tilt = self.scale * gradient, jnp.diag(self.quadratic_tilt)
            curvature = self.scale[:, None] * hessian * self.scale
        else:
            slope, tilt = gradient @ self.scale, self.quadratic_tilt
            curvature = self.scale.T @ hessian @ self.scale
        slope = slope - self.linear_tilt - times(self.quadratic_tilt, z)
        return value - self.tilt(z), slope, curvature - tilt  # (3)

    @property
    def has_tilts_only(self) -> bool:
        """Whether z is x, the model's flat vector."""
        unit = np.ones(len(self.centre))
        is_unit = np.array_equal(self.scale, unit if self.scale.ndim == 1 else np.diag(unit))
        return is_unit and not np.any(self.centre)

    def then(self, inner: Frame) -> Frame:
        """The frame of both, with `inner` inside this one, eq. (4), for a stack of agents."""
        if self.scale.ndim != inner.scale.ndim:
            return self._dense().then(inner._dense())
        inside, tilt = inner.scale, self.quadratic_tilt
        if self.scale.ndim == 1:
            scale, curvature = self.scale * inside, tilt * inside**2
            slope = inside * (self.linear_tilt + tilt * inner.centre)
        else:
            scale, curvature = self.scale @ inside, inside.T @ tilt @ inside
            slope = (self.linear_tilt + tilt @ inner.centre) @ inside
        centre = self.centre + times(self.scale, inner.centre)
        return Frame(centre, scale, slope + inner.linear_tilt, curvature + inner.quadratic_tilt)

    def _dense(self) -> Frame:
        """The same frame, with matrices in place of vectors that stand for diagonal ones."""
        if self.scale.ndim == 2:
            return self
        tilts = self.quadratic_tilt[..., None] * np.eye(len(self.centre))
        return Frame(self.centre, np.diag(self.scale), self.linear_tilt, tilts)

    def stacked(self) -> Frame:
        """The frame with centre and scale repeated for every agent, along a first axis."""
        agents = len(self.linear_tilt)

        def repeated(array: Any) -> np.ndarray:
            return np.broadcast_to(array, (agents, *np.shape(array)))

        tilts = (self.linear_tilt, self.quadratic_tilt)
        return Frame(repeated(self.centre), repeated(self.scale), *tilts)


def times(matrix: Any, vector: Any) -> Any:
    """The product of a vector with a matrix, or with a diagonal matrix given as a vector."""
    return matrix @ vector if matrix.ndim == 2 else matrix * vector


def frame(
    centre: Any,
    scale: Any,
    agents: int,
    linear_tilt: Any = None,
    quadratic_tilt: Any = None,
    *,
    has_all_agents: bool = True,
    tolerance: float = 0.0,
) -> Frame:
    """A checked `Frame`.

    Args:
        centre: c, (dim,).
        scale: L, (dim, dim), or (dim,) for a diagonal matrix.
        agents: the number of agents whose tilts are given.
        linear_tilt: b_i, (agents, dim); no tilts if None.
        quadratic_tilt: A_i, (agents, dim, dim), or (agents, dim) if `scale` is diagonal;
            given together with `linear_tilt`.
        has_all_agents: whether these are all the agents of the problem, so that their tilts must
            sum to zero.
        tolerance: the largest absolute entry of that sum that is accepted beside rounding errors,
            in units of the potential per unit of z.
    """
    centre, scale = np.asarray(centre, float), np.asarray(scale, float)
    dim = len(centre)
    if centre.ndim != 1 or scale.shape not in ((dim,), (dim, dim)):
        raise ValueError(
            f"`scale` must have shape {(dim, dim)}, or {(dim,)} for a diagonal matrix, where "
            f"`centre` has shape {centre.shape}; got {scale.shape}."
        )
    if (linear_tilt is None) != (quadratic_tilt is None):
        raise ValueError("`linear_tilt` and `quadratic_tilt` have to be given together.")
    tilts = {
        "linear_tilt": _checked_tilt("linear_tilt", linear_tilt, (agents, dim)),
        "quadratic_tilt": _checked_tilt("quadratic_tilt", quadratic_tilt, (agents, *scale.shape)),
    }
    if has_all_agents:
        for name, tilt in tilts.items():
            _check_sum_is_zero(name, tilt, tolerance)
    return Frame(centre, scale, **tilts)


def _checked_tilt(name: str, tilt: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The tilts of all agents, zero if None; of a matrix, the symmetric part."""
    array = np.zeros(shape) if tilt is None else np.asarray(tilt, float)
    if array.shape != shape:
        raise ValueError(f"`{name}` must have shape {shape}, got {np.shape(tilt)}.")
    return (array + array.swapaxes(1, 2)) / 2 if array.ndim == 3 else array


def _check_sum_is_zero(name: str, tilt: np.ndarray, tolerance: float) -> None:
    total, size = np.abs(tilt.sum(axis=0)), np.abs(tilt).sum(axis=0)
    if np.any(total > tolerance + TILT_ROUNDING * size):
        raise ValueError(
            f"`{name}` must sum to zero over the agents, or the posterior would change; got a sum "
            f"of up to {total.max():.3g}. Subtract the mean over the agents."
        )
