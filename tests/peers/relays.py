"""Relays in a thread of their own, honest and otherwise, and a stream as links want it."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from starlings.errors import ProtocolError
from starlings.runtime.peers.relay import End, Relay

PATIENCE = 60.0
"""Seconds after which a test gives up."""
SECRET = bytes(range(32))


class InThread:
    """Something that lives in an event loop, in a thread of its own."""

    def __init__(self, context: Callable[[], Any]) -> None:
        self.context, self.value = context, None
        self.loop, self.end = asyncio.new_event_loop(), asyncio.Event()
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def __enter__(self) -> Any:
        self.thread.start()
        assert self.ready.wait(PATIENCE)
        return self.value

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.end.set)
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        async with self.context() as self.value:
            self.ready.set()
            await self.end.wait()


class KilledRelay(Relay):
    """A relay that dies instead of ending: all connections are gone without a word."""

    async def __aexit__(self, *_: object) -> None:
        for connection in list(self._server.all_connections):
            connection.transport.abort()
        await super().__aexit__()


class AlteringRelay(Relay):
    """A relay that does something else than passing on."""

    pieces = 0

    def alter(self, end: End, piece: bytes, number: int) -> list[tuple[End, bytes]]:
        """What is sent to whom for a piece of an end; the number counts all pieces from 1."""
        raise NotImplementedError

    async def _pass_on(self, end: End) -> None:
        while True:
            piece = await end.socket.recv()
            await end.is_told.wait()
            self.pieces += 1
            for target, data in self.alter(end, piece, self.pieces):
                await target.socket.send(data)


class NumberedStream:
    """Messages with numbers: what has not arrived is sent again on the next connection."""

    largest_frame = 3_000_000

    def __init__(self) -> None:
        self.wake: Callable[[], None] = lambda: None
        self.sent: list[bytes] = []
        self.received: list[bytes] = []
        self.taken = 0
        self.next: int | None = None
        self.changed = threading.Condition()
        self.errors: deque[BaseException] = deque()
        """What `arrived` raises next."""
        self.failure: BaseException | None = None

    def opening(self) -> bytes:
        with self.changed:
            return b"H" + struct.pack(">Q", len(self.received))

    def arrived(self, frame: bytes) -> None:
        with self.changed:
            if self.errors:
                raise self.errors.popleft()
            (number,) = struct.unpack(">Q", frame[1:9])
            if frame[:1] == b"H":
                self.next = number
            elif number > len(self.received):
                raise ProtocolError("a message is missing.")
            elif number == len(self.received):
                self.received.append(frame[9:])
            self.changed.notify_all()
        self.wake()

    def due(self) -> list[bytes]:
        with self.changed:
            if self.next is None:
                return []
            first, self.next = self.next, len(self.sent)
            return [b"M" + struct.pack(">Q", n) + self.sent[n] for n in range(first, self.next)]

    def disconnected(self) -> None:
        with self.changed:
            self.next = None

    def failed(self, error: BaseException) -> None:
        with self.changed:
            self.failure = error
            self.changed.notify_all()

    def send(self, message: bytes) -> None:
        with self.changed:
            self.sent.append(message)
        self.wake()

    def receive(self) -> bytes:
        with self.changed:
            wanted = self.taken + 1
            enough = lambda: self.failure is not None or len(self.received) >= wanted  # noqa: E731
            assert self.changed.wait_for(enough, PATIENCE), "nothing came"
            if self.failure is not None:
                raise self.failure
            self.taken = wanted
            return self.received[wanted - 1]
