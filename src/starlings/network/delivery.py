"""Delivery of messages: every agent's inbox, from the links as arrays on a device.

There are three forms, for three kinds of graphs:

    Total   complete graphs: sum_{j != i} x_j = sum_j x_j - x_i, for any number of edges        (1)
    Dense   small graphs with many edges: the product of a matrix with all messages             (2)
    Lists   all other graphs: the k-th neighbours of all agents at once, for k up to a `width`;
            messages to agents with more neighbours than that are added edge by edge            (3)

The width is the one with the least work, in units of one entry of (2), where a gathered message
costs `GATHER` and a scattered one `SCATTER`:

    work = GATHER width N + SCATTER sum_i max(0, d_i - width)                                   (4)

and is at most `WIDEST`, so that an agent with very many neighbours costs no more than its own
links. (3) adds an agent's neighbours in the order of their numbers; (1) and (2) differ from it by
rounding. (3) computes the sum twice, for samplers that use it twice: see `_gathered_twice`.

In one of several processes, the local agents come first and then those of other processes that
have local neighbours, the remote agents:

    Cut     exchanges messages with other processes, then delivers by (2) or (3)                (5)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network._gathered_twice import GatheredTwice, gathered_twice
from starlings.network.communicator import Communicator
from starlings.network.graph_arrays import metropolis_weights
from starlings.network.inbox import Inbox
from starlings.network.network import Network
from starlings.pytrees import pytree

GATHER, SCATTER = 3.0, 15.0
"""The work to gather and to scatter a message, over that of one entry of a dense product."""
WIDEST = 16
"""Largest number of neighbours of an agent that are gathered as columns, eq. (3)."""
DENSE_SIZE = 2000
"""Largest number of agents whose links may be a dense matrix, eq. (2)."""


class Wiring:
    """The links of a network as the device needs them."""

    @staticmethod
    def of(network: Network, dtype: Any) -> Wiring:
        """The form with the least work for the local agents."""
        is_complete = 2 * network.num_edges == network.size * (network.size - 1)
        if not network.is_distributed and network.size > 1 and is_complete:
            return Total()
        links = Links.of(network)
        work = [_work(links.degrees, width) for width in range(WIDEST + 1)]
        dense_work = len(links.degrees) * links.num_visible
        if network.size <= DENSE_SIZE and dense_work < min(work):
            wiring: Wiring = Dense.from_links(links, dtype)
        else:
            wiring = Lists.from_links(links, dtype, int(np.argmin(work)))
        if not network.is_distributed:
            return wiring
        communicator = network.communicator
        return Cut(wiring, jnp.asarray(communicator.outgoing, jnp.int32), communicator)

    def inboxes(self, messages: jax.Array, index: Any) -> Any:
        """What every agent gets in round `index`, from the messages (agent, floats, chain)."""
        by_agent = messages.reshape(len(messages), -1)
        return jax.tree.map(lambda a: a.reshape(messages.shape), self.deliver(by_agent))

    def deliver(self, messages: jax.Array) -> Inbox:
        """The inbox of every agent, from the messages (agent, floats) of one round."""
        raise NotImplementedError


def _work(degrees: np.ndarray, width: int) -> float:
    """Eq. (4)."""
    return GATHER * width * len(degrees) + SCATTER * np.maximum(0, degrees - width).sum()  # (4)


class Links(NamedTuple):
    """The links to the local agents, in the order of the receivers and then of the senders."""

    receivers: np.ndarray
    """Who receives along each link: positions among the local agents."""
    senders: np.ndarray
    """Who sends along each link: positions among the local agents and, after them, the remote."""
    weights: np.ndarray
    """The Metropolis weight of each link."""
    own_weights: np.ndarray
    """The Metropolis weight of each local agent's own message."""
    degrees: np.ndarray
    """The number of neighbours of each local agent."""
    num_visible: int
    """The number of local and remote agents."""

    @classmethod
    def of(cls, network: Network) -> Links:
        """The links that end at the local agents."""
        local, adjacency = network.local, network.adjacency[network.local]
        visible = np.concatenate([local, network.communicator.incoming])
        position = np.full(network.size, -1)
        position[visible] = np.arange(len(visible))
        degrees = np.diff(adjacency.indptr)
        receivers, senders = np.repeat(np.arange(len(local)), degrees), adjacency.indices
        weights = metropolis_weights(degrees[receivers], network.degrees[senders])
        own_weights = network.mixing.diagonal()[local]
        return cls(receivers, position[senders], weights, own_weights, degrees, len(visible))


@pytree
@dataclass(frozen=True)
class Total(Wiring):
    """Delivery on a complete graph, eq. (1); all its Metropolis weights are 1/N."""

    def deliver(self, messages: jax.Array) -> Inbox:
        """The total of all messages, without the agent's own."""
        total, best = messages.sum(axis=0), messages.argmax(axis=0)
        is_best = jnp.arange(len(messages))[:, None] == best
        second = jnp.where(is_best, -jnp.inf, messages).max(axis=0)
        return Inbox(
            sum=total - messages,  # (1)
            mix=jnp.broadcast_to(total / len(messages), messages.shape),
            max=jnp.where(is_best, second, messages.max(axis=0)),
        )


