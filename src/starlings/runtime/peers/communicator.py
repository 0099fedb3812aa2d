"""The communicator of a site that is a process of its own: messages to neighbours and nobody else.

    exchange      a message to every neighbour, and one from each                             (1)
    sum           up a tree to the centre of the graph, and the total down again; where all
                  sites are neighbours, everybody's part to everybody                         (2)
    broadcast     from site 0 down a tree                                                     (3)
    first         up to the centre and down again; likewise everybody's bytes                  (4)

Parts are added in the order of the sites, so that a total has the same bits whenever it is made
again. Each message says what it is for, by the number of the call and the kind of the call: sites
that do not run the same program notice it at once.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

import jax
import numpy as np

from starlings.errors import ProtocolError, SiteError
from starlings.network import Network
from starlings.network.crossings import Crossings
from starlings.network.gossip import rounds_per_sum
from starlings.network.hops import hops
from starlings.runtime.callback import exchange_on_host
from starlings.runtime.peers import values
from starlings.runtime.peers.journal import Journal
from starlings.runtime.peers.stream import Stream
from starlings.runtime.peers.trees import Tree

Value = TypeVar("Value")
STAMP = struct.Struct("<BQ")
"""In front of each message: the kind of the call, and how many calls there were before."""


class Kind(IntEnum):
    """What a message is for."""

    EXCHANGE = 1
    SUM = 2
    VALUE = 3
    FIRST = 4
    EVERYBODY = 5


class PeersCommunicator:
    """A `Communicator` between sites, each with one agent.

    Args:
        network: all sites and links.
        site: the number of this site.
        streams: the messages of each neighbour, by its number.
        journal: the journal of this site.
    """

    collects = False

    def __init__(
        self, network: Network, site: int, streams: Mapping[int, Stream], journal: Journal
    ) -> None:
        self.rank, self.size = site, network.size
        self.streams, self.journal = streams, journal
        crossings = Crossings.of(network, np.arange(network.size), site)
        self.outgoing, self.incoming = crossings.outgoing, crossings.incoming
        self._neighbours = crossings.neighbours
        self._is_complete = network.is_complete
        self._to_centre = Tree.of(network, network.centre, site)
        self._to_first = Tree.of(network, 0, site)
        self._rounds_of = _rounds_of_calls(network)
        self.calls = 0
        """Calls so far, the same number at all sites that have come as far."""
        self.rounds = 0
        """Network rounds of these calls: in a round a site hears of each neighbour once."""
        self.check_received: Callable[[str, np.ndarray, np.ndarray], None] | None = None
        """Looks at what a neighbour, by name, was sent and has sent in a round; see `guard`."""
        self.failure: BaseException | None = None
        """Why a round ended, which compiled code reports in words of its own."""

    def exchange(self, messages: jax.Array) -> jax.Array:
        """Send the messages (neighbour, floats), and return those of the neighbours, eq. (1)."""
        return exchange_on_host(self.exchanged, messages, len(self.incoming))

    def exchanged(self, messages: np.ndarray) -> np.ndarray:
        """The same outside of compiled code."""
        try:
            call, received = self._call(Kind.EXCHANGE), np.empty_like(messages)
            for neighbour, message in zip(self._neighbours, messages, strict=True):
                call.send(neighbour, message.tobytes())
            for place, neighbour in enumerate(self._neighbours):
                received[place] = call.array(neighbour, messages[place])
                if self.check_received is not None:
                    name = self.streams[neighbour].neighbour
                    self.check_received(name, messages[place], received[place])
            return received
        except BaseException as error:
            self.failure = error
            raise

    def sum(self, part: np.ndarray) -> np.ndarray:
        """The total of arrays of one shape over the sites, the same bits at each, eq. (2)."""
        call, part = self._call(Kind.SUM), np.asarray(part)
        if self._is_complete:
            return self._sum_of_everybody(call, part)
        tree, total = self._to_centre, part
        for child in tree.children:
            total = total + call.array(child, part)
        data = self._through_root(call, tree, total.tobytes())
        return call.shaped(data, tree.parent, part).copy()

    def _sum_of_everybody(self, call: _Call, part: np.ndarray) -> np.ndarray:
        for neighbour in self._neighbours:
            call.send(neighbour, part.tobytes())
        parts = (part if j == self.rank else call.array(j, part) for j in range(self.size))
        return np.array(functools.reduce(np.add, parts))

    def broadcast(self, value: Value) -> Value:
        """The value of site 0, which is the same again after a restart, eq. (3)."""
        call, tree = self._call(Kind.VALUE), self._to_first
        if tree.parent is None:
            data = self.remembered(lambda: values.encoded(value))
        else:
            data = call.data(tree.parent)
        for child in tree.children:
            call.send(child, data)
        return call.decoded(data, tree.parent)

    def first(self, value: Value | None) -> Value | None:
        """The smallest value that is not None at any site, eq. (4)."""
        call, tree = self._call(Kind.FIRST), self._to_centre
        every = [value, *(call.value(child) for child in tree.children)]
        data = values.encoded(values.smallest(every))
        return call.decoded(self._through_root(call, tree, data), tree.parent)

    def everybody(self, own: bytes) -> list[bytes]:
        """The bytes of every site, in the order of the sites, at all of them, eq. (4)."""
        call, tree, found = self._call(Kind.EVERYBODY), self._to_centre, {str(self.rank): own}
        for child in tree.children:
            theirs = call.value(child)
            if not self._is_of_sites(theirs) or not found.keys().isdisjoint(theirs):
                raise call.unusable(child, "it is not the bytes of some sites behind it.")
            found |= theirs
        data = self._through_root(call, tree, values.encoded(found))
        every = call.decoded(data, tree.parent)
        if not self._is_of_sites(every) or len(every) != self.size:
            raise call.unusable(tree.parent, "it is not the bytes of every site.")
        return [every[str(site)] for site in range(self.size)]

    @staticmethod
    def _through_root(call: _Call, tree: Tree, data: bytes) -> bytes:
        """The bytes of the root, at every site, from those of the branch behind this site."""
        if tree.parent is not None:
            call.send(tree.parent, data)
            data = call.data(tree.parent)
        for child in tree.children:
            call.send(child, data)
        return data

    def gather(self, own: np.ndarray, axis: int) -> np.ndarray:
        """The entries of this site: every site keeps its own draws."""
        return own

    def barrier(self) -> None:
        """Return when every site has called it."""
        self.sum(np.zeros(1))

    def remembered(self, make: Callable[[], bytes]) -> bytes:
        """Bytes that are found by chance or by the clock, the same again after a restart."""
        return self.journal.remembered(make)

    def _is_of_sites(self, found: Any) -> bool:
        """Whether a value that arrived is a table of bytes by the number of a site."""
        numbers = {str(site) for site in range(self.size)}
        is_table = isinstance(found, dict) and found.keys() <= numbers
        return is_table and all(isinstance(one, bytes) for one in found.values())

    def _call(self, kind: Kind) -> _Call:
        self.calls += 1
        self.rounds += self._rounds_of[kind]
        return _Call(self.streams, STAMP.pack(kind, self.calls))


def _rounds_of_calls(network: Network) -> dict[Kind, int]:
    """The network rounds that each kind of call takes: those down a tree are as many as up it."""
    depth = int(hops(network.adjacency, 0).max())
    return {
        Kind.EXCHANGE: 1,
        Kind.SUM: rounds_per_sum(network),
        Kind.VALUE: depth,
        Kind.FIRST: 2 * network.radius,
        Kind.EVERYBODY: 2 * network.radius,
    }


class _Call:
    """The messages of one call, each with the stamp of the call in front."""

    def __init__(self, streams: Mapping[int, Stream], stamp: bytes) -> None:
        self.streams, self.stamp = streams, stamp

    def send(self, neighbour: int, data: bytes) -> None:
        """Send bytes to a neighbour."""
        self.streams[neighbour].send(self.stamp + data)

    def data(self, neighbour: int) -> bytes:
        """The bytes of a neighbour, sent by the same call there."""
        message = self.streams[neighbour].receive()
        if message[: STAMP.size] != self.stamp:
            raise self._not_the_same(neighbour, message)
        return message[STAMP.size :]

    def array(self, neighbour: int, like: np.ndarray) -> np.ndarray:
        """The array of a neighbour, of the type and shape of another one."""
        return self.shaped(self.data(neighbour), neighbour, like)

    def shaped(self, data: bytes, neighbour: int | None, like: np.ndarray) -> np.ndarray:
        """The array of bytes that came from a neighbour, or, if None, are of this site."""
        if neighbour is not None and len(data) != like.nbytes:
            raise self._not_the_same(neighbour, self.stamp + data)
        return np.frombuffer(data, like.dtype).reshape(like.shape)

    def value(self, neighbour: int) -> Any:
        """The value of a neighbour, see `values`."""
        return self.decoded(self.data(neighbour), neighbour)

    def decoded(self, data: bytes, neighbour: int | None) -> Any:
        """The value of bytes that came from a neighbour, or None for this site."""
        try:
            return values.decoded(data)
        except ProtocolError as error:
            raise self.unusable(neighbour, str(error)) from None

    def unusable(self, neighbour: int | None, fault: str) -> SiteError:
        """The error for a value that no site of this version sends."""
        name = "a neighbour" if neighbour is None else self.streams[neighbour].neighbour
        return SiteError(
            f"what {name} sent in call {STAMP.unpack(self.stamp)[1]:,} cannot be used: {fault} "
            "Ask who runs it which version of starlings that is."
        )

    def _not_the_same(self, neighbour: int, message: bytes) -> SiteError:
        name = self.streams[neighbour].neighbour
        here = STAMP.unpack(self.stamp)
        there = STAMP.unpack(message[: STAMP.size]) if len(message) >= STAMP.size else (0, 0)
        return SiteError(
            f"{name} does not run the same program: call {there[1]:,} of kind {there[0]} with "
            f"{len(message):,} bytes there, call {here[1]:,} of kind {here[0]} here. All sites "
            "need the same version of starlings and its packages."
        )
