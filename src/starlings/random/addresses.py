"""Noise that is addressed, not streamed.

Every random number of a run has an address, from which any runtime, on any number of machines and
after any restart, draws it again:

    private noise of an agent    fold_in(fold_in(fold_in(root, chain), 1 + agent), round)   (1)
    noise that all agents share  fold_in(fold_in(fold_in(root, chain), 0), round)           (2)

Round 0 is the start; round k makes the k-th iterate. Each round has two streams, Gaussian noise
and everything else (minibatches, initial velocities), at 2 k and 2 k + 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.random._threefry import THREEFRY, folded


class Drawn(NamedTuple):
    """Noise of a round that is there already: (dim,) for one agent; None where it is not."""

    shared: Any = None
    private: Any = None


class Round(NamedTuple):
    """One round as one agent sees it: its number, and the keys that hold for the whole run."""

    index: Any
    agent_key: jax.Array
    network_key: jax.Array
    drawn: Drawn = Drawn()
    """What a runtime has drawn ahead."""

    def private_noise(self, like: Any) -> jax.Array:
        """Standard normal numbers that only this agent draws, eq. (1)."""
        if _serves(self.drawn.private, like):
            return self.drawn.private
        return jax.random.normal(self._noise_key(self.agent_key), like.shape, like.dtype)

    def shared_noise(self, like: Any) -> jax.Array:
        """Standard normal numbers that are the same at every agent, eq. (2)."""
        if _serves(self.drawn.shared, like):
            return self.drawn.shared
        return jax.random.normal(self._noise_key(self.network_key), like.shape, like.dtype)

    def batch_key(self) -> jax.Array:
        """A key of this agent's own for whatever is not Gaussian noise."""
        return jax.random.fold_in(self.agent_key, 2 * self.index + 1)

    def shared_key(self) -> jax.Array:
        """A key that is the same at every agent for whatever is not Gaussian noise."""
        return jax.random.fold_in(self.network_key, 2 * self.index + 1)

    def _noise_key(self, key):
        return jax.random.fold_in(key, 2 * self.index)


def _serves(drawn: Any, like: Any) -> bool:
    return drawn is not None and (drawn.shape, drawn.dtype) == (like.shape, like.dtype)


def chain_keys(seed: int, chains: int, agents: Any) -> tuple[jax.Array, jax.Array]:
    """The keys of eqs. (1) and (2) short of the round: (chains, agents) and (chains,).

    `agents` is how many there are, or the numbers of some of them.
    """
    numbers = np.arange(agents) if np.ndim(agents) == 0 else np.asarray(agents)
    root = np.asarray(jax.random.key_data(jax.random.key(seed, impl=THREEFRY)))
    by_chain = folded(root, np.arange(chains))
    found = folded(by_chain, 1 + numbers), folded(by_chain, np.zeros(1))[:, 0]  # (1), (2)
    private, shared = (
        jax.random.wrap_key_data(jnp.asarray(words), impl=THREEFRY) for words in found
    )
    return private, shared
