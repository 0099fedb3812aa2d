"""The relay: who meets whom, limits, and that nothing is kept."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import signal
import subprocess
import sys

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from starlings.runtime.peers.carriers import LEFT, PAIRED, REPLACED, RelayCarrier
from starlings.runtime.peers.limits import MOST_ADDRESSES, Limits, Usage
from starlings.runtime.peers.relay import MISUSE, TRY_LATER, Relay
from starlings.runtime.peers.ways import RelayWay
from tests.peers.certificates import Authority
from tests.peers.relays import PATIENCE, SECRET

TOKEN, OTHER = "ab" * 32, "cd" * 32


def with_relay(test, **limits):
    """Run a test with a relay, which must be empty at the end."""

    async def run():
        async with asyncio.timeout(PATIENCE):
            async with Relay("127.0.0.1", 0, limits=Limits(**limits)) as relay:
                await test(relay)
            assert not relay._ends
            assert not relay._usage.waiting
            assert not relay._usage.connections

    asyncio.run(run())


async def come(relay, side, token=TOKEN, **settings):
    return await connect(
        f"ws://127.0.0.1:{relay.port}/{token}/{side}", proxy=None, compression=None, **settings
    )


async def pair(relay, token=TOKEN):
    ends = [await come(relay, 0, token), await come(relay, 1, token)]
    assert [await end.recv() for end in ends] == [PAIRED, PAIRED]
    return ends


async def code_of(end):
    """Why the relay closed a connection."""
    with contextlib.suppress(ConnectionClosed):
        while True:
            await end.recv()
    return end.close_code


def test_pieces_go_to_the_other_end_only():
    async def test(relay):
        one, other = await pair(relay)
        third, fourth = await pair(relay, OTHER)
        for number in range(100):
            await one.send(b"to other %d" % number)
            await third.send(b"to fourth %d" % number)
            await other.send(b"to one %d" % number)
        for number in range(100):
            assert await other.recv() == b"to other %d" % number
            assert await fourth.recv() == b"to fourth %d" % number
            assert await one.recv() == b"to one %d" % number
        await one.close()
        assert await code_of(other) == LEFT
        await third.send(b"still here")
        assert await fourth.recv() == b"still here"

    with_relay(test)


def test_the_last_pieces_of_an_end_that_leaves_arrive():
    async def test(relay):
        one, other = await pair(relay)
        for _ in range(20):
            await one.send(bytes(100_000))
        closing = asyncio.ensure_future(one.close())
        assert [len(await other.recv()) for _ in range(20)] == [100_000] * 20
        assert await code_of(other) == LEFT
        await closing

    with_relay(test)


def test_a_second_connection_takes_the_place_of_the_first():
    async def test(relay):
        one, other = await pair(relay)
        again = await come(relay, 0)
        assert await code_of(one) == REPLACED
        assert await code_of(other) == LEFT
        other = await come(relay, 1)
        assert await again.recv() == PAIRED
        assert await other.recv() == PAIRED
        await again.send(b"new")
        assert await other.recv() == b"new"
        lonely = await come(relay, 0, OTHER)
        await come(relay, 0, OTHER)
        assert await code_of(lonely) == REPLACED

    with_relay(test)


def test_an_end_whose_other_does_not_come_is_closed():
    async def test(relay):
        assert await code_of(await come(relay, 0)) == TRY_LATER

    with_relay(test, lonely=0.05)


def test_ends_that_have_met_may_be_silent_for_ever():
    async def test(relay):
        await come(relay, 0, OTHER)
        one, other = await pair(relay)
        await one.send(b"first")
        assert await other.recv() == b"first"
        deadlines = {end.place: end.timer.when() for end in relay._ends.values()}
        assert [place for place, when in deadlines.items() if when] == [(OTHER, "0")]

    with_relay(test)


def test_what_does_not_belong_there_ends_a_connection():
    async def test(relay):
        early = await come(relay, 0)
        await early.send(b"before the other end is there")
        assert await code_of(early) == MISUSE
        one, other = await pair(relay)
        await one.send("a text")
        assert await code_of(one) == MISUSE
        assert await code_of(other) == LEFT
        one, other = await pair(relay)
        await one.send(bytes(2000))
        assert await code_of(one) == 1009
        assert await code_of(other) == LEFT

    with_relay(test, piece=1000)


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"waiting": 2}, "wait for their other end"),
        ({"per_address": 2}, "connections from 127.0.0.1"),
        ({"connections": 2}, "more than 2 connections"),
        ({"burst": 2, "rate": 1e-9}, "new connections per second"),
    ],
)
def test_limits(limits, text):
    async def test(relay):
        ends = [await come(relay, 0), await come(relay, 0, OTHER)]
        with pytest.raises(InvalidStatus) as refused:
            await come(relay, 0, "ef" * 32)
        assert refused.value.response.status_code == 429
        assert text in refused.value.response.body.decode()
        await asyncio.gather(*(end.close() for end in ends))

    with_relay(test, **limits)


def test_addresses_earn_new_connections_with_time():
    usage = Usage(Limits(burst=2, rate=1.0))
    found = [not usage.refusal("a", now) for now in (0, 0, 0, 0.5, 1.0, 1.5, 3.6, 3.6, 3.6)]
    assert found == [True, True, False, False, True, False, True, True, False]
    for number in range(2 * MOST_ADDRESSES):
        usage.refusal(str(number), 10.0 + number)
    assert len(usage._credit) <= MOST_ADDRESSES


@pytest.mark.parametrize("path", ["/x", "/" + TOKEN, f"/{TOKEN}/2", f"/{TOKEN.upper()}/0", "//"])
def test_there_is_nothing_else_at_a_relay(path):
    async def test(relay):
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"ws://127.0.0.1:{relay.port}{path}", proxy=None)
        assert refused.value.response.status_code == 404

    with_relay(test)


def test_rubbish_leaves_a_relay_alive():
    async def test(relay):
        source = random.Random(0)
        for _ in range(100):
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            start = source.choice([b"", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01"])
            writer.write(start + source.randbytes(500) + b"\r\n\r\n")
            writer.write_eof()
            with contextlib.suppress(OSError):
                await reader.read()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        one, other = await pair(relay)
        await one.send(b"alive")
        assert await other.recv() == b"alive"

    with_relay(test)


def test_a_relay_with_tls_of_its_own(tmp_path):
    from ipaddress import ip_address

    from cryptography import x509

    authority = Authority(tmp_path)
    name = x509.IPAddress(ip_address("127.0.0.1"))
    relay_files = authority.site("relay", names=[name])

    async def test():
        where = ("127.0.0.1", 0, relay_files.certificate, relay_files.key)
        async with asyncio.timeout(PATIENCE), Relay(*where) as relay:
            way = RelayWay(f"wss://127.0.0.1:{relay.port}", SECRET, authority=authority.path)
            one = await RelayCarrier.open(way, "Ashby", "Brook")
            other = await RelayCarrier.open(way, "Brook", "Ashby")
            await asyncio.gather(one.paired(), other.paired())
            await one.send(b"hello")
            assert await other.receive() == b"hello"
            await asyncio.gather(one.close(), other.close())
            with pytest.raises(ConnectionError, match="certificate verify failed"):
                await RelayCarrier.open(dataclasses.replace(way, authority=None), "A", "B")

    asyncio.run(test())


def test_a_relay_as_a_process_ends_cleanly_when_it_is_told_to():
    code = (
        "from starlings.runtime.peers.relay import run\n"
        "run('127.0.0.1', 0, ready=lambda port: print(port, flush=True))\n"
        "print('ended')"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())

        async def stay():
            async with connect(f"ws://127.0.0.1:{port}/{TOKEN}/0", proxy=None) as end:
                process.send_signal(signal.SIGTERM)
                return await code_of(end)

        assert asyncio.run(stay()) == 1001
        assert process.stdout.read() == b"ended\n"
        assert process.wait(PATIENCE) == 0
