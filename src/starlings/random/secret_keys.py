"""Keys of noise that nobody can draw again who does not have the secret of a site.

All other noise follows from the seed of a run (see `addresses`), which every site knows: whoever
has it can subtract the noise of a neighbour. With a secret of 256 bits, which never leaves the
site, and ChaCha20 as a function of the secret and of the two words (k0, k1) of the key that the
seed gives to an agent and a chain,

    secret key = the first 8 words of block(secret; k0, k1)                                 (1)

A secret is drawn by the operating system when a run starts, and is kept nowhere.
"""

from __future__ import annotations

import secrets

import jax
import jax.numpy as jnp
import numpy as np

from starlings.random._chacha import CHACHA, KEY_WORDS, block

SECRET_BYTES = 4 * KEY_WORDS
"""Bytes of a secret."""
ADDRESS = 4
"""The first word of what the words of ChaCha20 are for, beside those of `_chacha`."""


def secret_keys(keys: jax.Array, secret: bytes | None = None) -> jax.Array:
    """Keys of the same shape, eq. (1), for a new secret, or for one that is given.

    Args:
        keys: keys of `addresses`, in an array of any shape.
        secret: `SECRET_BYTES` random bytes; drawn by the operating system if None.
    """
    drawn = secrets.token_bytes(SECRET_BYTES) if secret is None else secret
    root = jnp.asarray(np.frombuffer(drawn, "<u4"))
    return jax.random.wrap_key_data(_addressed(root, jax.random.key_data(keys)), impl=CHACHA)


@jax.jit
def _addressed(root: jax.Array, words: jax.Array) -> jax.Array:
    """Eq. (1) for words (..., 2)."""

    def one(pair: jax.Array) -> jax.Array:
        return block(root, pair[0], (ADDRESS, pair[1], 0))[:KEY_WORDS]  # (1)

    found = jax.vmap(one)(words.reshape(-1, 2))
    return found.reshape(*words.shape[:-1], KEY_WORDS)
