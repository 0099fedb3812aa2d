"""Connections that neighbours open to this site directly, without a relay."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping

from starlings.errors import ProtocolError, SiteError
from starlings.runtime.peers.carriers import PIECE, DirectCarrier
from starlings.runtime.peers.link import Link
from starlings.runtime.peers.pipes import Timing, open_pipe
from starlings.runtime.peers.tls import Identity, SecureChannel

logger = logging.getLogger(__name__)

MOST_STRANGERS = 64
"""Connections of which it is not known yet who is there; more are closed at once."""


class Listener:
    """One address at which neighbours are awaited. Nothing is read of who is not one of them."""

    def __init__(self, me: Identity, links: Mapping[str, Link], timing: Timing) -> None:
        """Make a listener.

        Args:
            me: this site.
            links: the links of the neighbours that may connect, by name.
            timing: when links do things.
        """
        self.me, self.links, self.timing = me, links, timing
        self._strangers: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen at an address, and return its port."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=PIECE)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
        for task in self._strangers:
            task.cancel()
        await asyncio.gather(*self._strangers, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._strangers) >= MOST_STRANGERS:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._let_in(DirectCarrier(reader, writer)))
        self._strangers.add(task)
        task.add_done_callback(self._strangers.discard)

    async def _let_in(self, carrier: DirectCarrier) -> None:
        """Find out who is there, and hand a neighbour to its link."""
        patience = self.timing.patience
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(4 * patience):
                try:
                    channel = SecureChannel(self.me, self.links, is_server=True)
                    way = "its connection to this site"
                    pipe = await open_pipe(carrier, channel, way, self.timing, patience)
                    self.links[pipe.neighbour].offer(pipe)
                except (OSError, ProtocolError, SiteError) as error:
                    carrier.abort()
                    logger.info("a connection was refused: %s", error)
                    for link in self.links.values():
                        link.refused(error)
                except BaseException:
                    carrier.abort()
                    raise
