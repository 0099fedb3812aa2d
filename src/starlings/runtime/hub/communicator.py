"""The communicator of a site behind a hub: every call is one message to the hub, and one reply.

    exchange                    a part for every neighbour, forwarded by the hub               (1)
    sum                         added by the hub in the order of the sites                     (2)
    broadcast, first, barrier   everybody's bytes to everybody                                 (3)

Each reply is appended to a journal. A site that is started again makes its computations again from
there, as far as **all** sites have replies, and then goes on with the hub: the draws have the same
bits as without a restart. What it sends again must be equal to before: a mask must never hide two
different numbers.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np

from starlings.errors import ProtocolError, SiteError
from starlings.network import Network
from starlings.network.crossings import Crossings
from starlings.runtime.callback import exchange_on_host
from starlings.runtime.hub.messages import STAMP, Kind, array_bytes, array_of, joined, parts_of
from starlings.runtime.peers import values
from starlings.runtime.peers.journal import Journal
from starlings.runtime.peers.journal import Kind as Record
from starlings.runtime.peers.stream import DIGEST_BYTES

Value = TypeVar("Value")


class HubCommunicator:
    """A `Communicator` between sites, each with one agent, that reach each other through a hub.

    Args:
        network: all sites and links.
        site: the number of this site.
        ask: sends a message to the hub, and returns its reply when all sites have sent theirs.
        journal: the journal of this site.
        known: how many replies all sites have in their journals.
    """

    collects = False

    def __init__(
        self,
        network: Network,
        site: int,
        ask: Callable[[bytes], bytes],
        journal: Journal,
        known: int,
    ) -> None:
        self.rank, self.size, self.ask = site, network.size, ask
        self.journal, self.known = journal, known
        crossings = Crossings.of(network, np.arange(network.size), site)
        self.outgoing, self.incoming = crossings.outgoing, crossings.incoming
        self._neighbours = crossings.neighbours
        self._past_replies = journal.past.received.get(0, deque())
        self._past_sent = journal.past.sent.get(0, deque())
        self.calls = 0
        """Calls so far, the same number at all sites that have come as far."""
        self.failure: BaseException | None = None
        """Why a round ended, which compiled code reports in words of its own."""

    def exchange(self, messages: jax.Array) -> jax.Array:
        """Send the messages (neighbour, floats), and return those of the neighbours, eq. (1)."""
        return exchange_on_host(self._exchanged, messages, len(self.incoming))

    def _exchanged(self, messages: np.ndarray) -> np.ndarray:
        try:
            sent = {j: row.tobytes() for j, row in zip(self._neighbours, messages, strict=True)}
            parts = parts_of(self._call(Kind.FORWARD, joined(sent)), self.size)
            found = b"".join(parts[j] for j in self._neighbours if j in parts)
            if set(parts) != set(self._neighbours) or len(found) != messages.nbytes:
                raise self._unusable("messages of other sites than the neighbours, or other ones")
            return np.frombuffer(found, messages.dtype).reshape(messages.shape).copy()
        except BaseException as error:
            self.failure = error
            raise

    def sum(self, part: np.ndarray) -> np.ndarray:
        """The total of arrays of one shape over the sites, the same bits at each, eq. (2)."""
        part = np.asarray(part)
        total = array_of(self._call(Kind.ADD, array_bytes(part)))
        if (total.size, total.dtype) != (part.size, part.dtype):
            raise self._unusable("a total of another size")
        return total.reshape(part.shape).copy()

    def broadcast(self, value: Value) -> Value:
        """The value of site 0, which is the same again after a restart, eq. (3)."""
        is_own = self.rank == 0
        own = self.remembered(lambda: values.encoded(value)) if is_own else b""
        return self._decoded(self.everybody(own)[0])

    def first(self, value: Value | None) -> Value | None:
        """The smallest value that is not None at any site, eq. (3)."""
        every = [self._decoded(one) for one in self.everybody(values.encoded(value))]
        return values.smallest(every)

    def everybody(self, own: bytes) -> list[bytes]:
        """The bytes of every site, in the order of the sites, at all of them, eq. (3)."""
        parts = parts_of(self._call(Kind.EVERYBODY, own), self.size)
        if len(parts) != self.size or parts[self.rank] != own:
            raise self._unusable("not the bytes of every site")
        return [parts[site] for site in range(self.size)]

    def gather(self, own: np.ndarray, axis: int) -> np.ndarray:
        """The entries of this site: every site keeps its own draws."""
        return own

    def barrier(self) -> None:
        """Return when every site has called it."""
        self.everybody(b"")

    def remembered(self, make: Callable[[], bytes]) -> bytes:
        """Bytes that are found by chance, the same again after a restart."""
        return self.journal.remembered(make)

    def _call(self, kind: Kind, contents: bytes) -> bytes:
        self.calls += 1
        message = STAMP.pack(kind, self.calls) + contents
        self._check_same(message)
        past = self._past_reply()
        if past is not None and self.calls <= self.known:
            return past
        reply = self.ask(message)
        if past is None:
            self.journal.append(Record.RECEIVED, reply, number=self.calls)
        elif reply != past:  # this site had come farther than another one
            raise SiteError(
                f"call {self.calls:,} has another reply than before the restart: the rows or the "
                "packages of some site have changed. Start the run anew at all sites."
            )
        return reply

    def _past_reply(self) -> bytes | None:
        """The reply to this call before the restart, if there was one."""
        return self.journal.body(self._past_replies.popleft()) if self._past_replies else None

    def _check_same(self, message: bytes) -> None:
        """Check a message that was made before a restart, or note its digest."""
        digest = hashlib.blake2b(message, digest_size=DIGEST_BYTES).digest()
        if not self._past_sent:
            self.journal.append(Record.SENT, digest, number=self.calls)
        elif self.journal.body(self._past_sent.popleft()) != digest:
            raise SiteError(
                f"call {self.calls:,} differs from the one before the restart: the rows, a package "
                "or the machine have changed. Restore what was there, or start the run anew at all "
                "sites."
            )

    def _decoded(self, data: bytes) -> Any:
        try:
            return values.decoded(data)
        except ProtocolError as error:
            raise self._unusable(str(error)) from None

    def _unusable(self, fault: str) -> SiteError:
        return SiteError(
            f"the reply to call {self.calls:,} cannot be used: {fault}. Ask who runs the hub and "
            "the other sites which versions of starlings they have."
        )


def num_replies(journal: Journal) -> int:
    """How many replies of the hub a journal has."""
    return len(journal.past.received.get(0, ()))
