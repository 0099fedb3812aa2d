"""The sum F = sum_i f_i of the agents' potentials: its values and its derivatives.

Two classes form the sums: `NetworkPotential` by messages between neighbours, for a run of agents
that keep their rows, and `LocalPotential` in this process, for references and comparisons that may
pool all rows.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network.gossip import Gossip
from starlings.problem.agent import Agent

LARGEST_DENSE_HESSIAN = 300
"""Number of parameters up to which the agents sum whole Hessians. Above it they sum diagonals: a
matrix of d^2 numbers would be too much to send and to factorise."""


class Derivatives(NamedTuple):
    """A value, a gradient and a Hessian: of every agent, with the agent as first axis, or of F."""

    value: Any
    gradient: np.ndarray
    hessian: np.ndarray
    """A matrix, or above `LARGEST_DENSE_HESSIAN` parameters the vector of its diagonal."""


@dataclass(frozen=True)
class SummedPotential(abc.ABC):
    """F = sum_i f_i over all agents, of which these are the local ones."""

    agents: Agent

    @abc.abstractmethod
    def sum(self, parts: np.ndarray) -> np.ndarray:
        """The sum over all agents of parts (agent, ...) of the local agents."""

    @abc.abstractmethod
    def same_everywhere(self, value: np.ndarray) -> np.ndarray:
        """The value as one agent has it, equal in every bit at all agents."""

    def values(self, points: np.ndarray) -> np.ndarray:
        """F at several points (point, dim)."""
        return np.asarray(self.sum(values_at(self.agents, points)))

    def derivatives(self, point: np.ndarray) -> Derivatives:
        """F, its gradient and its Hessian at a point."""
        return self.total(derivatives_at(self.agents, point))

    def total(self, own: Derivatives) -> Derivatives:
        """The sum over all agents of the derivatives of the local ones.

        Hessians are sent as upper triangles.
        """
        dim, is_dense = own.gradient.shape[1], own.hessian.ndim == 3
        upper = np.triu_indices(dim)
        packed = own.hessian[:, *upper] if is_dense else own.hessian
        total = np.asarray(self.sum(np.column_stack([own.value, own.gradient, packed])))
        value, gradient, packed = float(total[0]), total[1 : 1 + dim], total[1 + dim :]
        if not is_dense:
            return Derivatives(value, gradient, packed)
        hessian = np.zeros((dim, dim))
        hessian[upper] = packed
        return Derivatives(value, gradient, hessian + np.triu(hessian, 1).T)


@dataclass(frozen=True)
class NetworkPotential(SummedPotential):
    """Sums that are formed by messages between neighbours."""

    gossip: Gossip

    def sum(self, parts: np.ndarray) -> np.ndarray:
        """The sum over the network, as every agent has it."""
        return self.gossip.sum(parts)[0]

    def same_everywhere(self, value: np.ndarray) -> np.ndarray:
        """The value of the root of the sums, after it has been broadcast to all agents."""
        return broadcast(self.gossip, value)


@dataclass(frozen=True)
class LocalPotential(SummedPotential):
    """Sums over agents that are all in this process; no messages."""

    def sum(self, parts: np.ndarray) -> np.ndarray:
        """The plain sum."""
        return np.asarray(parts).sum(axis=0)

    def same_everywhere(self, value: np.ndarray) -> np.ndarray:
        """The value itself."""
        return value


def broadcast(gossip: Gossip, value: np.ndarray) -> np.ndarray:
    """The value as the root of the sums has it, passed on until all agents have it."""
    copies = np.broadcast_to(value, (len(gossip.network.local), *np.shape(value)))
    return gossip.flood(copies)[-1]


def derivatives_at(agents: Agent, point: np.ndarray) -> Derivatives:
    """f_i, its gradient and its Hessian (or the diagonal) of every local agent."""
    if agents.quadratic is None:
        return Derivatives(*map(np.asarray, _derivatives_at(agents, point)))
    values, gradients, hessians = agents.quadratic.derivatives(point)  # without compiling anything
    is_dense = len(point) <= LARGEST_DENSE_HESSIAN
    return Derivatives(values, gradients, hessians if is_dense else np.einsum("ijj->ij", hessians))


@jax.jit
def _derivatives_at(agents: Agent, point: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    return jax.vmap(lambda a: (a.potential(point), a.gradient(point), hessian_of(a, point)))(agents)


def hessian_of(agent: Agent, point: jax.Array) -> jax.Array:
    """The Hessian of one agent's potential, or its diagonal above `LARGEST_DENSE_HESSIAN`."""
    if len(point) <= LARGEST_DENSE_HESSIAN:
        hessian = agent.hessian(point)
        return (hessian + hessian.T) / 2

    def entry(k):
        unit = jnp.zeros_like(point).at[k].set(1.0)
        return jax.jvp(agent.gradient, (point,), (unit,))[1][k]

    return jax.lax.map(entry, jnp.arange(len(point)))


def values_at(agents: Agent, points: np.ndarray) -> Any:
    """f_i of every local agent at several points, (agent, point)."""
    if agents.quadratic is None:
        return _values_at(agents, points)
    return np.column_stack([agents.quadratic.values(point) for point in points])


@jax.jit
def _values_at(agents: Agent, points: Any) -> jax.Array:
    return jax.vmap(lambda agent: jax.vmap(agent.potential)(points))(agents)
