"""Bytes from one site to another: through a relay, or over TCP. Who sent them is not known here.

A carrier keeps bytes in order as long as it lasts, and does not keep their pieces. It waits in
`send` where the other end is slow. When it ends, `receive` and `send` raise a `ConnectionError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any, Protocol

from starlings.runtime.peers.ways import RelayWay, rendezvous
from starlings.system.extras import import_extra

PIECE = 262_144
"""Bytes of a piece that is handed to a carrier, about, and at most four times as many."""
LARGEST_PIECE = 1_048_576
"""Bytes of a piece that is taken from a relay, at most."""
BUFFER = 1_048_576
"""Bytes that a carrier keeps for a slow network before `send` waits."""
OPENING = 15.0
"""Seconds within which a connection to a relay, a proxy or a neighbour is there."""
SLOWEST = 500
"""Bytes per second of the slowest way over which a connection to a relay opens: the request and its
answer, with the relay's own TLS a few thousand bytes, have to pass within `OPENING`. Once it is
open, the patience grows as far as a slow way needs it."""
CLOSING = 3.0
"""Seconds within which the other end says that it has everything."""
MOST_LATE = 1024
"""Pieces that a delayed carrier keeps."""
LONELY_PING = 5.0
"""Seconds from one look whether the relay is alive to the next, before the neighbour has come."""
PAIRED = "paired"
"""What a relay says when the other end is there; all else comes from the other end."""
LEFT, REPLACED = 4000, 4001
"""Why a relay closes a connection: the other end left, or this end has connected once more."""


class Carrier(Protocol):
    """A way for bytes, as long as it lasts."""

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while too many are under way."""

    async def receive(self) -> bytes:
        """The next bytes, at least one."""

    async def close(self) -> None:
        """End the connection when everything has been sent."""

    def abort(self) -> None:
        """End the connection at once."""


class RelayCarrier:
    """A websocket to a relay that has connected it to the one of the neighbour."""

    def __init__(self, socket: Any, where: str) -> None:
        self.socket, self.where = socket, where
        self._errors = import_extra("websockets.exceptions", "a relay", extra="peers")

    @classmethod
    async def open(cls, way: RelayWay, me: str, neighbour: str) -> RelayCarrier:
        """Connect to a relay; the neighbour need not be there yet."""
        client = import_extra("websockets.asyncio.client", "a relay", extra="peers")
        errors = import_extra("websockets.exceptions", "a relay", extra="peers")
        url = way.url.rstrip("/") + rendezvous(way.secret, me, neighbour)
        try:
            socket = await client.connect(
                url,
                proxy=_proxy(way),
                compression=None,
                open_timeout=OPENING,
                close_timeout=CLOSING,
                ping_interval=None,  # sites look for each other, inside TLS
                max_size=LARGEST_PIECE,
                max_queue=2,
                write_limit=BUFFER,
                user_agent_header=None,
                **_outer_tls(way),
            )
        except TimeoutError:
            raise ConnectionError(_too_slow(str(way))) from None
        except (OSError, errors.WebSocketException) as error:
            text = str(error) or type(error).__name__
            raise ConnectionError(f"{way} cannot be reached: {text}.") from None
        return cls(socket, str(way))

    async def paired(self) -> None:
        """Return when the neighbour is at the relay too."""
        while True:
            try:
                async with asyncio.timeout(LONELY_PING):
                    first = await self._received()
                break
            except TimeoutError:
                await self._check_alive()
        if first != PAIRED:
            raise ConnectionError(f"{self.where} is not a relay of starlings.")

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while too many are under way."""
        try:
            await self.socket.send(data)
        except self._errors.ConnectionClosed as error:
            raise self._ended(error) from None

    async def receive(self) -> bytes:
        """The next bytes, at least one."""
        while True:
            data = await self._received()
            if isinstance(data, str):
                raise ConnectionError(f"{self.where} said something of its own.")
            if data:
                return data

    async def close(self) -> None:
        """End the connection when everything has been sent."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await self.socket.close()
        self.abort()

    def abort(self) -> None:
        """End the connection at once."""
        self.socket.transport.abort()

    async def _received(self) -> bytes | str:
        try:
            return await self.socket.recv()
        except self._errors.ConnectionClosed as error:
            raise self._ended(error) from None

    async def _check_alive(self) -> None:
        """Have the relay answer."""
        try:
            async with asyncio.timeout(OPENING):
                await (await self.socket.ping())
        except TimeoutError:
            raise ConnectionError(f"{self.where} does not answer.") from None
        except self._errors.ConnectionClosed as error:
            raise self._ended(error) from None

    def _ended(self, error: Any) -> ConnectionError:
        """Why the connection has ended, in words."""
        code = error.rcvd.code if error.rcvd is not None else None
        if code == LEFT:
            return ConnectionError(f"the neighbour has left {self.where}, or came to it anew.")
        if code == REPLACED:
            return ConnectionError(
                "this site has connected to the relay once more. Does a second process run with "
                "the same kit?"
            )
        reason = error.rcvd.reason if error.rcvd is not None else ""
        return ConnectionError(f"{self.where} closed the connection{reason and ': '}{reason}.")


