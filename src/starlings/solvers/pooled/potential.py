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

from starlings.network.gossip import NUMBERS, Gossip
from starlings.problem.agent import Agent
from starlings.solvers.laplace import Marginal

LARGEST_DENSE_HESSIAN = 300
"""Number of parameters up to which the agents sum whole Hessians. Above it they sum diagonals: a
matrix of d^2 numbers would be too much to send and to factorise."""

MESSAGE_FLOATS = 8192
"""Number of floats, about, of a message with derivatives at several points: 64 kB."""
NUM_POINTS = (4, 16)
"""The least and the largest number of points of such a message."""


class Derivatives(NamedTuple):
    """A value, a gradient and a Hessian: of every agent, with the agent as first axis, or of F."""

    value: Any
    gradient: np.ndarray
    hessian: Any
    """A matrix, or above `LARGEST_DENSE_HESSIAN` parameters the vector of its diagonal; None where
    it was not computed."""

    @property
    def is_finite(self) -> bool:
        """Whether all these are finite, as far as they were computed."""
        return all(np.isfinite(part).all() for part in self if part is not None)


@dataclass(frozen=True)
class SummedPotential(abc.ABC):
    """F = sum_i f_i over all agents, of which these are the local ones."""

    agents: Agent | Marginal

    @abc.abstractmethod
    def sum(self, parts: np.ndarray, what: str = NUMBERS) -> np.ndarray:
        """The sum over all agents of parts (agent, ...) of the local agents."""

    def bounded(self, parts: np.ndarray) -> np.ndarray:
        """The parts, with those that cannot be summed at far points made infinite."""
        return parts

    def refuse_far(self) -> None:
        """Raise if the last `bounded` parts were finite, and too large for a sum."""
        return

    @abc.abstractmethod
    def same_everywhere(self, value: np.ndarray) -> np.ndarray:
        """The value as one agent has it, equal in every bit at all agents."""

    def values(self, points: np.ndarray) -> np.ndarray:
        """F at several points (point, dim)."""
        return np.asarray(self.sum(self.bounded(values_at(self.agents, points)), "potentials"))

    def derivatives(self, points: np.ndarray, may_be_far: bool = False) -> list[Derivatives]:
        """F, its gradient and its Hessian at several points (point, dim), by one sum.

        Above `LARGEST_DENSE_HESSIAN` parameters only the first point has a Hessian: its diagonal.
        Points that `may_be_far` from the mode may have derivatives that cannot be summed, and are
        infinite then.
        """
        own = derivatives_at_all(self.agents, points)
        return self._summed(Derivatives(*map(self.bounded, own)) if may_be_far else own)

    def total(self, own: Derivatives) -> Derivatives:
        """The sum over all agents of the derivatives of the local ones at one point."""
        return self._summed(Derivatives(*(np.expand_dims(part, 1) for part in own)))[0]

    def _summed(self, own: Derivatives) -> list[Derivatives]:
        """The sum of derivatives (agent, point, ...); Hessians are sent as upper triangles."""
        dim, is_dense = own.gradient.shape[2], own.hessian.ndim == 4
        upper = np.triu_indices(dim)
        parts = [own.value, own.gradient, own.hessian[:, :, *upper] if is_dense else own.hessian]
        flat = [np.asarray(part).reshape(len(part), -1) for part in parts]
        ends = np.cumsum([part.shape[1] for part in flat])[:-1]
        total = np.split(np.asarray(self.sum(np.concatenate(flat, axis=1), "derivatives")), ends)
        values, gradients, packed = (
            of_all.reshape(part.shape[1:]) for of_all, part in zip(total, parts, strict=True)
        )
        hessians = [_symmetric(one, upper, dim) if is_dense else one for one in packed]
        missing = [None] * (len(values) - len(hessians))
        columns = (values.tolist(), gradients, hessians + missing)
        return [Derivatives(*point) for point in zip(*columns, strict=True)]


def _symmetric(packed: np.ndarray, upper: Any, dim: int) -> np.ndarray:
    """The symmetric matrix of an upper triangle."""
    matrix = np.zeros((dim, dim))
    matrix[upper] = packed
    return matrix + np.triu(matrix, 1).T


@dataclass(frozen=True)
class NetworkPotential(SummedPotential):
    """Sums that are formed by messages between neighbours."""

    gossip: Gossip

    def sum(self, parts: np.ndarray, what: str = NUMBERS) -> np.ndarray:
        """The sum over the network, as every agent has it."""
        return self.gossip.sum(parts, what)[0]

    def bounded(self, parts: np.ndarray) -> np.ndarray:
        """Those that masks cannot hold are infinite."""
        return self.gossip.bounded(parts)

    def refuse_far(self) -> None:
        """Raise if masks could not hold the last of them, although they were finite."""
        self.gossip.refuse_far()

    def same_everywhere(self, value: np.ndarray) -> np.ndarray:
        """The value of the root of the sums, after it has been broadcast to all agents."""
        return broadcast(self.gossip, value)


