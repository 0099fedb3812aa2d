"""What the neighbours of an agent send to it where messages are masked, and where it crosses.

The neighbours j of an agent i send it n(w_ij x_j) plus masks between the neighbours of i, which
cancel in the sum (see `starlings.privacy.masks`); w_ij is 1 for samplers that read `inbox.sum`, and
the Metropolis weight W_ij for those that read `inbox.mix`:

    sum_i = sum_j n(x_j),      mix_i = W_ii x_i + sum_j n(W_ij x_j)                         (1)

So an agent sends a message of its own to each of its neighbours. Between processes these travel in
the rows of `Communicator.exchange`: the row of a sender j and a process q is divided into slots,
one for each neighbour of j at q, in the order of their numbers.                            (2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from starlings.network import Network
from starlings.network.crossings import Crossings
from starlings.network.gossip import FARTHEST
from starlings.network.secrecy import SumMasks
from starlings.privacy.fixed_point import LIMBS

WORD_BYTES = 4
"""Bytes of one limb as it travels."""
Place = tuple[int, int]
"""A row of an exchange, and a slot in it."""


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """One agent, the receiver, and those of its neighbours that are local."""

    receiver: int
    """The number of the agent."""
    own: int | None
    """Its position among the local agents; None if another process holds it."""
    senders: np.ndarray
    """The positions of its local neighbours among the local agents."""
    weights: np.ndarray
    """w_ij of these neighbours, (neighbour, 1)."""
    masks: SumMasks
    """The masks of all its neighbours, of which the local ones can be made here."""


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Every agent that is local or has local neighbours."""

    reads: str
    """What is read of an inbox, "sum" or "mix"."""
    each: Sequence[Neighbourhood]
    own_weights: np.ndarray
    """W_ii of the local agents where mixes are read, and 0 where sums are, (agent, 1)."""

    @classmethod
    def of(cls, network: Network, reads: str) -> Neighbourhoods:
        """The neighbourhoods of a network whose messages are masked; `reads` is "sum" or "mix"."""
        matrix = network.adjacency if reads == "sum" else network.mixing.tocsr()
        every = [_neighbourhood(network, matrix, receiver) for receiver in range(network.size)]
        own = np.zeros(network.size) if reads == "sum" else network.mixing.diagonal()
        each = [place for place in every if place.own is not None or len(place.senders)]
        return cls(reads, each, own[network.local, None])

    def masked(self, place: Neighbourhood, messages: np.ndarray) -> np.ndarray:
        """What the local neighbours of one agent send to it, (neighbour, words).

        Positions that masks cannot hold are infinite, so that the run is stopped as diverged.

        Args:
            place: the agent.
            messages: those of the local agents, (agent, floats).
        """
        if not len(place.senders):
            return np.zeros((0, words_of(messages.shape[1])))
        near = np.where(np.abs(messages) < FARTHEST, messages, np.inf)
        return place.masks.masked(place.weights * near[place.senders])  # (1)

    def opened(self, totals: np.ndarray, messages: np.ndarray) -> np.ndarray:
        """What the local agents read, (agent, floats), of the sums of what was sent to them.

        Args:
            totals: these sums, (agent, words).
            messages: those of the local agents, (agent, floats).
        """
        found = np.empty(messages.shape)
        for place in self.each:
            if place.own is not None:
                found[place.own] = place.masks.opened(totals[place.own])
        return (found + self.own_weights * messages).astype(messages.dtype)  # (1)

    def totals(self, messages: np.ndarray) -> np.ndarray:
        """What every agent reads where all agents are local, (agent, floats)."""
        own = (place for place in self.each if place.own is not None)
        return self.opened(
            np.array([self.masked(place, messages).sum(axis=0) for place in own]), messages
        )


def _neighbourhood(network: Network, matrix: Any, receiver: int) -> Neighbourhood:
    """One neighbourhood; all processes call this for all agents, in order, as masks need it."""
    assert network.secrecy is not None
    neighbours = network.adjacency[[receiver]].indices
    is_local = np.isin(neighbours, network.local)
    local = neighbours[is_local]
    names = [network.names[j] for j in neighbours]
    own = np.flatnonzero(network.local == receiver)
    return Neighbourhood(
        receiver=receiver,
        own=int(own[0]) if len(own) else None,
        senders=np.searchsorted(network.local, local),
        weights=matrix[[receiver]][:, local].toarray().reshape(-1, 1),
        masks=network.secrecy.neighbourhood_masks(names, network.names[receiver]),
    )


def words_of(floats: int) -> int:
    """The words of a message of so many floats: limbs of each, and of the number that checks it."""
    return LIMBS * (floats + 1)


@dataclass(frozen=True, eq=False)
class Slots:
    """Where in an exchange the messages between agents of different processes are, eq. (2)."""

    width: int
    """The number of slots of each row, the same at all processes."""
    sent: dict[tuple[int, int], Place]
    """Where to put a message, by the position of its sender and the number of its receiver."""
    received: list[list[Place]]
    """For each local agent, where the messages of its neighbours elsewhere are."""

    @classmethod
    def of(cls, network: Network) -> Slots:
        """The slots of this process; all processes call this together."""
        owner, rank = _owners(network), network.communicator.rank
        crossings = Crossings.of(network, owner, rank)
        position = {int(agent): place for place, agent in enumerate(network.local)}

        def slots(agent: int, process: int) -> Iterator[tuple[int, int]]:
            """The slots of an agent's row to a process, with the neighbours they are for."""
            neighbours = network.adjacency[[agent]].indices
            return enumerate(neighbours[owner[neighbours] == process].tolist())  # (2)

        sent: dict[tuple[int, int], Place] = {}
        for row, (process, sender) in enumerate(crossings.rows_sent()):
            for slot, receiver in slots(sender, process):
                sent[position[sender], receiver] = row, slot
        received: list[list[Place]] = [[] for _ in network.local]
        for row, sender in enumerate(crossings.incoming.tolist()):
            for slot, receiver in slots(sender, rank):
                received[position[receiver]].append((row, slot))
        return cls(_most_slots(network, owner), sent, received)


def _owners(network: Network) -> np.ndarray:
    """The process of every agent, by a sum over the processes."""
    held = np.zeros(network.size)
    held[network.local] = network.communicator.rank
    return network.communicator.sum(held).astype(int)


def _most_slots(network: Network, owner: np.ndarray) -> int:
    """The most neighbours that any agent has at one process other than its own."""
    senders, receivers = network.adjacency.nonzero()
    crosses = owner[senders] != owner[receivers]
    pairs = Counter(zip(senders[crosses], owner[receivers[crosses]], strict=True))
    return max(pairs.values(), default=0)