def _too_slow(way: str) -> str:
    """What is said where a connection is not there in time."""
    return (
        f"{way} did not answer within {OPENING:.0f} s: it is not there, or the way to it carries "
        f"less than about {SLOWEST} bytes per second, which is too slow."
    )


def _outer_tls(way: RelayWay) -> dict[str, Any]:
    """Settings for the TLS of the relay, around that of the sites."""
    if way.url.startswith("ws:"):
        return {}
    return {"ssl": ssl.create_default_context(cafile=way.authority)}


def _proxy(way: RelayWay) -> str | bool | None:
    """The proxy of a way, as `websockets` wants it."""
    if way.proxy is not None:
        return way.proxy or None
    return None if way.is_local else True


class DirectCarrier:
    """A TCP connection to the neighbour."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        transport: Any = writer.transport
        transport.set_write_buffer_limits(BUFFER)

    @classmethod
    async def open(cls, host: str, port: int) -> DirectCarrier:
        """Connect to an address."""
        try:
            async with asyncio.timeout(OPENING):
                return cls(*await asyncio.open_connection(host, port, limit=PIECE))
        except TimeoutError:
            raise ConnectionError(_too_slow(f"{host}:{port}")) from None
        except OSError as error:
            text = str(error)
            raise ConnectionError(f"{host}:{port} cannot be reached: {text}.") from None

    async def send(self, data: bytes) -> None:
        """Send bytes, and wait while too many are under way."""
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> bytes:
        """The next bytes, at least one."""
        data = await self._reader.read(PIECE)
        if not data:
            raise ConnectionError("the neighbour closed the connection.")
        return data

    async def close(self) -> None:
        """End the connection when everything has been sent, and the other end has it."""
        with contextlib.suppress(OSError):  # TimeoutError is one
            self._writer.write_eof()
            async with asyncio.timeout(CLOSING):
                while await self._reader.read(PIECE):
                    pass
        self.abort()

    def abort(self) -> None:
        """End the connection at once."""
        self._writer.transport.abort()


class DelayedCarrier:
    """A carrier that hands on everything some time later, in order: for tests and rehearsals."""

    def __init__(self, carrier: Carrier, delay: float) -> None:
        """Make it around a carrier.

        Args:
            carrier: what carries the bytes.
            delay: seconds by which all that is sent is late.
        """
        self._carrier, self._delay = carrier, delay
        self._late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_LATE)
        self._task = asyncio.create_task(self._hand_on())

    async def send(self, data: bytes) -> None:
        """Send bytes later, and wait while too many are under way."""
        await self._late.put((asyncio.get_running_loop().time() + self._delay, data))

    async def receive(self) -> bytes:
        """The next bytes, at least one."""
        return await self._carrier.receive()

    async def close(self) -> None:
        """End the connection when everything has been sent."""
        await self._late.join()
        self._task.cancel()
        await self._carrier.close()

    def abort(self) -> None:
        """End the connection at once."""
        self._task.cancel()
        self._carrier.abort()

    async def _hand_on(self) -> None:
        """Hand on everything when its time has come."""
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self._late.get()
            await asyncio.sleep(due - loop.time())
            with contextlib.suppress(OSError):  # `receive` says so
                await self._carrier.send(data)
            self._late.task_done()
