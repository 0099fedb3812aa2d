"""Whole messages from one site to another, in order and in secret, while a connection lasts.

Inside TLS a message has its length in front, as four bytes, the highest first. A length above
every possible one is a sign without contents: PING asks for a PONG, and both say that this end is
alive. A message that is longer than allowed is refused when its length has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from starlings.errors import ProtocolError, SiteError
from starlings.runtime.peers.carriers import PIECE, Carrier, DelayedCarrier
from starlings.runtime.peers.tls import SecureChannel

LENGTH = struct.Struct(">I")
"""The length in front of a message."""
PING, PONG = 0xFFFFFFFF, 0xFFFFFFFE
"""Lengths that are signs instead."""
SMALL = 16_384
"""Bytes of a message that is sent together with others."""


class SilenceError(ConnectionError):
    """Nothing came for longer than the patience: the other end is gone, or the way is slow."""


@dataclass(frozen=True)
class Timing:
    """When links do things, in seconds."""

    heartbeat: float = 5.0
    """From one ping to the next."""
    patience: float = 20.0
    """Without a sign of life, until a connection is given up."""
    delay: float = 0.0
    """By which everything is sent too late: for tests and rehearsals."""


class Pipe:
    """Messages to and from one neighbour, as long as its carrier lasts."""

    def __init__(self, carrier: Carrier, channel: SecureChannel, way: str) -> None:
        """Make a pipe, which is to be opened.

        Args:
            carrier: what carries the bytes.
            channel: one end of TLS.
            way: how the neighbour is reached, in words.
        """
        self.carrier, self.channel, self.way = carrier, channel, way
        self.messages = Messages(0)
        self.bytes_sent = self.bytes_received = 0
        self.last_heard = self.last_sent = self._now()
        """When something came from the other end, and when something was sent to it."""
        self.round_trip: float | None = None
        """Seconds from a ping to its answer."""
        self._ping_due, self._pong_due, self._is_new = False, False, True
        self._pinged_at: float | None = None

    @property
    def neighbour(self) -> str:
        """The site at the other end, once the pipe is open."""
        return self.channel.neighbour or ""

    @property
    def has_signs(self) -> bool:
        """Whether a ping or a pong is to be sent."""
        return self._ping_due or self._pong_due

    async def open(self, patience: float) -> None:
        """Find out who is at the other end, and have it find out who is here.

        Args:
            patience: seconds within which something must come from the other end, each time.
        """
        try:
            while not self.channel.go_on():
                await self._flush()
                await self._feed(patience)
        except (SiteError, ProtocolError):
            with contextlib.suppress(OSError):
                await self._flush()  # the other end is told
            raise
        await self._flush()

    async def send(self, messages: Iterable[bytes]) -> None:
        """Send messages, and a ping and a pong that are due."""
        for piece in pieces(messages, self._signs()):
            data = self.channel.encrypted(piece)
            self.bytes_sent += len(data)
            await self.carrier.send(data)
        self.last_sent = self._now()

    async def receive(self, largest: int) -> list[bytes]:
        """The messages that have come, which may be none.

        Args:
            largest: the bytes of a message, at most.
        """
        self.messages.largest = largest
        if self._is_new:  # messages may have come together with the end of the handshake
            self._is_new = False
        else:
            await self._feed()
        return self._decrypted()

    def ping(self) -> None:
        """Have a ping sent by the next `send`."""
        self._ping_due = True

    async def close(self) -> None:
        """End the connection when everything has been sent."""
        await self.carrier.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.carrier.abort()

    async def _feed(self, patience: float | None = None) -> None:
        """Take some bytes from the carrier."""
        try:
            async with asyncio.timeout(patience):
                data = await self.carrier.receive()
        except TimeoutError:
            raise SilenceError(f"nothing came from {self.channel.expected}.") from None
        self.last_heard = self._now()
        self.bytes_received += len(data)
        self.channel.feed(data)

    async def _flush(self) -> None:
        data = self.channel.outgoing()
        if data:
            self.bytes_sent += len(data)
            await self.carrier.send(data)

    def _decrypted(self) -> list[bytes]:
        """The messages in what was fed."""
        found: list[bytes] = []
        while data := self.channel.decrypted():
            found += self.messages.feed(data)
        for sign in self.messages.signs():
            self._take(sign)
        if data == b"":
            raise ConnectionError(f"{self.neighbour} closed the connection.")
        return found

    def _take(self, sign: int) -> None:
        if sign == PING:
            self._pong_due = True
        elif self._pinged_at is not None:
            self.round_trip, self._pinged_at = self._now() - self._pinged_at, None

    def _signs(self) -> bytes:
        """The signs that are due; they are due no longer."""
        signs = b""
        if self._pong_due:
            signs += LENGTH.pack(PONG)
        if self._ping_due:
            signs += LENGTH.pack(PING)
            self._pinged_at = self._pinged_at or self._now()
        self._ping_due = self._pong_due = False
        return signs

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class Messages:
    """Messages out of the bytes in which they came, whatever the pieces."""

    def __init__(self, largest: int) -> None:
        self.largest = largest
        """Bytes of a message, at most."""
        self._parts: list[bytes] = []
        self._size, self._needed = 0, LENGTH.size
        self._signs: set[int] = set()

    def signs(self) -> set[int]:
        """The signs that came since the last call."""
        found, self._signs = self._signs, set()
        return found

    def feed(self, data: bytes) -> list[bytes]:
        """Take some bytes, and return the messages that are whole now."""
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._needed:
            return []
        whole = b"".join(self._parts) if len(self._parts) > 1 else data
        found, at = self._split(whole)
        self._parts, self._size = [whole[at:]], len(whole) - at
        return found

    def _split(self, data: bytes) -> tuple[list[bytes], int]:
        """The whole messages in some bytes, and where they end."""
        found: list[bytes] = []
        at = 0
        while True:
            self._needed = LENGTH.size
            if len(data) - at < LENGTH.size:
                return found, at
            (length,) = LENGTH.unpack_from(data, at)
            if length >= PONG:
                self._signs.add(length)
                at += LENGTH.size
                continue
            if length > self.largest:
                raise ProtocolError(
                    f"a message of {length:,} bytes was announced; {self.largest:,} are allowed."
                )
            self._needed += length
            if len(data) - at < self._needed:
                return found, at
            found.append(data[at + LENGTH.size : at + self._needed])
            at += self._needed


def pieces(messages: Iterable[bytes], signs: bytes = b"") -> Iterator[bytes | memoryview]:
    """Messages with their lengths, small ones together and large ones in pieces."""
    together = bytearray(signs)
    for message in messages:
        together += LENGTH.pack(len(message))
        if len(message) <= SMALL:
            together += message
        else:
            view = memoryview(message)
            first = PIECE - len(together) % PIECE
            yield b"".join((together, view[:first]))
            together.clear()
            for at in range(first, len(view), PIECE):
                yield view[at : at + PIECE]
        if len(together) > PIECE:
            yield bytes(together)
            together.clear()
    if together:
        yield bytes(together)


async def open_pipe(
    carrier: Carrier, channel: SecureChannel, way: str, timing: Timing, patience: float
) -> Pipe:
    """A pipe over a carrier when both ends know who the other is; the carrier ends if they do not.

    Args:
        carrier: what carries the bytes.
        channel: one end of TLS.
        way: how the neighbour is reached, in words.
        timing: the delay of what is sent.
        patience: seconds within which something must come from the other end, each time.
    """
    if timing.delay:
        carrier = DelayedCarrier(carrier, timing.delay)
    pipe = Pipe(carrier, channel, way)
    try:
        await pipe.open(patience)
    except (SiteError, ProtocolError):
        await pipe.close()  # with the reason
        raise
    except BaseException:
        pipe.abort()
        raise
    return pipe
