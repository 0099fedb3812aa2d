"""Whole messages over every kind of carrier, their limits, and what a slow reader costs."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from starlings.errors import ProtocolError
from starlings.runtime.peers.carriers import PIECE, DelayedCarrier, DirectCarrier, RelayCarrier
from starlings.runtime.peers.pipes import Messages, Timing, open_pipe, pieces
from starlings.runtime.peers.relay import Relay
from starlings.runtime.peers.tls import SecureChannel
from starlings.runtime.peers.ways import DirectWay, RelayWay, rendezvous
from tests.peers.certificates import Authority
from tests.peers.relays import PATIENCE, SECRET

SIZES = [0, 1, 100, 16_383, 16_384, 16_385, 262_140, 262_144, 1_000_000]
LARGEST = 2_000_000


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return [authority.site(name) for name in ("Ashby", "Brook")]


def some_messages():
    source = random.Random(0)
    return [source.randbytes(size) for size in SIZES + SIZES[::-1]]


class Wire:
    """One end of a carrier in memory."""

    def __init__(self, sent, received):
        self.sent, self.received = sent, received

    async def send(self, data):
        self.sent.put_nowait(bytes(data))

    async def receive(self):
        data = await self.received.get()
        if not data:
            raise ConnectionError("it has ended.")
        return data

    async def close(self):
        self.abort()

    def abort(self):
        self.sent.put_nowait(b"")


@contextlib.asynccontextmanager
async def wires():
    one, other = asyncio.Queue(), asyncio.Queue()
    yield Wire(one, other), Wire(other, one)


@contextlib.asynccontextmanager
async def over_tcp():
    come = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *ends: come.set_result(ends), "127.0.0.1", 0)
    one = await DirectCarrier.open(*server.sockets[0].getsockname())
    other = DirectCarrier(*await come)
    yield other, one
    server.close()


@contextlib.asynccontextmanager
async def over_relay(proxy=""):
    async with Relay("127.0.0.1", 0) as relay:
        way = RelayWay(f"ws://127.0.0.1:{relay.port}", SECRET, proxy=proxy)
        one = await RelayCarrier.open(way, "Ashby", "Brook")
        other = await RelayCarrier.open(way, "Brook", "Ashby")
        await asyncio.gather(one.paired(), other.paired())
        yield one, other


@contextlib.asynccontextmanager
async def over_proxy():
    async with Proxy() as proxy, over_relay(f"http://user:word@127.0.0.1:{proxy.port}") as ends:
        yield ends
        assert proxy.requests == ["CONNECT", "CONNECT"]
        assert proxy.credentials == {"Basic dXNlcjp3b3Jk"}


@contextlib.asynccontextmanager
async def delayed():
    async with wires() as ends:
        yield [DelayedCarrier(end, 0.01) for end in ends]


class Proxy:
    """The least HTTP proxy: it knows CONNECT."""

    def __init__(self):
        self.requests, self.credentials, self.tasks = [], set(), []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await asyncio.gather(*self.tasks)

    async def serve(self, reader, writer):
        self.tasks.append(asyncio.current_task())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, address, _ = head[0].split()
        self.requests.append(method)
        fields = dict(line.split(": ", 1) for line in head[1:] if line)
        self.credentials.add(fields.get("Proxy-Authorization"))
        host, port = address.split(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))


async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def opened(ends, sites):
    """Pipes over the two ends of a carrier."""
    names = [site.name for site in sites]
    channels = [
        SecureChannel(sites[0], names[1:], is_server=True),
        SecureChannel(sites[1], names[:1], is_server=False),
    ]
    opening = [
        open_pipe(end, channel, "a test", Timing(), PATIENCE)
        for end, channel in zip(ends, channels, strict=True)
    ]
    return await asyncio.gather(*opening)


async def received(pipe, count, largest=LARGEST):
    found = []
    while len(found) < count:
        found += await pipe.receive(largest)
    return found


@pytest.mark.parametrize("carrier", [wires, over_tcp, over_relay, over_proxy, delayed])
def test_messages_of_all_sizes_arrive_in_order_in_both_directions(sites, carrier):
    async def exchange():
        async with asyncio.timeout(PATIENCE), carrier() as ends:
            one, other = await opened(ends, sites)
            messages = some_messages()
            one.ping()
            found = await asyncio.gather(
                received(other, len(messages)),
                received(one, len(messages)),
                one.send(messages),
                other.send(messages[::-1]),
            )
            assert found[0] == messages
            assert found[1] == messages[::-1]
            await other.send([b"after the ping"])
            assert await received(one, 1) == [b"after the ping"]
            assert one.round_trip is not None
            assert (one.neighbour, other.neighbour) == ("Brook", "Ashby")
            await asyncio.gather(one.close(), other.close())

    asyncio.run(exchange())


@pytest.mark.parametrize("carrier", [wires, over_tcp, over_relay])
def test_a_pipe_that_ends_says_so_after_the_last_message(sites, carrier):
    async def exchange():
        async with asyncio.timeout(PATIENCE), carrier() as ends:
            one, other = await opened(ends, sites)
            await one.send([bytes(100_000), b"last"])
            closing = asyncio.ensure_future(one.close())
            assert (await received(other, 2))[1] == b"last"
            with pytest.raises(ConnectionError):
                await received(other, 1)
            other.abort()
            await closing

    asyncio.run(exchange())


def test_a_message_that_is_too_long_is_refused_by_its_length(sites):
    async def exchange():
        async with wires() as ends:
            one, other = await opened(ends, sites)
            await ends[0].send(one.channel.encrypted(struct.pack(">I", LARGEST + 1)))
            with pytest.raises(ProtocolError, match="2,000,001 bytes was announced"):
                await received(other, 1)

    asyncio.run(exchange())


@pytest.mark.slow
def test_a_slow_reader_makes_the_sender_wait(sites):
    """What is under way is bounded by buffers, whatever the sender has."""

    async def exchange():
        async with asyncio.timeout(PATIENCE), over_relay() as ends:
            one, other = await opened(ends, sites)
            messages = [bytes(1_000_000)] * 100
            sending = asyncio.ensure_future(one.send(messages))
            await asyncio.wait([sending], timeout=1.0)
            assert not sending.done()
            assert one.bytes_sent < 40_000_000
            for _ in messages:
                assert one.bytes_sent - other.bytes_received < 40_000_000
                await received(other, 1)
            await sending
            await asyncio.gather(one.close(), other.close())

    asyncio.run(exchange())


def test_silence_ends_the_handshake(sites):
    async def wait():
        async with wires() as ends:
            channel = SecureChannel(sites[0], ["Brook"], is_server=True)
            with pytest.raises(ConnectionError, match="nothing came from Brook"):
                await open_pipe(ends[0], channel, "a test", Timing(), patience=0.01)

    asyncio.run(wait())


@given(st.lists(st.binary(max_size=40), max_size=20), st.randoms())
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_messages_do_not_depend_on_the_pieces_in_which_they_come(sent, source):
    data = b"".join(pieces(sent))
    reader, found = Messages(40), []
    while data:
        size = source.randint(1, 50)
        found += reader.feed(data[:size])
        data = data[size:]
    assert found == sent


def test_pieces_are_no_larger_than_a_relay_takes():
    sizes = [len(piece) for piece in pieces([*some_messages(), *[bytes(10_000)] * 100])]
    assert max(sizes) <= 2 * PIECE
    assert sum(sizes) == 2 * sum(SIZES) + 4 * 2 * len(SIZES) + 100 * 10_004


@pytest.mark.parametrize("count", [300, pytest.param(100_000, marks=pytest.mark.slow)])
def test_random_bytes_inside_tls_are_messages_or_errors(count):
    for number in range(count):
        source = random.Random(number)
        reader = Messages(source.choice([10, 1000, 2**31]))
        with contextlib.suppress(ProtocolError):
            for _ in range(10):
                reader.feed(source.randbytes(source.randrange(100)))
                reader.signs()


def test_meeting_places_are_those_of_a_pair_and_a_study():
    one, other = (rendezvous(SECRET, *names) for names in (("A", "B"), ("B", "A")))
    assert (one[:-1], one[-1], other[-1]) == (other[:-1], "0", "1")
    others = [("A", "C"), ("AB", ""), ("", "AB"), ("C", "B")]
    places = {rendezvous(SECRET, *names)[:-2] for names in others} | {one[:-2]}
    assert len(places) == 4  # ("AB", "") and ("", "AB") are one pair
    assert rendezvous(bytes(32), "A", "B") != one


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: RelayWay("ws://relay.org", SECRET), "must begin with wss://"),
        (lambda: RelayWay("https://relay.org", SECRET), "must be wss://"),
        (lambda: RelayWay("wss://relay.org", b"short"), "at least 16 bytes, got 5"),
        (lambda: DirectWay(), "both are None"),
    ],
)
def test_ways_that_lead_nowhere_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
    assert "secret" not in repr(RelayWay("wss://relay.org", SECRET))
