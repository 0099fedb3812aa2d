"""Who hears whom, as arrays on a device: every agent's inbox, in the form that fits the graph.

    Total   of a complete graph: sum_{j != i} x_j = sum_j x_j - x_i, for any number of edges    (1)
    Dense   of a small graph with many edges: the product of a matrix with all messages         (2)
    Lists   of anything else: the k-th neighbour of all agents at once, for k up to a `width`;
            what the few agents with more neighbours hear besides is added edge by edge         (3)

The width makes the least work, in units of one entry of (2), where a gathered message costs
`GATHER` and a scattered one `SCATTER`:

    work = GATHER width N + SCATTER sum_i max(0, d_i - width)                                   (4)

and is at most `WIDEST`, so that a hub pays for its degree, and nobody else does. (3) adds an
agent's neighbours up in the order of their numbers; (1) and (2) differ from it by rounding. On a
processor a sum that is needed twice is gathered twice: each use then fetches the neighbours' rows
itself, where a sum between them would be written to memory and read from there.

A process that holds some of the agents sees those first, and then the others that they hear:

    Cut     fetches the messages of the others, and hands all that are seen to (2) or (3)       (5)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.network.communicator import Communicator
from starlings.network.inbox import Inbox
from starlings.network.network import Network
from starlings.pytrees import pytree

GATHER, SCATTER = 3.0, 15.0
WIDEST = 16
DENSE_SIZE = 2000


class Wiring:
    """The links of a network as the device needs them."""

    @staticmethod
    def of(network: Network, dtype: Any) -> Wiring:
        """The form with the least work, for the agents that this process holds."""
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

    def deliver(self, messages: jax.Array) -> Inbox:
        """The inbox of every agent, from the messages (agent, floats) of one round."""
        raise NotImplementedError


def _work(degrees: np.ndarray, width: int) -> float:
    return GATHER * width * len(degrees) + SCATTER * np.maximum(0, degrees - width).sum()  # (4)


class Links(NamedTuple):
    """Who hears whom, in the order of the receivers and then of the senders.

    Receivers are numbered as they are held; senders as they are seen, the held ones first.
    """

    receivers: np.ndarray
    senders: np.ndarray
    weights: np.ndarray
    """The Metropolis weight of every link."""
    own_weights: np.ndarray
    degrees: np.ndarray
    """Of the agents that are held."""
    num_visible: int

    @classmethod
    def of(cls, network: Network) -> Links:
        """The links that end at the agents that this process holds."""
        held, adjacency = network.local, network.adjacency[network.local]
        visible = np.concatenate([held, network.communicator.incoming])
        place = np.full(network.size, -1)
        place[visible] = np.arange(len(visible))
        degrees = np.diff(adjacency.indptr)
        receivers, senders = np.repeat(np.arange(len(held)), degrees), adjacency.indices
        weights = 1.0 / (1.0 + np.maximum(degrees[receivers], network.degrees[senders]))
        own_weights = network.mixing.diagonal()[held]
        return cls(receivers, place[senders], weights, own_weights, degrees, len(visible))


@pytree
@dataclass(frozen=True)
class Total(Wiring):
    """Eq. (1); all Metropolis weights of a complete graph are 1/N."""

    def deliver(self, messages: jax.Array) -> Inbox:
        """Everybody hears the total without its own part."""
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
    """Eq. (2)."""

    adjacency: Any
    mixing: Any

    @classmethod
    def from_links(cls, links: Links, dtype: Any) -> Dense:
        """The matrices (agents that are held, agents that are seen)."""
        adjacency, mixing = np.zeros((2, len(links.degrees), links.num_visible))
        adjacency[links.receivers, links.senders] = 1.0
        mixing[links.receivers, links.senders] = links.weights
        np.fill_diagonal(mixing, links.own_weights)
        return cls(jnp.asarray(adjacency, dtype), jnp.asarray(mixing, dtype))

    def deliver(self, messages: jax.Array) -> Inbox:
        """Products with the matrices."""
        linked = self.adjacency[:, :, None] > 0
        largest = jnp.max(jnp.where(linked, messages, -jnp.inf), axis=1)
        added = self.adjacency @ messages  # (2)
        return Inbox(added, self.mixing @ messages, largest)


@pytree
@dataclass(frozen=True)
class Lists(Wiring):
    """Eq. (3)."""

    columns: tuple[Any, ...]
    """The k-th neighbour of every agent; the agent itself where it has fewer."""
    weights: tuple[Any, ...]
    """The Metropolis weight of the k-th neighbour, (agent, 1); 0 where there is none."""
    own_weights: Any
    surplus: Edges | None
    """The links that the columns have no room for."""
    full: int = field(metadata={"static": True})
    """As many columns have a neighbour for everybody."""

    @classmethod
    def from_links(cls, links: Links, dtype: Any, width: int) -> Lists:
        """The neighbours of every agent in ascending order, the first `width` in columns."""
        receivers, held = links.receivers, len(links.degrees)
        rank = np.arange(len(receivers)) - (np.cumsum(links.degrees) - links.degrees)[receivers]
        listed = np.repeat(np.arange(held)[None], width, axis=0)
        listed_weights = np.zeros((width, held))
        inside = rank < width
        listed[rank[inside], receivers[inside]] = links.senders[inside]
        listed_weights[rank[inside], receivers[inside]] = links.weights[inside]
        surplus = None
        if not inside.all():
            left = (links.receivers[~inside], links.senders[~inside], links.weights[~inside])
            surplus = Edges.of(*left, held, dtype)
        return cls(
            columns=tuple(jnp.asarray(column, jnp.int32) for column in listed),
            weights=tuple(jnp.asarray(column[:, None], dtype) for column in listed_weights),
            own_weights=jnp.asarray(links.own_weights[:, None], dtype),
            surplus=surplus,
            full=int(min(width, links.degrees.min())),
        )

    def deliver(self, messages: jax.Array) -> Inbox:
        """Column by column, and then the surplus."""
        own = messages[: len(self.own_weights)]
        mixed, largest = self.own_weights * own, jnp.full_like(own, -jnp.inf)
        for heard, weight, is_there in self._heard(messages):
            mixed += jnp.where(is_there, weight * heard, 0.0)
            largest = jnp.maximum(largest, jnp.where(is_there, heard, -jnp.inf))
        added, again = self._sum(messages), self._sum(_apart(messages))
        if self.surplus is None:
            return Inbox(added, mixed, largest, again=again)
        more = self.surplus.deliver(messages)
        largest = jnp.maximum(largest, more.max)
        extra = more.sum
        return Inbox(added + extra, mixed + more.mix, largest, again=again + extra)

    def _sum(self, messages: jax.Array) -> jax.Array:
        added = jnp.zeros_like(messages[: len(self.own_weights)])
        for heard, _, is_there in self._heard(messages):
            added += jnp.where(is_there, heard, 0.0)
        return added

    def _heard(self, messages: jax.Array) -> Iterator[tuple[Any, Any, Any]]:
        """Of the k-th neighbours: what they say, their weights, and which of them there are."""
        for k, (column, weight) in enumerate(zip(self.columns, self.weights, strict=True)):
            yield messages[column], weight, True if k < self.full else weight > 0


def _apart(messages: jax.Array) -> jax.Array:
    """The same, which the compiler for a processor takes for something else."""
    return jax.lax.platform_dependent(
        messages, cpu=jax.lax.optimization_barrier, default=lambda same: same
    )


@pytree
@dataclass(frozen=True)
class Edges:
    """Links one by one, in the order of their receivers."""

    receivers: Any
    senders: Any
    weights: Any
    num_receivers: int = field(metadata={"static": True})

    @classmethod
    def of(cls, receivers: Any, senders: Any, weights: Any, held: int, dtype: Any) -> Edges:
        """From NumPy arrays."""
        return cls(
            receivers=jnp.asarray(receivers, jnp.int32),
            senders=jnp.asarray(senders, jnp.int32),
            weights=jnp.asarray(weights[:, None], dtype),
            num_receivers=held,
        )

    def deliver(self, messages: jax.Array) -> Inbox:
        """The share of each inbox that comes over these links."""
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
    """Eq. (5)."""

    local: Wiring
    outgoing: Any
    """The agents whose messages are sent, in the order in which the exchange takes them."""
    communicator: Communicator = field(metadata={"static": True})

    def deliver(self, messages: jax.Array) -> Inbox:
        """What the held agents hear, from the messages of all that are seen."""
        elsewhere = self.communicator.exchange(messages[self.outgoing])
        return self.local.deliver(jnp.concatenate([messages, elsewhere]))  # (5)
