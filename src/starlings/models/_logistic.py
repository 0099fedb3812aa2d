"""log(1 + exp(x)) and its derivatives, written so that XLA compiles them to fast loops on a CPU."""

from __future__ import annotations

import jax
import jax.numpy as jnp

LOG_TERMS = 16
"""Terms of the series in eq. (5): the next one is below 2e-17 of the first."""


@jax.custom_jvp
def softplus(eta: jax.Array) -> jax.Array:
    """log(1 + exp(eta)), with an exponential that `sigmoid` has in common.

    A choice comes last: a sum over nothing but sums and products of eta would be handed to a part
    of the compiler for processors that takes ten times as long where there is one chain.
    """
    tail = log_of_one_plus(jnp.exp(-jnp.abs(eta)))
    return jnp.where(eta > 0, eta + tail, tail)


def log_of_one_plus(small: jax.Array) -> jax.Array:
    """log(1 + u) for 0 <= u <= 1 by products alone, several times faster than `log1p` on a CPU:

    log(1 + u) = 2 (s + s^3 / 3 + s^5 / 5 + ...),     s = u / (2 + u) <= 1/3                 (5)
    """
    s = small / (2 + small)
    series = jnp.zeros_like(s)
    for k in reversed(range(LOG_TERMS)):
        series = series * s**2 + 1 / (2 * k + 1)
    return 2 * s * series  # (5)


@jax.custom_jvp
def sigmoid(eta: jax.Array) -> jax.Array:
    """1 / (1 + exp(-eta))."""
    small = jnp.exp(-jnp.abs(eta))
    return jnp.where(eta >= 0, 1.0, small) / (1 + small)


softplus.defjvps(lambda tangent, _, eta: tangent * sigmoid(eta))
sigmoid.defjvps(lambda tangent, value, _: tangent * value * (1 - value))