@pytree
@dataclass(frozen=True)
class Dense(Wiring):
    """Delivery by dense products, eq. (2)."""

    adjacency: Any
    """1 for each link and 0 elsewhere, (local agent, local or remote agent)."""
    mixing: Any
    """The Metropolis weights, of the same shape."""

    @classmethod
    def from_links(cls, links: Links, dtype: Any) -> Dense:
        """The matrices of the links."""
        adjacency, mixing = np.zeros((2, len(links.degrees), links.num_visible))
        adjacency[links.receivers, links.senders] = 1.0
        mixing[links.receivers, links.senders] = links.weights
        np.fill_diagonal(mixing, links.own_weights)
        return cls(jnp.asarray(adjacency, dtype), jnp.asarray(mixing, dtype))

    def deliver(self, messages: jax.Array) -> Inbox:
        """Products of the matrices with all messages."""
        linked = self.adjacency[:, :, None] > 0
        largest = jnp.max(jnp.where(linked, messages, -jnp.inf), axis=1)
        added = self.adjacency @ messages  # (2)
        return Inbox(added, self.mixing @ messages, largest)


@pytree
@dataclass(frozen=True)
class Lists(Wiring):
    """Delivery by lists of neighbours, eq. (3)."""

    columns: tuple[Any, ...]
    """The k-th neighbour of every agent; the agent itself if it has fewer neighbours."""
    weights: tuple[Any, ...]
    """The Metropolis weight of the k-th neighbour, (agent, 1); 0 if there is no such neighbour."""
    own_weights: Any
    """The Metropolis weight of the agent's own message, (agent, 1)."""
    surplus: Edges | None
    """The links beyond the columns."""
    full: int = field(metadata={"static": True})
    """The number of columns in which every agent has a neighbour."""

    @classmethod
    def from_links(cls, links: Links, dtype: Any, width: int) -> Lists:
        """The neighbours of every agent in ascending order, the first `width` in columns."""
        receivers, count = links.receivers, len(links.degrees)
        rank = np.arange(len(receivers)) - (np.cumsum(links.degrees) - links.degrees)[receivers]
        listed = np.repeat(np.arange(count)[None], width, axis=0)
        listed_weights = np.zeros((width, count))
        inside = rank < width
        listed[rank[inside], receivers[inside]] = links.senders[inside]
        listed_weights[rank[inside], receivers[inside]] = links.weights[inside]
        surplus = None
        if not inside.all():
            left = (links.receivers[~inside], links.senders[~inside], links.weights[~inside])
            surplus = Edges.of(*left, count, dtype)
        return cls(
            columns=tuple(jnp.asarray(column, jnp.int32) for column in listed),
            weights=tuple(jnp.asarray(column[:, None], dtype) for column in listed_weights),
            own_weights=jnp.asarray(links.own_weights[:, None], dtype),
            surplus=surplus,
            full=int(min(width, links.degrees.min())),
        )

    def deliver(self, messages: jax.Array) -> Inbox:
        """Sums, mixes and maxima column by column, and then over the surplus."""
        own = messages[: len(self.own_weights)]
        mixed, largest = self.own_weights * own, jnp.full_like(own, -jnp.inf)
        for received, weight, exists in self._received(messages):
            mixed += jnp.where(exists, weight * received, 0.0)
            largest = jnp.maximum(largest, jnp.where(exists, received, -jnp.inf))
        sums = gathered_twice(self._sum, messages)
        if self.surplus is None:
            return GatheredTwice(sums, mixed, largest)
        more = self.surplus.deliver(messages)
        largest = jnp.maximum(largest, more.max)
        return GatheredTwice(tuple(s + more.sum for s in sums), mixed + more.mix, largest)

    def _sum(self, messages: jax.Array) -> jax.Array:
        added = jnp.zeros_like(messages[: len(self.own_weights)])
        for received, _, exists in self._received(messages):
            added += jnp.where(exists, received, 0.0)
        return added

    def _received(self, messages: jax.Array) -> Iterator[tuple[Any, Any, Any]]:
        """The messages of the k-th neighbours, their weights, and whether they exist."""
        for k, (column, weight) in enumerate(zip(self.columns, self.weights, strict=True)):
            yield messages[column], weight, True if k < self.full else weight > 0


@pytree
@dataclass(frozen=True)
class Edges:
    """Links as a list of edges, in the order of their receivers."""

    receivers: Any
    senders: Any
    weights: Any
    num_receivers: int = field(metadata={"static": True})

    @classmethod
    def of(cls, receivers: Any, senders: Any, weights: Any, count: int, dtype: Any) -> Edges:
        """The links to `count` agents, from NumPy arrays."""
        return cls(
            receivers=jnp.asarray(receivers, jnp.int32),
            senders=jnp.asarray(senders, jnp.int32),
            weights=jnp.asarray(weights[:, None], dtype),
            num_receivers=count,
        )

    def deliver(self, messages: jax.Array) -> Inbox:
        """The part of each inbox that comes over these links."""
        sent = messages[self.senders]
        where = (self.receivers, self.num_receivers, True)
        return Inbox(
            sum=jax.ops.segment_sum(sent, *where),
            mix=jax.ops.segment_sum(self.weights * sent, *where),
            max=jax.ops.segment_max(sent, *where),
        )


@pytree
@dataclass(frozen=True)
class Cut(Wiring):
    """Delivery in one of several processes, eq. (5)."""

    local: Wiring
    """Delivery to the local agents, from the messages of local and remote agents."""
    outgoing: Any
    """Positions of the local agents whose messages are sent, in the order of the exchange."""
    communicator: Communicator = field(metadata={"static": True})

    def deliver(self, messages: jax.Array) -> Inbox:
        """The inboxes of the local agents, after an exchange with the other processes."""
        remote = self.communicator.exchange(messages[self.outgoing])
        return self.local.deliver(jnp.concatenate([messages, remote]))  # (5)
