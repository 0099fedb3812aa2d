"""Functions that stay finite far out, with their derivatives, in float32 too.

exp(eta) overflows at eta = 89 in float32. A gradient then is infinite, and times a covariate that
is 0 it is not a number. Beyond a limit T, where densities are 0 for any purpose, exp is continued
by its tangent,

    E(eta) = exp(eta)                        for eta <= T
             exp(T) (1 + eta - T)            beyond                                          (1)

Differences of log-gamma functions of large numbers lose all their digits. With Stirling's series

    log Gamma(k) = (k - 1/2) log k - k + log(2 pi) / 2 + c(k)                                (2)
    c(k) = 1/(12 k) - 1/(360 k^3) + 1/(1260 k^5) - 1/(1680 k^7) + 1/(1188 k^9) - ...

the large terms cancel on paper.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

FROM_SERIES = 10.0
"""Smallest k for eq. (2), without unit: what is left out is then below 2e-14."""
SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)
"""The coefficients of c(k) in eq. (2)."""


def largest_exponent(dtype: Any) -> float:
    """T of eq. (1): the square of exp(T) is the largest number of this type."""
    return float(np.log(jnp.finfo(dtype).max) / 2)


def bounded_exp(eta: jax.Array) -> jax.Array:
    """E(eta) of eq. (1)."""
    limit = largest_exponent(eta.dtype)
    return jnp.exp(jnp.minimum(eta, limit)) * (1 + jnp.maximum(eta - limit, 0))  # (1)


def bounded_expm1(eta: jax.Array) -> jax.Array:
    """E(eta) - 1, with all digits where eta is near 0."""
    limit = largest_exponent(eta.dtype)
    beyond = jnp.maximum(eta - limit, 0)
    return jnp.expm1(jnp.minimum(eta, limit)) + np.exp(limit) * beyond


def series(k: jax.Array) -> jax.Array:
    """c(k) of eq. (2), for k of at least `FROM_SERIES`."""
    inverse, value = 1 / k, jnp.zeros_like(k)
    for coefficient in reversed(SERIES):
        value = value * inverse**2 + coefficient
    return value * inverse


def log_gamma_remainder(k: jax.Array) -> jax.Array:
    """k log k - k - log Gamma(k), for positive k."""
    large = jnp.maximum(k, FROM_SERIES)
    by_series = 0.5 * jnp.log(large) - 0.5 * np.log(2 * np.pi) - series(large)  # (2)
    small = jnp.minimum(k, FROM_SERIES)
    return jnp.where(k < FROM_SERIES, small * jnp.log(small) - small - gammaln(small), by_series)


def log_rising(k: jax.Array, y: jax.Array) -> jax.Array:
    """log Gamma(k + y) - log Gamma(k) - y log k, for positive k and y of at least 0."""
    large = jnp.maximum(k, FROM_SERIES)
    by_series = (large + y - 0.5) * jnp.log1p(y / large) - y + series(large + y) - series(large)
    small = jnp.minimum(k, FROM_SERIES)
    directly = gammaln(small + y) - gammaln(small) - y * jnp.log(small)
    return jnp.where(k < FROM_SERIES, directly, by_series)
