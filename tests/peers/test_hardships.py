"""Ways that are slow beyond reason, sites that are frozen, and frames without number."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import threading
import time
from functools import partial

import numpy as np
import pytest

import starlings as st
from starlings.errors import ProtocolError, SiteError
from starlings.runtime.peers.frames import HEAD, Frame, Kind
from starlings.runtime.peers.journal import Journal
from starlings.runtime.peers.relay import Relay
from starlings.runtime.peers.stream import Stream
from starlings.runtime.peers.ways import DirectWay
from tests.peers.certificates import Authority
from tests.peers.flock import RUN, Flock
from tests.peers.linked_sites import DeafRoad, Site, by_relay, exchanged, free_port
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


@pytest.mark.slow
def test_a_million_frames_of_strangers_take_no_memory(tmp_path):
    """Random bytes, and right frames with some bytes changed: an error of the link each time."""
    random = np.random.default_rng(0)
    journal = Journal(tmp_path / "journal", RUN)
    stream = Stream(RUN, 0, 1, "Brook", journal)
    whole = [
        Frame(Kind.HELLO, RUN, 1, 0, 0).encoded(),
        Frame(Kind.MESSAGE, RUN, 1, 0, 0, bytes(40)).encoded(),
        Frame(Kind.RECEIPT, RUN, 1, 0, 0).encoded(),
    ]
    outcomes = {ProtocolError: 0, SiteError: 0, None: 0}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        places, values = random.integers(0, HEAD.size, 10_000), random.bytes(10_000)
        lengths, kinds = random.integers(0, 200, 10_000), random.integers(0, 4, 10_000)
        for place, value, length, kind in zip(places, values, lengths, kinds, strict=True):
            if kind == 3:
                frame = random.bytes(int(length))
            else:
                changed = bytearray(whole[kind])
                changed[place] ^= value
                frame = bytes(changed)
            outcomes[outcome(stream, frame)] += 1
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    journal.close()
    assert sum(outcomes.values()) == 1_000_000
    assert min(outcomes.values()) > 1000
    assert after - before < 50 * 1024  # kilobytes


def outcome(stream, frame):
    """The error of a frame, which must be one of ours; None for one that is in order."""
    try:
        stream.arrived(frame)
    except (ProtocolError, SiteError) as error:
        return type(error)
    return None
