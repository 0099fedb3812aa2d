"""Where the chains of lock-step HMC are: `hmc` explains `Phase`, and `hierarchical` the others."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from starlings.runtime.checkpoint import OWN


class Phase(NamedTuple):
    """Where all chains are: positions and momenta, and F and its gradient at the positions."""

    position: Any
    """q, (chain, dim)."""
    momentum: Any
    """p, (chain, dim), in units in which it is N(0, I)."""
    value: Any
    """F(q), (chain,)."""
    gradient: Any
    """grad F(q), (chain, dim)."""

    @property
    def energy(self) -> Any:
        """H of eq. (4) of `hmc`, (chain,)."""
        return self.value + 0.5 * jnp.sum(self.momentum**2, axis=1)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """All parts as named arrays."""
        pairs = zip(self._fields, self, strict=True)
        return {f"{name}_{key}": np.asarray(value) for key, value in pairs}

    @classmethod
    def from_arrays(cls, name: str, named: dict[str, np.ndarray]) -> Phase:
        """The phase of which these are the `arrays`."""
        return cls(*(jnp.asarray(named[f"{name}_{key}"]) for key in cls._fields))


class Own(NamedTuple):
    """Where the chains are at the local agents; arrays (chain, agent, ...)."""

    position: Any
    """w_i, (chain, agent, local)."""
    momentum: Any
    """r_i, (chain, agent, local)."""
    gradient: Any
    """df_i/dw_i, (chain, agent, local)."""
    energy: Any
    """|r_i|^2 / 2 at the beginning of the trajectory, (chain, agent)."""


class SplitPhase(NamedTuple):
    """Where all chains are: what all sites know, and what the local agents know."""

    position: Any
    """q, (chain, shared)."""
    momentum: Any
    """p, (chain, shared)."""
    value: Any
    """F = sum_i f_i, (chain,)."""
    gradient: Any
    """sum_i df_i/dq, (chain, shared)."""
    kinetic: Any
    """sum_i k_i of eq. (4) of `hierarchical`, (chain,)."""
    own: Own

    @property
    def energy(self) -> Any:
        """H of eq. (5) of `hierarchical`, (chain,)."""
        return self.value + 0.5 * jnp.sum(self.momentum**2, axis=1) + self.kinetic  # (5)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """All parts as named arrays; those of agents with the agent as first axis."""
        shared = zip(self._fields[:-1], self[:-1], strict=True)
        own = zip(Own._fields, self.own, strict=True)
        return {f"{name}_{key}": np.asarray(value) for key, value in shared} | {
            f"{OWN}{name}_{key}": np.moveaxis(np.asarray(value), 1, 0) for key, value in own
        }

    @classmethod
    def from_arrays(cls, name: str, named: dict[str, np.ndarray]) -> SplitPhase:
        """The phase of which these are the `arrays`."""
        shared: Any = {key: jnp.asarray(named[f"{name}_{key}"]) for key in cls._fields[:-1]}
        own: Any = (
            jnp.asarray(np.moveaxis(named[f"{OWN}{name}_{key}"], 0, 1)) for key in Own._fields
        )
        return cls(**shared, own=Own(*own))


def still(positions: Any, own: Any) -> SplitPhase:
    """A phase without momenta, of which nothing but the positions is known."""
    chains, agents, _ = own.shape
    nothing, zero = jnp.zeros(chains), jnp.zeros_like(own)
    local = Own(own, zero, zero, jnp.zeros((chains, agents)))
    return SplitPhase(positions, jnp.zeros_like(positions), nothing, positions, nothing, local)
