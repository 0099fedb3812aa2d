"""The transform of numbers in ascending order, such as the cut points of an ordinal outcome.

c_1 = z_1,     c_k = c_{k-1} + exp(z_k)                                                 (1)
log |det dc/dz| = z_2 + z_3 + ...                                                       (2)
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Ordered:
    """The bijection of eq. (1) from vectors to ascending vectors.

    >>> [float(entry) for entry in Ordered()(jnp.array([2.0, 0.0, 0.0]))]
    [2.0, 3.0, 4.0]
    """

    def __call__(self, z: jax.Array) -> jax.Array:
        """The ascending vector, eq. (1)."""
        return jnp.cumsum(jnp.concatenate([z[:1], jnp.exp(z[1:])]))  # (1)

    def _inverse(self, theta: jax.Array) -> jax.Array:
        return jnp.concatenate([theta[:1], jnp.log(jnp.diff(theta))])

    def log_abs_det_jacobian(self, z: jax.Array, theta: jax.Array) -> jax.Array:
        """Eq. (2), the sum over all entries."""
        return jnp.sum(z[1:])  # (2)
