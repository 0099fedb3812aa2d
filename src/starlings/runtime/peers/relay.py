"""The relay: it connects two sites that both connect to it, and can neither read nor alter.

A site connects by websocket to /TOKEN/SIDE, where only the sites of a study can know the token, and
the sides are 0 and 1. When both are there, each is told so by one text, and from then on what one
sends goes to the other, piece by piece: while one is slow, nothing is read from the other. All is
encrypted from site to site. Nothing is kept: after a restart the sites connect again.

A second connection to the same side takes the place of the first, so that a site that has been
started again need not wait until its old connection is found dead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import signal
import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlings.runtime.peers.carriers import CLOSING, LEFT, PAIRED, REPLACED
from starlings.runtime.peers.limits import Limits, Usage
from starlings.system.extras import import_extra

logger = logging.getLogger(__name__)

PATH = re.compile(r"/([0-9a-f]{64})/([01])", re.ASCII)
BUFFER = 262_144
"""Bytes that are kept for a slow site before nothing more is read from the other."""
DEAD = 60
"""Seconds after which a connection without an answer is closed by the system."""
TRY_LATER, MISUSE = 1013, 1008
"""Why a connection is closed (RFC 6455): it waited too long; it sent what does not belong there."""


class End:
    """One of two connections that belong together."""

    def __init__(self, socket: Any, token: str, side: str) -> None:
        self.socket = socket
        self.place, self.other_place = (token, side), (token, "10"[int(side)])
        self.other: End | None = None
        self.is_told = asyncio.Event()
        """Set when both ends have been told that they may send."""
        self.timer: asyncio.Timeout | None = None
        """Ends an end whose other end does not come."""

    @property
    def is_late(self) -> bool:
        """Whether it has just waited too long."""
        return self.timer is not None and self.timer.expired()


class Relay:
    """A relay, as a context of asyncio."""

    def __init__(
        self,
        host: str,
        port: int,
        certificate: Path | None = None,
        key: Path | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Make a relay.

        Args:
            host: the address at which it listens, such as "0.0.0.0".
            port: the port; 0 takes a free one.
            certificate: its own certificate and those above it (PEM); None for a relay without TLS,
                on this machine or behind a server that has it.
            key: the private key of the certificate (PEM).
            limits: what the relay allows.
        """
        self.host, self.port = host, port
        self.limits = limits or Limits()
        self._tls = _server_tls(certificate, key) if certificate else None
        self._usage = Usage(self.limits)
        self._ends: dict[tuple[str, str], End] = {}
        self._partings: set[asyncio.Task[None]] = set()
        self._server: Any = None

    async def __aenter__(self) -> Relay:
        server = import_extra("websockets.asyncio.server", "a relay", extra="peers")
        self._errors = import_extra("websockets.exceptions", "a relay", extra="peers")
        quiet = logging.getLogger(f"{__name__}.websockets")
        quiet.setLevel(logging.CRITICAL)  # strangers who send rubbish are no news
        self._server = await server.serve(
            self._serve_one,
            self.host,
            self.port,
            ssl=self._tls,
            process_request=self._refuse,
            compression=None,
            ping_interval=None,  # sites look for each other, inside their own TLS
            close_timeout=CLOSING,
            max_size=self.limits.piece,
            max_queue=2,
            write_limit=BUFFER,
            server_header=None,
            logger=quiet,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        logger.info("the relay listens at %s, port %d", self.host, self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()
        await asyncio.gather(*self._partings, return_exceptions=True)
        logger.info("the relay has ended")

    def _refuse(self, connection: Any, request: Any) -> Any:
        """A refusal of a connection before it is one, or None."""
        address = _address(connection)
        if request.path == "/":
            return connection.respond(HTTPStatus.OK, "A relay of starlings.\n")
        if not PATH.fullmatch(request.path):
            return connection.respond(HTTPStatus.NOT_FOUND, "There is nothing here.\n")
        reason = self._usage.refusal(address, asyncio.get_running_loop().time())
        if not reason:
            return None
        logger.warning("refused: %s", reason)
        return connection.respond(HTTPStatus.TOO_MANY_REQUESTS, f"{reason}.\n")

    async def _serve_one(self, connection: Any) -> None:
        """Serve a connection until it or its other end leaves."""
        found = PATH.fullmatch(connection.request.path)
        assert found is not None
        address = _address(connection)
        self._usage.connections[address] += 1
        self._usage.waiting += 1
        _notice_death(connection)
        end = End(connection, found[1], found[2])
        logger.info("%s has come", address)
        try:
            with contextlib.suppress(self._errors.ConnectionClosed):
                await self._come(end)
                await self._pass_on(end)
        finally:
            self._leave(end, LEFT)
            self._usage.left(address)
            logger.info("%s has left", address)

    async def _come(self, end: End) -> None:
        """Take the place of an end, and tell both if the other is there."""
        before = self._ends.get(end.place)
        if before is not None:
            self._leave(before, REPLACED)
        self._ends[end.place] = end
        other = self._ends.get(end.other_place)
        if other is None or other.other is not None or other.is_late:
            return
        end.other, other.other = other, end
        self._usage.waiting -= 2
        if other.timer is not None:
            other.timer.reschedule(None)  # it may wait as long as it wants
        logger.info("two sites have met")
        await asyncio.gather(other.socket.send(PAIRED), end.socket.send(PAIRED))
        end.is_told.set()
        other.is_told.set()

    async def _pass_on(self, end: End) -> None:
        """Pass on what comes from an end; nothing may come before both have been told."""
        try:
            async with asyncio.timeout(self.limits.lonely if end.other is None else None) as timer:
                end.timer = timer
                piece = await end.socket.recv()
        except TimeoutError:
            return await self._end(end, TRY_LATER)
        if end.other is None:
            return await self._end(end, MISUSE)
        await end.is_told.wait()
        send, receive = end.other.socket.send, end.socket.recv
        while not isinstance(piece, str):
            await send(piece)
            piece = await receive()
        return await self._end(end, MISUSE)

    async def _end(self, end: End, code: int) -> None:
        """Have an end leave, and wait until it has."""
        self._leave(end, code)
        await end.socket.wait_closed()

    def _leave(self, end: End, code: int) -> None:
        """Take an end out of its place, and have its other end leave too."""
        if self._ends.get(end.place) is end:
            del self._ends[end.place]
            if end.other is None:
                self._usage.waiting -= 1
        self._part(end, code)
        if end.other is not None and self._ends.get(end.other.place) is end.other:
            self._leave(end.other, LEFT)

    def _part(self, end: End, code: int) -> None:
        """Close a connection while others are served."""
        task = asyncio.ensure_future(self._close(end, code))
        self._partings.add(task)
        task.add_done_callback(self._partings.discard)

    async def _close(self, end: End, code: int) -> None:
        """Close a connection, at once if it does not answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING):
                await end.socket.close(code)
        end.socket.transport.abort()
        end.is_told.set()


async def serve(
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    limits: Limits | None = None,
    ready: Callable[[int], None] = lambda port: None,
) -> None:
    """Run a relay until it is cancelled.

    Args:
        host: the address at which it listens, such as "0.0.0.0".
        port: the port; 0 takes a free one.
        certificate: its own certificate and those above it (PEM); None for a relay without TLS.
        key: the private key of the certificate (PEM).
        limits: what the relay allows.
        ready: called with the port when the relay listens.
    """
    async with Relay(host, port, certificate, key, limits) as relay:
        ready(relay.port)
        await asyncio.Event().wait()


def run(
    host: str,
    port: int,
    certificate: Path | None = None,
    key: Path | None = None,
    limits: Limits | None = None,
    ready: Callable[[int], None] = lambda port: None,
) -> None:
    """Run a relay until Ctrl-C or SIGTERM. The arguments are those of `serve`."""

    async def until_signal() -> None:
        task = asyncio.ensure_future(serve(host, port, certificate, key, limits, ready))
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows; other threads
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(until_signal())


def _server_tls(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """TLS of the relay's own, around that of the sites."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    return context


def _address(connection: Any) -> str:
    found = connection.remote_address
    return str(found[0]) if found else "unknown"


def _notice_death(connection: Any) -> None:
    """Have the system close the connection when its machine is gone."""
    raw = connection.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4}
    options["TCP_USER_TIMEOUT"] = 1000 * DEAD  # milliseconds
    for name, value in options.items():
        if hasattr(socket, name):  # not all systems have them
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
