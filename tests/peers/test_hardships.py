"""Ways that are slow beyond reason, sites that are frozen, and frames without number."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import resource
import threading
import time
import tracemalloc
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import starlings as st
from starlings.errors import ProtocolError, SiteError
from starlings.runtime.peers import carriers
from starlings.runtime.peers.frames import HEAD, Frame, Kind
from starlings.runtime.peers.journal import Journal
from starlings.runtime.peers.relay import Relay
from starlings.runtime.peers.stream import Stream
from starlings.runtime.peers.ways import DirectWay
from tests.peers.certificates import Authority
from tests.peers.flock import RUN, Flock
from tests.peers.linked_sites import DeafRoad, Site, by_relay, exchanged, free_port, until
from tests.peers.relays import InThread


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return {name: authority.site(name) for name in ("Ashby", "Brook")}


class Trickle(DeafRoad):
    """A way that passes on a few bytes at a time, with a pause after each."""

    def __init__(self, port, size, pause):
        super().__init__(port)
        self.size, self.pause = size, pause
        self.pieces = 0

    async def copy(self, reader, writer, task):
        with contextlib.suppress(OSError):
            while data := await reader.read(self.size):
                writer.write(data)
                await writer.drain()
                self.pieces += 1
                await asyncio.sleep(self.pause)
        writer.close()


@pytest.mark.slow
def test_a_trickle_of_bytes_is_no_silence(sites):
    """Any byte is a sign of life: messages that take longer than the patience arrive."""
    settings = {"heartbeat": 0.5, "patience": 2.0}
    message = bytes(range(256)) * 64
    port = free_port()
    one = Site(sites["Ashby"], {"Brook": DirectWay(listens=("127.0.0.1", port))}, **settings)
    with one, InThread(partial(Trickle, port, size=4, pause=0.001)) as road:
        way = DirectWay(connects=("127.0.0.1", road.port))
        with Site(sites["Brook"], {"Ashby": way}, **settings) as other:
            began = time.monotonic()
            one.streams["Brook"].send(message)
            assert other.streams["Ashby"].receive() == message
            assert time.monotonic() - began > settings["patience"]
            exchanged(other, one, 0, 1)
            assert other.state("Ashby").connections == 1


@pytest.mark.slow
def test_patience_grows_until_a_slow_relay_has_passed_on_a_message(sites):
    """A piece for a relay arrives as a whole or not at all, also where that takes long."""
    settings = {"heartbeat": 0.05, "patience": 0.25}
    with (
        InThread(lambda: Relay("127.0.0.1", 0)) as relay,
        InThread(partial(Trickle, relay.port, size=2000, pause=0.02)) as road,
    ):
        one = Site(sites["Ashby"], {"Brook": by_relay(road.port)}, **settings)
        other = Site(sites["Brook"], {"Ashby": by_relay(relay.port)}, **settings)
        with one, other:
            for size in (100_000, 10, 100_000):
                one.streams["Brook"].send(bytes(size))
            assert [len(other.streams["Ashby"].receive()) for _ in range(3)] == [
                100_000,
                10,
                100_000,
            ]
            assert other.state("Ashby").connections > 1


@pytest.mark.parametrize("is_direct", [False, True], ids=["relay", "direct"])
def test_a_way_that_is_too_slow_to_open_is_said_to_be_that(sites, monkeypatch, is_direct):
    """One byte a second: neither a relay nor a site that takes no connections has answered."""
    monkeypatch.setattr(carriers, "OPENING", 0.3)
    if is_direct:
        monkeypatch.setattr(asyncio, "open_connection", never)
    with (
        InThread(lambda: Relay("127.0.0.1", 0)) as relay,
        InThread(partial(Trickle, relay.port, size=1, pause=1.0)) as road,
    ):
        direct = DirectWay(connects=("127.0.0.1", road.port))
        way = direct if is_direct else by_relay(road.port)
        with Site(sites["Ashby"], {"Brook": way}) as one:
            until(lambda: one.state("Brook").last_error)
            said = one.state("Brook").last_error
            assert f"{road.port} did not answer within 0 s" in said
            assert "less than about 500 bytes per second, which is too slow" in said
            assert one.links.failure is None  # it is tried again


@pytest.mark.slow
def test_the_slowest_way_that_is_said_to_be_enough_is_enough(sites):
    """The handshake of two sites takes longer than their patience there, which grows."""
    pause = 0.02
    with (
        InThread(lambda: Relay("127.0.0.1", 0)) as relay,
        InThread(
            partial(Trickle, relay.port, size=round(carriers.SLOWEST * pause), pause=pause)
        ) as road,
    ):
        settings = {"heartbeat": 0.5, "patience": 2.0}
        one = Site(sites["Ashby"], {"Brook": by_relay(road.port)}, **settings)
        other = Site(sites["Brook"], {"Ashby": by_relay(relay.port)}, **settings)
        with one, other:
            began = time.monotonic()
            exchanged(one, other, 0, 1)
            assert time.monotonic() - began > settings["patience"]


async def never(*_, **__):
    await asyncio.Event().wait()


class Jitter(DeafRoad):
    """A way that passes on pieces of random sizes, each after a random time."""

    random = np.random.default_rng(0)

    async def copy(self, reader, writer, task):
        with contextlib.suppress(OSError):
            while data := await reader.read(int(self.random.integers(1, 3000))):
                await asyncio.sleep(0.004 * self.random.exponential())
                writer.write(data)
                await writer.drain()
        writer.close()


def test_jitter_and_pieces_of_any_size_change_nothing(sites):
    with (
        InThread(lambda: Relay("127.0.0.1", 0)) as relay,
        InThread(partial(Jitter, relay.port)) as road,
    ):
        one = Site(sites["Ashby"], {"Brook": by_relay(road.port)})
        other = Site(sites["Brook"], {"Ashby": by_relay(relay.port)})
        with one, other:
            exchanged(one, other, 0, 60)
            for number in range(60, 80):
                exchanged(one, other, number, number + 1)
            assert one.state("Brook").connections == 1


@pytest.mark.slow
def test_a_site_that_is_ten_times_slower_changes_no_bit(tmp_path):
    def program(pause, communicator):
        total = np.ones(3) * communicator.rank
        for _ in range(30):
            threading.Event().wait(10 * pause if communicator.rank == 1 else pause)
            total = communicator.sum(np.sin(total + communicator.rank))
        return total.tobytes()

    found = []
    for pause in (0.0, 0.002):
        folder = tmp_path / str(pause)
        folder.mkdir()
        found.append(Flock(st.Network.ring(4), partial(program, pause), folder).run())
    assert found[0] == found[1]


FRAMES = int(os.environ.get("STARLINGS_FUZZED_FRAMES", "100_000"))
"""Frames of strangers; a million of them take a minute."""
MOST_MEMORY = 50e6
"""Bytes that they may take, above those of a site that has had none."""


def memory():
    """Bytes of this process that are in memory now."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.parametrize("leak", [False, True], ids=["right", "leaking"])
