"""JAX's default random number generator, with the same bits, written to run faster on CPUs.

Threefry-2x32 with 20 rounds (Salmon et al. 2011) turns a key (k0, k1) and a counter into two words.
With k2 = k0 ^ k1 ^ PARITY, and (x0, x1) = counter + (k0, k1), for i = 0..4

    four times   x0 = x0 + x1,   x1 = rotate(x1, r) ^ x0,      r from ROTATIONS[i mod 2]         (1)
    then         x0 = x0 + k_{i+1 mod 3},   x1 = x1 + k_{i+2 mod 3} + i + 1                      (2)

On CPUs, JAX compiles these 20 rounds as a loop that stores all words in memory after each round.
Here they are written one after the other, and XLA fuses them with the code that uses the noise.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import random as generators

PARITY = 0x1BD11BDA
"""The constant of the third word of the key, from the definition of Threefry."""
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""The rotations r of eq. (1) in bits, from the definition of Threefry."""
WORD_BITS = 32
"""Number of bits of a word."""
MOST_NUMBERS = 2**WORD_BITS
"""The number of random numbers that one call cannot reach: counters have one word."""

_word = np.uint32


def block(key: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Two random words for each counter (x0, x1), by eqs. (1) and (2).

    Args:
        key: two words along the first axis; NumPy arrays give results in NumPy.
        x0: the first word of each counter.
        x1: the second word of each counter.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ _word(PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(5):
        for turn in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << _word(turn)) | (x1 >> _word(WORD_BITS - turn))) ^ x0  # (1)
        x0 = x0 + keys[(i + 1) % 3]
        x1 = x1 + keys[(i + 2) % 3] + _word(i + 1)  # (2)
    return x0, x1


def fold_in(key: jax.Array, data: Any) -> jax.Array:
    """A new key for a key and a number; different numbers give different keys."""
    return jnp.stack(block(key, _word(0), jnp.asarray(data, jnp.uint32)))


def folded(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """New keys as by `fold_in`, in NumPy, for several keys and numbers at once.

    Args:
        keys: of shape (..., 2).
        numbers: of shape (number,).

    Returns:
        Keys of shape (..., number, 2).
    """
    by_word = np.moveaxis(keys, -1, 0)[..., None]
    return np.stack(block(by_word, _word(0), numbers.astype(np.uint32)), axis=-1)


def random_bits(key: jax.Array, bit_width: int, shape: tuple[int, ...]) -> jax.Array:
    """Random unsigned integers; each depends on the key and on its index in the flat array only.

    Args:
        key: two words.
        bit_width: bits of an integer, 8, 16, 32 or 64.
        shape: of the array.
    """
    size = math.prod(shape)
    if size >= MOST_NUMBERS:
        raise ValueError(
            f"`shape` must have fewer than {MOST_NUMBERS} entries, got {size}; draw in several "
            "calls with different keys."
        )
    counter = jnp.arange(size, dtype=jnp.uint32).reshape(shape)
    high, low = block(key, jnp.zeros_like(counter), counter)
    if bit_width == 2 * WORD_BITS:
        return (high.astype(jnp.uint64) << jnp.uint64(WORD_BITS)) | low.astype(jnp.uint64)
    return (high ^ low).astype(jnp.dtype(f"uint{bit_width}"))


def split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """New keys, as an array of this shape."""
    counter = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return jnp.stack(block(key, jnp.zeros_like(counter), counter), axis=-1)


THREEFRY = generators.define_prng_impl(
    key_shape=(2,),
    seed=generators.threefry_prng_impl.seed,
    split=split,
    random_bits=random_bits,
    fold_in=fold_in,
    name="starlings_threefry",
    tag="stf",
)
"""The generator in the form that `jax.random.key(seed, impl=...)` takes."""
