"""JAX's default generator in a form that compiles to one loop: the same bits, sooner.

Threefry-2x32 with 20 rounds (Salmon et al. 2011) turns a key (k0, k1) and a counter into two words.
With k2 = k0 ^ k1 ^ PARITY, and (x0, x1) = counter + (k0, k1), for i = 0..4

    four times   x0 = x0 + x1,   x1 = rotate(x1, r) ^ x0,      r from ROTATIONS[i mod 2]         (1)
    then         x0 = x0 + k_{i+1 mod 3},   x1 = x1 + k_{i+2 mod 3} + i + 1                      (2)

JAX keeps these rounds in a loop on CPUs, with all words in memory between two of them; written out,
they fuse with whatever uses the noise.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import random as generators

PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
WORD = 32
MOST_NUMBERS = 2**WORD
"""Counters have one word; no single call needs more."""


_word = np.uint32


def block(key: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Two words for each counter (x0, x1), under a key (2, ...); in NumPy if these are NumPy's."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ _word(PARITY))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(5):
        for turn in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << _word(turn)) | (x1 >> _word(WORD - turn))) ^ x0  # (1)
        x0 = x0 + keys[(i + 1) % 3]
        x1 = x1 + keys[(i + 2) % 3] + _word(i + 1)  # (2)
    return x0, x1


def fold_in(key: jax.Array, data: Any) -> jax.Array:
    """A key of its own for every number."""
    return jnp.stack(block(key, _word(0), jnp.asarray(data, jnp.uint32)))


def folded(keys: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """The same for keys (..., 2) and several numbers at once, (..., number, 2), in NumPy."""
    by_word = np.moveaxis(keys, -1, 0)[..., None]
    return np.stack(block(by_word, _word(0), numbers.astype(np.uint32)), axis=-1)


def random_bits(key: jax.Array, bit_width: int, shape: tuple[int, ...]) -> jax.Array:
    """Unsigned integers: the number at a place depends on the key and the place alone."""
    size = math.prod(shape)
    if size >= MOST_NUMBERS:
        raise ValueError(
            f"fewer than {MOST_NUMBERS} random numbers can be drawn at once, got {size}."
        )
    counter = jnp.arange(size, dtype=jnp.uint32).reshape(shape)
    high, low = block(key, jnp.zeros_like(counter), counter)
    if bit_width == 2 * WORD:
        return (high.astype(jnp.uint64) << jnp.uint64(WORD)) | low.astype(jnp.uint64)
    return (high ^ low).astype(jnp.dtype(f"uint{bit_width}"))


def split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Keys of some shape."""
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