def test_frames_of_strangers_take_no_memory(tmp_path, leak):
    """Random bytes, and right frames with some bytes changed: an error of the link each time.

    The same measurement of a stream that keeps whatever comes shows that it would be seen.
    """
    journal = Journal(tmp_path / "journal", RUN)
    kept, stream = [], Stream(RUN, 0, 1, "Brook", journal)
    outcomes, frames = Counter(), fuzzed(np.random.default_rng(0))
    for frame in itertools.islice(frames, 1000):  # what is made once is made
        outcomes[outcome(stream, frame)] += 1
    resident = memory()
    tracemalloc.start()
    for number, frame in enumerate(itertools.islice(frames, FRAMES)):
        outcomes[outcome(stream, frame)] += 1
        if leak:
            kept.append(frame * (2_000_000 // FRAMES))
        if number % 1000 == 0 and stream.num_arrived > stream.num_used:
            stream.receive()
    grown, _ = tracemalloc.get_traced_memory()  # of Python; that of the process may be used again
    tracemalloc.stop()
    journal.close()
    assert outcomes.total() == FRAMES + 1000
    assert min(outcomes[kind] for kind in (ProtocolError, SiteError, None)) > FRAMES / 1000
    assert (grown > MOST_MEMORY) == leak
    assert leak or memory() - resident < MOST_MEMORY


def fuzzed(random):
    """Frames without end: random bytes, and right frames in which a byte was changed."""
    whole = [
        Frame(Kind.HELLO, RUN, 1, 0, 0).encoded(),
        Frame(Kind.MESSAGE, RUN, 1, 0, 0, bytes(40)).encoded(),
        Frame(Kind.RECEIPT, RUN, 1, 0, 0).encoded(),
    ]
    while True:
        place, value, length, kind = random.integers(0, [HEAD.size, 256, 200, 4])
        if kind == 3:
            yield random.bytes(int(length))
        else:
            changed = bytearray(whole[kind])
            changed[place] ^= value
            yield bytes(changed)


def outcome(stream, frame):
    """The error of a frame, which must be one of ours; None for one that is in order."""
    try:
        stream.arrived(frame)
    except (ProtocolError, SiteError) as error:
        return type(error)
    return None
