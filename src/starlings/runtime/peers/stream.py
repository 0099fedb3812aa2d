"""The messages of one neighbour, in both directions: numbered, in order, each used exactly once.

The messages from a site j to a site i have the numbers 0, 1, 2, ... For both directions of a link,

    made          messages that this site has made for its neighbour
    wanted        the next number that the neighbour wants; it says so when a link is opened
    durable       messages that the neighbour has on disk: they are not kept here any more    (1)
    num_arrived   messages of the neighbour that have arrived, each in its turn               (2)

and a link that is opened again goes on at `wanted`. After a restart a site makes its messages
again, in every bit the same (the journal has their digests), and sends those from `wanted` on. A
message with a number below `num_arrived` is a duplicate, and is dropped; one with a number above it
is an error of the link.

A neighbour that runs the same program is a few messages ahead, and confirms what it has within a
second. So there are limits: where too much is kept for a neighbour that does not confirm it, `send`
waits; one that sends too much ahead ends the run, and not the memory of this machine.

There is no input or output here but the journal: frames come in by `arrived`, and what is to be
sent is asked for by `due`. Any thread may call anything.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from starlings.errors import ProtocolError, SiteError
from starlings.runtime.peers.frames import HEAD, LARGEST_BODY, Frame, Kind
from starlings.runtime.peers.journal import Journal, Place
from starlings.runtime.peers.journal import Kind as Record

DIGEST_BYTES = 16
"""Bytes of the digest of a message in the journal."""
MOST_KEPT = 4 * LARGEST_BODY
"""Bytes of a neighbour's messages that are not used yet, at most, and of those that it has not
confirmed; each message counts with a head."""
PATIENCE = 0.5
"""Seconds from one look for an interrupt to the next while a message is awaited."""


class Stream:
    """The messages from and to one neighbour."""

    largest_frame = LARGEST_BODY + HEAD.size
    """Bytes of a frame, at most."""

    def __init__(self, run: bytes, me: int, neighbour: int, name: str, journal: Journal) -> None:
        """Make the stream, with what the journal has of it.

        Args:
            run: the name of the run.
            me: the number of this site.
            neighbour: the number of the neighbour.
            name: its name.
            journal: the journal of this site.
        """
        self.run, self.me, self.number, self.neighbour = run, me, neighbour, name
        self.journal = journal
        past = journal.past
        self._inbox: deque[Place | bytes] = deque(past.received.get(neighbour, ()))
        self._past_sent = past.sent.get(neighbour, deque())
        self._unused = 0
        """Bytes of the messages in memory that are not used yet."""
        self.num_arrived = len(self._inbox)
        self._on_disk, self._told = self.num_arrived, -1
        self._sizes: deque[tuple[int, int]] = deque()
        """Sizes of the journal with messages that may not be on disk yet, and their numbers."""
        self.made, self.durable = 0, past.durable.get(neighbour, 0)
        self.wanted: int | None = None
        """The next number to send; None until the neighbour has said what it wants."""
        self._unsent: deque[bytes] = deque()
        """Messages from the number `durable` on (or fewer, if they are not made yet)."""
        self._unconfirmed = 0
        """Bytes of them."""
        self._changed = threading.Condition()
        self.failure: BaseException | None = None
        self.others: Sequence[Stream] = ()
        """The streams of the other neighbours, which end with this one."""
        self.waiting_since: float | None = None
        """Since when a message is awaited, by `time.monotonic`; None if none is."""
        self.wake: Callable[[], None] = lambda: None
        """Called when there may be something to send."""
        self.on_sent: Callable[[int, bytes], None] = lambda number, body: None
        self.on_used: Callable[[int, bytes], None] = lambda number, body: None
        """Called with the number and the bytes of every message that is made, and of every one of
        the neighbour that is used; after a restart with those from before again."""
        self.explain_run: Callable[[bytes], str] = lambda run: (
            f"{self.neighbour} runs another study, or another version of it. All sites need "
            "kits with one manifest, and one folder for each run."
        )
        """What is wrong where the neighbour takes part in another run, by the name of that run."""
        self.num_used = 0
        """Messages of the neighbour that have been used."""
        journal.on_sync.append(self._synced)

    def send(self, body: bytes) -> None:
        """Make the next message to the neighbour; it is sent as soon as there is a link."""
        self._check_same(body)
        self.on_sent(self.made, body)
        with self._changed:
            if self.made >= self.durable:
                self._unsent.append(body)
                self._unconfirmed += kept(body)
            self.made += 1
        self.wake()
        if self._unconfirmed > MOST_KEPT:
            self._wait_for_receipt()

    def receive(self) -> bytes:
        """The next message of the neighbour; waits for it."""
        with self._changed:
            if isinstance(self.failure, KeyboardInterrupt):
                raise self.failure  # nobody waits until a long journal has been gone through
            if not self._inbox:
                self.waiting_since = time.monotonic()
            while not self._inbox:
                if self.failure is not None:
                    raise self.failure
                self._changed.wait(PATIENCE)
            self.waiting_since = None
            message = self._inbox.popleft()
            self._unused -= kept(message) if isinstance(message, bytes) else 0
        body = self.journal.body(message) if isinstance(message, Place) else message
        self.on_used(self.num_used, body)
        self.num_used += 1
        return body

    def _wait_for_receipt(self) -> None:
        """Wait while too much is kept for the neighbour, as for one with a slow disk."""
        with self._changed:
            self.waiting_since = time.monotonic()
            while self._unconfirmed > MOST_KEPT:
                if self.failure is not None:
                    raise self.failure
                self._changed.wait(PATIENCE)
            self.waiting_since = None

    def opening(self) -> bytes:
        """The first frame on a new connection: which message is wanted next."""
        with self._changed:
            return self._frame(Kind.HELLO, self.num_arrived)

    def arrived(self, data: bytes) -> None:
        """Take a frame that has arrived.

        Raises a `ProtocolError` where the connection is to be closed and opened again, and a
        `SiteError` where that would not help.
        """
        frame = Frame.decoded(data)
        if frame.run != self.run:
            raise SiteError(self.explain_run(frame.run))
        if frame.sender != self.number:
            raise ProtocolError(f"a frame of site {frame.sender} came from {self.neighbour}.")
        with self._changed:
            self._check_possible(frame)
            self._confirm(frame.durable)
            if frame.kind == Kind.HELLO:
                self._go_on_at(frame.number)
            elif frame.kind == Kind.MESSAGE:
                self._keep(frame)
        self.wake()

    def due(self) -> list[bytes]:
        """The frames to be sent now, each of them once on a connection."""
        with self._changed:
            if self.wanted is None:
                return []
            frames = []
            while self.wanted < self.made:
                body = self._unsent[self.wanted - self._first_unsent]
                frames.append(self._frame(Kind.MESSAGE, self.wanted, body))
                self.wanted += 1
            if not frames and self._on_disk > self._told:
                frames.append(self._frame(Kind.RECEIPT, 0))
            return frames

    def disconnected(self) -> None:
        """Say that the connection is gone."""
        with self._changed:
            self.wanted = None

    def failed(self, error: BaseException) -> None:
        """End everything that waits for this neighbour, with an error."""
        with self._changed:
            self.failure = self.failure or error
            self._changed.notify_all()
        for other in self.others:
            if other.failure is None:
                other.failed(error)

    @property
    def is_delivered(self) -> bool:
        """Whether the neighbour has all messages on disk that were made for it."""
        with self._changed:
            return self.durable >= self.made

    @property
    def _first_unsent(self) -> int:
        """The number of the first message in `_unsent`."""
        return self.made - len(self._unsent)

    def _frame(self, kind: Kind, number: int, body: bytes = b"") -> bytes:
        self._told = self._on_disk
        return Frame(kind, self.run, self.me, number, self._on_disk, body).encoded()

    def _check_possible(self, frame: Frame) -> None:
        """Refuse a frame that confirms what was not sent, or comes before the first one."""
        sent = frame.number if frame.kind == Kind.HELLO else self.wanted
        if sent is None or frame.durable > sent:
            raise ProtocolError(
                f"{self.neighbour} confirmed {frame.durable:,} messages, and "
                f"{'none' if sent is None else f'{sent:,}'} were sent on this connection or before."
            )

    def _confirm(self, durable: int) -> None:
        """Keep no longer what the neighbour has on disk, eq. (1)."""
        self.durable = max(self.durable, durable)
        while self._unsent and self._first_unsent < self.durable:
            self._unconfirmed -= kept(self._unsent.popleft())
        self._changed.notify_all()

    def _go_on_at(self, number: int) -> None:
        """Send from a message on that the neighbour wants."""
        if number < self.durable:
            raise SiteError(
                f"{self.neighbour} has lost messages that it had confirmed: it wants number "
                f"{number:,} and had {self.durable:,}. Its journal is damaged or was removed; put "
                "it back, or start the run anew at all sites."
            )
        self.wanted = number

    def _keep(self, frame: Frame) -> None:
        """Keep a message of the neighbour, if it is the next one, eq. (2)."""
        if frame.number > self.num_arrived:
            raise ProtocolError(
                f"{self.neighbour} sent message {frame.number:,}, and {self.num_arrived:,} is next."
            )
        if frame.number < self.num_arrived:
            return  # a duplicate
        if self._unused > MOST_KEPT:
            raise SiteError(
                f"{self.neighbour} sends far ahead: {len(self._inbox):,} of its messages are not "
                "used yet. It does not run the same program; ask who runs it."
            )
        fields = (self.number, frame.number, self.durable)
        size = self.journal.append(Record.RECEIVED, frame.body, *fields)
        self.num_arrived += 1
        self._sizes.append((size, self.num_arrived))
        self._inbox.append(frame.body)
        self._unused += kept(frame.body)
        self._changed.notify_all()

    def _synced(self) -> None:
        """Note what the journal has on disk now."""
        with self._changed:
            while self._sizes and self._sizes[0][0] <= self.journal.synced:
                self._on_disk = self._sizes.popleft()[1]
        self.wake()

    def _check_same(self, body: bytes) -> None:
        """Check a message that was made before a restart, or note its digest."""
        digest = hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()
        if not self._past_sent:
            self.journal.append(Record.SENT, digest, self.number, self.made, self.durable)
        elif self.journal.body(self._past_sent.popleft()) != digest:
            raise SiteError(
                f"message {self.made:,} to {self.neighbour} differs from the one before the "
                "restart: the rows, a package or the machine have changed. Restore what was "
                "there, or start the run anew at all sites."
            )


def kept(body: bytes) -> int:
    """What a message counts for as long as it is kept."""
    return len(body) + HEAD.size