@dataclass(frozen=True)
class LocalPotential(SummedPotential):
    """Sums over agents that are all in this process; no messages."""

    def sum(self, parts: np.ndarray, what: str = NUMBERS) -> np.ndarray:
        """The plain sum; entries that are not finite at far points are left so."""
        with np.errstate(invalid="ignore"):
            return np.asarray(parts).sum(axis=0)

    def same_everywhere(self, value: np.ndarray) -> np.ndarray:
        """The value itself."""
        return value


def broadcast(gossip: Gossip, value: np.ndarray) -> np.ndarray:
    """The value as the root of the sums has it, passed on until all agents have it."""
    copies = np.broadcast_to(value, (len(gossip.network.local), *np.shape(value)))
    return gossip.flood(copies)[-1]


def derivatives_at(agents: Agent | Marginal, point: np.ndarray) -> Derivatives:
    """f_i, its gradient and its Hessian (or the diagonal) of every local agent."""
    if agents.quadratic is None:
        return Derivatives(*map(np.asarray, _derivatives_at(agents, point)))
    values, gradients, hessians = agents.quadratic.derivatives(point)  # without compiling anything
    is_dense = len(point) <= LARGEST_DENSE_HESSIAN
    return Derivatives(values, gradients, hessians if is_dense else np.einsum("ijj->ij", hessians))


@jax.jit
def _derivatives_at(agents: Agent | Marginal, point: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    if isinstance(agents, Marginal) and len(point) <= LARGEST_DENSE_HESSIAN:
        return jax.vmap(lambda a: a.derivatives(point))(agents)
    return jax.vmap(lambda a: (a.potential(point), a.gradient(point), hessian_of(a, point)))(agents)


def derivatives_at_all(agents: Agent | Marginal, points: np.ndarray) -> Derivatives:
    """Derivatives of every local agent at several points, (agent, point, ...).

    Above `LARGEST_DENSE_HESSIAN` parameters the diagonal of the Hessian is that of the first point.
    """
    count, dim = points.shape
    is_dense = dim <= LARGEST_DENSE_HESSIAN
    if agents.quadratic is None:
        padded = np.zeros((most_points(dim), dim))
        padded[:count] = points
        found = (_dense_at_all if is_dense else _diagonal_at_all)(agents, padded, count)
        return Derivatives(*(np.asarray(part)[:, :count] for part in found))
    each = [derivatives_at(agents, point) for point in points]
    found = [np.stack(parts, axis=1) for parts in zip(*each, strict=True)]
    values, gradients, hessians = found
    return Derivatives(values, gradients, hessians if is_dense else hessians[:, :1])


def most_points(dim: int) -> int:
    """The largest number of points at which derivatives are summed in one message."""
    hessian = dim * (dim + 1) // 2 if dim <= LARGEST_DENSE_HESSIAN else 0
    return int(np.clip(MESSAGE_FLOATS // (1 + dim + hessian), *NUM_POINTS))


@jax.jit
def _dense_at_all(agents: Agent | Marginal, points: Any, count: Any) -> Any:
    return _for_points(lambda point: _derivatives_at(agents, point), points, count)


@jax.jit
def _diagonal_at_all(agents: Agent | Marginal, points: Any, count: Any) -> Any:
    def slopes(point):
        return jax.vmap(lambda agent: (agent.potential(point), agent.gradient(point)))(agents)

    diagonal = jax.vmap(lambda agent: hessian_of(agent, points[0]))(agents)
    return *_for_points(slopes, points, count), diagonal[:, None]


def _for_points(function: Any, points: Any, count: Any) -> Any:
    """A function (agent, ...) of the first `count` points, as (agent, point, ...); 0 elsewhere.

    One point after the other, which takes no more memory than one; compiled for every `count`.
    """

    def fill(k, found):
        new = function(points[k])
        return jax.tree.map(lambda every, one: every.at[:, k].set(one), found, new)

    shapes = jax.eval_shape(function, points[0])
    start = jax.tree.map(
        lambda s: jnp.zeros((s.shape[0], len(points), *s.shape[1:]), s.dtype), shapes
    )
    return jax.lax.fori_loop(0, count, fill, start)


def hessian_of(agent: Agent | Marginal, point: jax.Array) -> jax.Array:
    """The Hessian of one agent's potential, or its diagonal above `LARGEST_DENSE_HESSIAN`."""
    if len(point) <= LARGEST_DENSE_HESSIAN:
        hessian = agent.hessian(point)
        return (hessian + hessian.T) / 2

    def entry(k):
        unit = jnp.zeros_like(point).at[k].set(1.0)
        return jax.jvp(agent.gradient, (point,), (unit,))[1][k]

    return jax.lax.map(entry, jnp.arange(len(point)))


def values_at(agents: Agent | Marginal, points: np.ndarray) -> Any:
    """f_i of every local agent at several points, (agent, point)."""
    if agents.quadratic is None:
        return _values_at(agents, points)
    return np.column_stack([agents.quadratic.values(point) for point in points])


@jax.jit
def _values_at(agents: Agent | Marginal, points: Any) -> jax.Array:
    return jax.vmap(lambda agent: jax.vmap(agent.potential)(points))(agents)
