"""Links to all neighbours: one thread that keeps a connection to each, as long as the run lasts.

A link takes frames from the stream of its neighbour and hands it those that arrive; numbers,
duplicates and what is sent again are the business of the stream. See `link` for what goes wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence

from starlings.errors import SiteError
from starlings.runtime.peers.link import Link
from starlings.runtime.peers.link_parts import Messages
from starlings.runtime.peers.link_state import LinkState
from starlings.runtime.peers.listening import Listener
from starlings.runtime.peers.pipes import Timing
from starlings.runtime.peers.tls import Identity, SecureChannel
from starlings.runtime.peers.ways import DirectWay, Way

logger = logging.getLogger(__name__)

FLUSHING = 5.0
"""Seconds within which `close` sends what is due."""

ROUNDS_OF_ENDING = 5
"""Rounds of the loop within which connections that were ended have let go of their sockets."""


class Links:
    """Connections to all neighbours, from `start` to `close`."""

    def __init__(
        self,
        me: Identity,
        ways: Mapping[str, Way | Sequence[Way]],
        streams: Mapping[str, Messages],
        *,
        delay: float = 0.0,
        heartbeat: float = 5.0,
        patience: float = 20.0,
    ) -> None:
        """Make the links of a site.

        Args:
            me: this site.
            ways: how each neighbour is reached, by name: one way, or several to be tried in turn.
            streams: the messages from and to each neighbour, by name.
            delay: seconds by which everything is sent too late, for tests and rehearsals.
            heartbeat: seconds from one sign of life that is sent to the next.
            patience: seconds without a sign of life after which a connection is opened again.

        Raises:
            ValueError: a neighbour has no way.
            SiteError: the files of this site cannot be used.
        """
        if set(ways) != set(streams):
            missing = sorted(set(ways) ^ set(streams))
            raise ValueError(
                f"`ways` and `streams` must name the same sites, got only one for {missing}."
            )
        self.me, self.streams = me, dict(streams)
        self.ways: dict[str, Sequence[Way]] = {
            name: way if isinstance(way, Sequence) else (way,) for name, way in ways.items()
        }
        self.timing = Timing(heartbeat=heartbeat, patience=patience, delay=delay)
        self.ports: dict[tuple[str, int], int] = {}
        """The port of every address where neighbours are awaited, once the links are started."""
        self._links: dict[str, Link] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._error: OSError | None = None
        SecureChannel(me, [], is_server=True)  # the files are read

    @property
    def failure(self) -> SiteError | None:
        """What has ended a link for good, or None."""
        failures = (link.failure for link in self._links.values())
        return next((failure for failure in failures if failure is not None), None)

    def start(self) -> None:
        """Begin to connect. Raises an `OSError` if this site cannot listen where it should."""
        if self._thread is not None:
            raise RuntimeError("the links were started before.")
        self._thread = threading.Thread(target=self._run, name="starlings links", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def close(self) -> None:
        """Send what is due, for some seconds at most, and end all connections."""
        if self._thread is None or self._loop is None or self._closing is None:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def state(self) -> dict[str, LinkState]:
        """How each link is, by neighbour."""
        return {name: link.state() for name, link in self._links.items()}

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            logger.exception("the links ended")
            failure = SiteError(f"the links to the neighbours ended: {error!r}.")
            for stream in self.streams.values():
                stream.failed(failure)
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        self._links = {
            name: Link(self.me, name, self.ways[name], stream, self.timing)
            for name, stream in self.streams.items()
        }
        listeners: list[Listener] = []
        try:
            await self._listen(listeners)
        except OSError as error:
            self._error = error
        else:
            self._started.set()
            await self._keep()
        finally:
            for listener in listeners:
                await listener.close()

    async def _listen(self, listeners: list[Listener]) -> None:
        """Listen at every address where a neighbour is awaited."""
        addresses = {
            way.listens: name
            for name, ways in self.ways.items()
            for way in ways
            if isinstance(way, DirectWay) and way.listens is not None
        }
        for address in addresses:
            listener = Listener(self.me, self._awaited(address), self.timing)
            listeners.append(listener)
            self.ports[address] = await listener.start(*address)

    def _awaited(self, address: tuple[str, int]) -> dict[str, Link]:
        """The links of the neighbours that are awaited at an address."""
        return {
            name: self._links[name]
            for name, ways in self.ways.items()
            if any(isinstance(way, DirectWay) and way.listens == address for way in ways)
        }

    async def _keep(self) -> None:
        """Keep all links until `close`, and then until what is due has been sent."""
        assert self._closing is not None
        tasks = [asyncio.ensure_future(link.keep()) for link in self._links.values()]
        await self._closing.wait()
        for link in self._links.values():
            link.end()
        if tasks:
            await asyncio.wait(tasks, timeout=FLUSHING)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(ROUNDS_OF_ENDING):
            await asyncio.sleep(0)
