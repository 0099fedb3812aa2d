"""Exchanges between processes by a Python function that compiled code calls.

`jax.experimental.io_callback` hands arrays to another thread, in which `jax.enable_x64` need not
hold: float64 would arrive there as float32, without a word. Messages therefore cross as words of
32 bits, and are numbers again on either side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
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
    shape = jax.ShapeDtypeStruct((num_incoming, *messages.shape[1:]), messages.dtype)
    return call_on_host(swap, shape, messages)


def call_on_host(
    function: Callable[..., np.ndarray], result: jax.ShapeDtypeStruct, *arguments: jax.Array
) -> jax.Array:
    """Call a Python function of arrays from inside compiled code, in the order of the program.

    Args:
        function: takes NumPy arrays of the types of `arguments`, and returns one of `result`.
        result: the shape and type of what is returned.
        arguments: arrays of types with 32 or 64 bits.
    """
    dtypes = [np.dtype(argument.dtype) for argument in arguments]
    words = _words_of(result)

    def on_host(*given: Any) -> np.ndarray:
        arrays = [
            np.ascontiguousarray(each).view(dtype).reshape(argument.shape)
            for each, dtype, argument in zip(given, dtypes, arguments, strict=True)
        ]
        found = np.ascontiguousarray(function(*arrays), np.dtype(result.dtype))
        return found.view(WORD).reshape(words.shape)

    given = [jax.lax.bitcast_convert_type(argument, WORD) for argument in arguments]
    found = io_callback(on_host, words, *given, ordered=True)
    return jax.lax.bitcast_convert_type(found, result.dtype)


def _words_of(array: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    """The shape of an array as words: numbers of 64 bits have one more axis, of length 2."""
    return jax.eval_shape(lambda values: jax.lax.bitcast_convert_type(values, WORD), array)
