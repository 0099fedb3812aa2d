"""Random numbers by address: chain, agent and round say which numbers, and no key is stored.

From the address of a random number any runtime, on any number of machines and after any restart,
draws it again:

    private noise of an agent    fold_in(fold_in(fold_in(root, chain), 1 + agent), round)   (1)
    noise that all agents share  fold_in(fold_in(fold_in(root, chain), 0), round)           (2)

Noise of the edge between the agents i < j, which both ends draw, in round k:

    noise of an edge             fold_in(fold_in(fold_in(key of (2), 2 k + 1), 1 + i), 1 + j)    (4)

Random numbers outside the rounds, which all sites draw alike, have an address of their own kind:

    the n-th number of a kind    fold_in(fold_in(root, 2^32 - 1 - kind), n)                 (3)

Round 0 is the start; round k makes the k-th iterate. Each round k has two keys, folded in as the
numbers 2 k for Gaussian noise and 2 k + 1 for everything else (minibatches, initial velocities).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.random._threefry import THREEFRY, folded

KINDS = ("candidates", "resampling", "starts", "confirmation", "search", "combination")
"""The kinds of random numbers outside the rounds, eq. (3), in the order of their numbers."""


class Drawn(NamedTuple):
    """Gaussian noise of a round that a runtime has drawn beforehand, (dim,) for one agent."""

    shared: Any = None
    """The noise of eq. (2); None if it was not drawn."""
    private: Any = None
    """The noise of eq. (1); None if it was not drawn."""


class Round(NamedTuple):
    """One round as one agent sees it: the number of the round, and keys for its random numbers."""

    index: Any
    """The number of the round; 0 is the start."""
    agent_key: jax.Array
    """The key of this agent and chain, eq. (1) without the number of the round."""
    network_key: jax.Array
    """The key that all agents of the chain share, eq. (2) without the number of the round."""
    drawn: Drawn = Drawn()
    """Noise that a runtime has drawn beforehand; it equals what would be drawn here."""

    def private_noise(self, like: Any) -> jax.Array:
        """Standard normal numbers that only this agent draws, eq. (1), in the shape of `like`."""
        if _fits(self.drawn.private, like):
            return self.drawn.private
        return jax.random.normal(self._noise_key(self.agent_key), like.shape, like.dtype)

    def shared_noise(self, like: Any) -> jax.Array:
        """Standard normal numbers equal at all agents, eq. (2), in the shape of `like`."""
        if _fits(self.drawn.shared, like):
            return self.drawn.shared
        return jax.random.normal(self._noise_key(self.network_key), like.shape, like.dtype)

    def edge_noise(self, agent: Any, neighbours: Any, like: Any) -> jax.Array:
        """The sum over the agent's edges of standard normal numbers equal at both ends, eq. (4).

        The sampler has to say that it `draws_edges`.

        Args:
            agent: the number of the agent, `Agent.index`.
            neighbours: the numbers of its neighbours, `Agent.neighbours`.
            like: an array of the wanted shape and type.
        """

        def of_edge(neighbour: jax.Array) -> jax.Array:
            ends = jnp.minimum(agent, neighbour), jnp.maximum(agent, neighbour)
            key = self.shared_key()
            for end in ends:
                key = jax.random.fold_in(key, 1 + end)  # (4)
            noise = jax.random.normal(key, like.shape, like.dtype)
            return jnp.where(neighbour < 0, 0.0, noise)

        return jax.vmap(of_edge)(jnp.asarray(neighbours)).sum(axis=0)

    def batch_key(self) -> jax.Array:
        """A key that only this agent has, for random numbers other than Gaussian noise."""
        return jax.random.fold_in(self.agent_key, 2 * self.index + 1)

    def shared_key(self) -> jax.Array:
        """A key that is equal at all agents, for random numbers other than Gaussian noise."""
        return jax.random.fold_in(self.network_key, 2 * self.index + 1)

    def _noise_key(self, key: jax.Array) -> jax.Array:
        """The key of the Gaussian noise of this round."""
        return jax.random.fold_in(key, 2 * self.index)


def _fits(drawn: Any, like: Any) -> bool:
    """Whether noise was drawn beforehand, in the wanted shape and type."""
    return drawn is not None and (drawn.shape, drawn.dtype) == (like.shape, like.dtype)


def chain_keys(seed: int, chains: int, agents: Any) -> tuple[jax.Array, jax.Array]:
    """The keys of eqs. (1) and (2) without the number of the round.

    Args:
        seed: the seed of the run, which gives the root.
        chains: the number of chains.
        agents: the number of agents, or the indices of some of them.

    Returns:
        The keys of the agents, (chains, agents), and those that agents share, (chains,).
    """
    numbers = np.arange(agents) if np.ndim(agents) == 0 else np.asarray(agents)
    root = np.asarray(jax.random.key_data(jax.random.key(seed, impl=THREEFRY)))
    by_chain = folded(root, np.arange(chains))
    found = folded(by_chain, 1 + numbers), folded(by_chain, np.zeros(1))[:, 0]  # (1), (2)
    private, shared = (
        jax.random.wrap_key_data(jnp.asarray(words), impl=THREEFRY) for words in found
    )
    return private, shared


def shared_words(seed: int, kind: str, count: int) -> np.ndarray:
    """Random 64-bit words that all sites draw alike, eq. (3), (count,)."""
    root = np.asarray(jax.random.key_data(jax.random.key(seed, impl=THREEFRY)))
    key = folded(root, np.array([2**32 - 1 - KINDS.index(kind)]))[0]
    pairs = folded(key, np.arange(count)).astype(np.uint64)  # (3)
    return (pairs[:, 0] << np.uint64(32)) | pairs[:, 1]


def shared_uniforms(seed: int, kind: str, count: int) -> np.ndarray:
    """Uniform numbers between 0 and 1, both excluded, that all sites draw alike, (count,)."""
    return ((shared_words(seed, kind, count) >> np.uint64(11)) + 0.5) * 2.0**-53
