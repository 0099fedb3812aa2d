"""Sites with links, without programs: what tests of links share."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time

from starlings.runtime.peers.links import Links
from starlings.runtime.peers.ways import RelayWay
from tests.peers.relays import PATIENCE, SECRET, NumberedStream


class Site:
    """A site with its links and streams, which a test may stop and start again."""

    def __init__(self, identity, ways, **settings):
        self.identity, self.ways, self.settings = identity, ways, settings
        self.streams = {name: NumberedStream() for name in ways}
        self.links = None

    def __enter__(self):
        self.links = Links(self.identity, self.ways, self.streams, **self.settings)
        self.links.start()
        return self

    def __exit__(self, *_):
        self.links.close()

    def restart(self):
        self.links.close()
        self.__enter__()

    def exchange(self, message):
        for stream in self.streams.values():
            stream.send(message)
        return {name: stream.receive() for name, stream in self.streams.items()}

    def state(self, name):
        return self.links.state()[name]


def by_relay(port, **settings):
    return RelayWay(f"ws://127.0.0.1:{port}", SECRET, **settings)


def pair_of(sites, way, **settings):
    """Two sites, and a context in which they run."""
    one = Site(sites["Ashby"], {"Brook": way}, **settings)
    other = Site(sites["Brook"], {"Ashby": way}, **settings)
    return one, other


def exchanged(one, other, first, last):
    """Send numbers in both directions, and check what has arrived."""
    for number in range(first, last):
        for site in (one, other):
            next(iter(site.streams.values())).send(b"%d" % number)
    for number in range(first, last):
        for site in (one, other):
            assert next(iter(site.streams.values())).receive() == b"%d" % number


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(condition):
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never became so"
        time.sleep(0.002)


class DeafRoad:
    """A way from one socket to another that can stop without closing: half-open connections."""

    def __init__(self, port):
        self.to, self.is_open, self.tasks = port, True, []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def stop(self):
        """Pass on nothing any more of what has come so far, and new connections as before."""
        self.tasks, stopped = [], self.tasks
        self.stopped = stopped

    async def serve(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.append(task)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.to)
        try:
            ways = (
                self.copy(reader, far_writer, task),
                self.copy(far_reader, writer, task),
            )
            await asyncio.gather(*ways)
        finally:
            writer.transport.abort()
            far_writer.transport.abort()

    async def copy(self, reader, writer, task):
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if task in self.tasks:
                    writer.write(data)
                    await writer.drain()
        if task in self.tasks:
            writer.close()
