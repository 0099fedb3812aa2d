"""ChaCha20 as a random number generator of JAX: for noise that must stay secret.

Whoever sees some numbers of `_threefry` can find its key of 64 bits with enough computers. ChaCha20
(Bernstein 2008, RFC 8439) is a cipher with a key of 256 bits, for which nobody knows such a way.

Its state is a matrix of 4 x 4 words: four constants, eight words of the key, a counter, and three
words that say what the numbers are for. With the rows a, b, c, d, ten times

    a = a + b,  d = (d ^ a) <<< 16,    c = c + d,  b = (b ^ c) <<< 12,                         (1)
    a = a + b,  d = (d ^ a) <<< 8,     c = c + d,  b = (b ^ c) <<< 7

is applied to all columns, and then to all diagonals, for which the rows b, c and d are rotated by
one, two and three places before it, and back after it (2). The state from the beginning is added in
the end (3).
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import random as generators

KEY_WORDS = 8
"""Words of 32 bits of a key."""
BLOCK_WORDS = 16
"""Words of 32 bits that one counter gives."""
CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4")
"""The first row of the state, from the definition of ChaCha20."""
DOUBLE_ROUNDS = 10
"""How often eq. (1) is applied to columns and diagonals, from the definition of ChaCha20."""
FOLDED, SPLIT, BITS = 1, 2, 3
"""The first word of what the numbers are for: a key for a number, several keys, random bits."""

_word = np.uint32


def block(key: jax.Array, counter: Any, nonce: tuple[Any, Any, Any]) -> jax.Array:
    """The 16 random words of a key (8,), a counter () and a nonce of three words."""
    last = jnp.stack([jnp.asarray(word, jnp.uint32) for word in (counter, *nonce)])
    before = jnp.stack([jnp.asarray(CONSTANTS), key[:4], key[4:], last])
    after = jax.lax.fori_loop(0, DOUBLE_ROUNDS, lambda _, state: _double_round(state), before)
    return (after + before).ravel()  # (3)


def _double_round(state: jax.Array) -> jax.Array:
    a, b, c, d = _quarter_rounds(*state)
    rotated = (jnp.roll(row, -places) for places, row in enumerate((a, b, c, d)))
    after = _quarter_rounds(*rotated)
    return jnp.stack([jnp.roll(row, places) for places, row in enumerate(after)])  # (2)


def _quarter_rounds(a: Any, b: Any, c: Any, d: Any) -> tuple[Any, Any, Any, Any]:
    """Eq. (1) for the four columns of the rows a, b, c and d."""
    for d_turn, b_turn in ((16, 12), (8, 7)):
        a = a + b
        d = _rotated(d ^ a, d_turn)
        c = c + d
        b = _rotated(b ^ c, b_turn)  # (1)
    return a, b, c, d


def _rotated(word: Any, bits: int) -> Any:
    return (word << _word(bits)) | (word >> _word(32 - bits))


def fold_in(key: jax.Array, data: Any) -> jax.Array:
    """A new key for a key and a number."""
    return block(key, data, (FOLDED, 0, 0))[:KEY_WORDS]


def split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """New keys, as an array of this shape."""
    counters = jnp.arange(math.prod(shape), dtype=jnp.uint32)
    blocks = jax.vmap(lambda counter: block(key, counter, (SPLIT, 0, 0)))(counters)
    return blocks[:, :KEY_WORDS].reshape(*shape, KEY_WORDS)


def random_bits(key: jax.Array, bit_width: int, shape: tuple[int, ...]) -> jax.Array:
    """Random unsigned integers of `bit_width` bits: 8, 16, 32 or 64."""
    size = math.prod(shape)
    words = size * max(1, bit_width // 32)
    counters = jnp.arange(-(-words // BLOCK_WORDS), dtype=jnp.uint32)
    blocks = jax.vmap(lambda counter: block(key, counter, (BITS, 0, 0)))(counters)
    stream = blocks.ravel()[:words]
    if bit_width == 64:
        low, high = stream[0::2].astype(jnp.uint64), stream[1::2].astype(jnp.uint64)
        stream = (high << jnp.uint64(32)) | low
    return stream.astype(jnp.dtype(f"uint{bit_width}")).reshape(shape)


def no_seed(seed: Any) -> jax.Array:
    """Refuse a seed, which has too few bits and is not secret."""
    raise TypeError("keys of ChaCha20 have 256 bits: make them by `jax.random.wrap_key_data`.")


CHACHA = generators.define_prng_impl(
    key_shape=(KEY_WORDS,),
    seed=no_seed,
    split=split,
    random_bits=random_bits,
    fold_in=fold_in,
    name="starlings_chacha",
    tag="scc",
)
"""The generator in the form that `jax.random.wrap_key_data(words, impl=...)` takes."""
