"""log(1 + exp(x)) and its derivatives, written so that XLA compiles them to fast loops on a CPU.

With `jax.nn.softplus` and `jax.nn.sigmoid` instead, rounds of D-ADMMS on logistic regressions take
1.7 times as long for 10 chains of 20 agents with 50 rows, and 3 times as long for 4 chains of 10
agents with 500 rows. For one chain they take 0.9 times as long. (Least of four runs, in turns in
one process, on a machine with two cores that had other work to do.)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

LOG_TERMS = 16
"""Number of terms of the series in eq. (1): the next one is below 2e-17 of the first."""


@jax.custom_jvp
def softplus(eta: jax.Array) -> jax.Array:
    """log(1 + exp(eta)), from the same exponential as `sigmoid`, so that XLA computes it once.

    The last operation is a `where`: XLA for CPUs compiles a sum over rows of nothing but sums and
    products of eta in another way, which is slower for one chain.
    """
    tail = log_of_one_plus(jnp.exp(-jnp.abs(eta)))
    return jnp.where(eta > 0, eta + tail, tail)


def log_of_one_plus(small: jax.Array) -> jax.Array:
    """log(1 + u) for 0 <= u <= 1 by a series, several times faster than `log1p` on a CPU:

    log(1 + u) = 2 (s + s^3 / 3 + s^5 / 5 + ...),     s = u / (2 + u) <= 1/3                 (1)
    """
    s = small / (2 + small)
    series = jnp.zeros_like(s)
    for k in reversed(range(LOG_TERMS)):
        series = series * s**2 + 1 / (2 * k + 1)
    return 2 * s * series  # (1)


@jax.custom_jvp
def sigmoid(eta: jax.Array) -> jax.Array:
    """1 / (1 + exp(-eta))."""
    small = jnp.exp(-jnp.abs(eta))
    return jnp.where(eta >= 0, 1.0, small) / (1 + small)


softplus.defjvps(lambda tangent, _, eta: tangent * sigmoid(eta))
sigmoid.defjvps(lambda tangent, value, _: tangent * value * (1 - value))
