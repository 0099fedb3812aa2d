"""Exchanges between processes by a Python function that compiled code calls.

`jax.experimental.io_callback` hands arrays to another thread, in which `jax.enable_x64` need not
hold: float64 would arrive there as float32, without a word. Messages therefore cross as words of
32 bits, and are numbers again on either side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

WORD = np.uint32
"""The type as which numbers cross: one word for float32, two for float64."""


def exchange_on_host(
    swap: Callable[[np.ndarray], np.ndarray], messages: jax.Array, num_incoming: int
) -> jax.Array:
    """Call a Python function on the messages of a round from inside compiled code.

    For `Communicator.exchange` of a runtime outside JAX. Calls keep the order of the rounds. One
    costs some 0.1 ms besides what the function takes.

    Args:
        swap: takes the messages of the outgoing agents, a NumPy array (outgoing agent, floats), and
            returns those of the incoming agents, (incoming agent, floats), of the same type.
        messages: those of the outgoing agents, (outgoing agent, floats), float32 or float64.
        num_incoming: the number of incoming agents.
    """
    words = jax.lax.bitcast_convert_type(messages, WORD)
    dtype, shape = np.dtype(messages.dtype), (num_incoming, *words.shape[1:])

    def on_host(words: Any) -> np.ndarray:
        sent = np.ascontiguousarray(words).view(dtype).reshape(messages.shape)
        return np.ascontiguousarray(swap(sent), dtype).view(WORD).reshape(shape)

    received = io_callback(on_host, jax.ShapeDtypeStruct(shape, jnp.uint32), words, ordered=True)
    return jax.lax.bitcast_convert_type(received, messages.dtype)
