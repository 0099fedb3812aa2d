"""Links that last: whatever happens to connections, every message arrives once and in order."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from dataclasses import replace
from functools import partial

import pytest

from starlings.errors import ProtocolError, SiteError
from starlings.runtime.peers.links import Links
from starlings.runtime.peers.relay import Relay
from starlings.runtime.peers.ways import DirectWay, RelayWay
from tests.peers.certificates import DAY, Authority
from tests.peers.linked_sites import (
    DeafRoad,
    Site,
    by_relay,
    exchanged,
    free_port,
    pair_of,
    until,
)
from tests.peers.relays import (
    AlteringRelay,
    InThread,
    KilledRelay,
    NumberedStream,
)

NAMES = ["Ashby", "Brook", "Cliff"]


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    return {name: authority.site(name) for name in NAMES}


@pytest.fixture(autouse=True)
def no_thread_stays():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.fixture
def relay():
    with InThread(lambda: Relay("127.0.0.1", 0)) as relay:
        yield relay


def test_three_sites_exchange_messages_through_a_relay(sites, relay):
    with contextlib.ExitStack() as stack:
        members = [
            Site(sites[name], {other: by_relay(relay.port) for other in NAMES if other != name})
            for name in NAMES
        ]
        for member in members:
            stack.enter_context(member)
        for number in range(100):
            for member in members:
                for stream in member.streams.values():
                    stream.send(member.identity.name.encode() + b" %d" % number)
            for member in members:
                for name, stream in member.streams.items():
                    assert stream.receive() == name.encode() + b" %d" % number
        for member in members:
            for name, state in member.links.state().items():
                assert state.neighbour == name
                assert state.is_connected
                assert (state.attempts, state.connections) == (0, 1)
                assert min(state.bytes_sent, state.bytes_received) > 1000
                assert state.last_error == ""
        assert all(member.links.failure is None for member in members)
        until(lambda: all(s.round_trip for m in members for s in m.links.state().values()))


@pytest.mark.parametrize("who_listens", [("Ashby",), ("Brook",), ("Ashby", "Brook")])
def test_two_sites_reach_each_other_directly(sites, who_listens):
    ports = {name: free_port() for name in ("Ashby", "Brook")}
    members = {}
    for name, other in (("Ashby", "Brook"), ("Brook", "Ashby")):
        listens = ("127.0.0.1", ports[name]) if name in who_listens else None
        connects = ("127.0.0.1", ports[other]) if other in who_listens else None
        members[name] = Site(sites[name], {other: DirectWay(listens, connects)})
    with members["Ashby"], members["Brook"]:
        exchanged(members["Ashby"], members["Brook"], 0, 50)


def test_one_address_serves_several_neighbours_and_no_strangers(sites):
    address = ("127.0.0.1", 0)
    centre = Site(sites["Ashby"], {name: DirectWay(listens=address) for name in NAMES[1:]})
    with centre:
        where = ("127.0.0.1", centre.links.ports[address])
        leaves = [Site(sites[name], {"Ashby": DirectWay(connects=where)}) for name in NAMES[1:]]
        for _ in range(50):
            with socket.create_connection(where) as stranger, contextlib.suppress(OSError):
                stranger.sendall(random.Random(0).randbytes(300))
        with leaves[0], leaves[1]:
            for number in range(20):
                for leaf in leaves:
                    leaf.streams["Ashby"].send(leaf.identity.name.encode() + b"%d" % number)
                for name, stream in centre.streams.items():
                    assert stream.receive() == name.encode() + b"%d" % number


def test_an_address_that_is_taken_is_an_error_at_once(sites):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        way = DirectWay(listens=taken.getsockname())
        links = Links(sites["Ashby"], {"Brook": way}, {"Brook": NumberedStream()})
        with pytest.raises(OSError, match="address already in use"):
            links.start()
        links.close()


def test_ways_and_streams_must_name_the_same_sites(sites):
    with pytest.raises(ValueError, match="Brook"):
        Links(sites["Ashby"], {}, {"Brook": NumberedStream()})


def test_large_messages_are_sent_before_links_close(sites, relay):
    one, other = pair_of(sites, by_relay(relay.port))
    with other:
        with one:
            until(lambda: one.state("Brook").is_connected)
            exchanged(one, other, 0, 1)
            for _ in range(20):
                one.streams["Brook"].send(bytes(1_000_000))
        assert [len(other.streams["Ashby"].receive()) for _ in range(20)] == [1_000_000] * 20


def test_sites_that_stop_and_start_again_go_on(sites, relay):
    one, other = pair_of(sites, by_relay(relay.port))
    with one, other:
        for start in range(0, 60, 20):
            exchanged(one, other, start, start + 20)
            random.Random(start).choice([one, other]).restart()
        exchanged(one, other, 60, 80)


def test_a_second_process_of_a_site_takes_the_place_of_the_first(sites, relay):
    """The first one is not closed: it looks as a site that was killed does to the relay."""
    one, other = pair_of(sites, by_relay(relay.port))
    with one, other:
        exchanged(one, other, 0, 5)
        again = Site(one.identity, one.ways)
        again.streams = {"Brook": NumberedStream()}
        with again:
            until(lambda: "second process" in one.state("Brook").last_error)
        exchanged(one, other, 5, 10)


def test_a_relay_that_is_killed_and_started_again_loses_nothing(sites):
    port = free_port()
    one, other = pair_of(sites, by_relay(port))
    to_other, to_one = one.streams["Brook"], other.streams["Ashby"]
    with one, other:
        for start in range(0, 60, 20):
            with InThread(lambda: KilledRelay("127.0.0.1", port)):
                if start:
                    assert to_one.receive() == b"while it is gone"
                exchanged(one, other, start, start + 20)
            until(lambda: one.state("Brook").attempts > 1 and other.state("Ashby").attempts > 1)
            assert not one.state("Brook").is_connected
            assert "cannot be reached" in one.state("Brook").last_error
            to_other.send(b"while it is gone")


def test_where_one_of_two_relays_is_gone_the_other_is_taken(sites, relay):
    gone = free_port()
    ways = [by_relay(gone), by_relay(relay.port)]
    one = Site(sites["Ashby"], {"Brook": ways})
    other = Site(sites["Brook"], {"Ashby": ways[::-1]})
    with one, other:
        exchanged(one, other, 0, 20)
        assert one.state("Brook").way == f"the relay 127.0.0.1:{relay.port}"


def flip(relay, end, piece, number):
    at = number % len(piece)
    return [(end.other, piece[:at] + bytes([piece[at] ^ 4]) + piece[at + 1 :])]


def drop(relay, end, piece, number):
    return []


def replay(relay, end, piece, number):
    return [(end.other, piece)] * 2


def reflect(relay, end, piece, number):
    return [(end, piece)]


@pytest.mark.parametrize("deed", [flip, drop, replay, reflect])
def test_whatever_a_relay_does_nothing_else_arrives_than_was_sent(sites, deed):
    """It does so to every 29th piece; messages go one by one, so that there are many pieces."""

    class Bad(AlteringRelay):
        def alter(self, end, piece, number):
            return [(end.other, piece)] if number % 29 else deed(self, end, piece, number)

    with InThread(lambda: Bad("127.0.0.1", 0)) as relay:
        one, other = pair_of(sites, by_relay(relay.port), heartbeat=0.05, patience=0.5)
        with one, other:
            for number in range(20):
                exchanged(one, other, number, number + 1)
            assert one.links.failure is None
            assert one.state("Brook").connections > 1


def test_a_relay_that_puts_in_pieces_of_another_study_is_found_out(sites, tmp_path):
    """Ashby and Brook take part in two studies at one relay, with one key each in both."""

    class Splicing(AlteringRelay):
        others = ()

        def alter(self, end, piece, number):
            token, self.others = end.place[0], [*self.others[-50:], (end.place, piece)]
            spliced = [p for place, p in self.others if place[0] != token and place[1] == "0"]
            if number % 29 or not spliced:
                return [(end.other, piece)]
            return [(end.other, spliced[-1]), (end.other, piece)]

    with InThread(lambda: Splicing("127.0.0.1", 0)) as relay:
        timing = {"heartbeat": 0.05, "patience": 0.5}
        first = pair_of(sites, by_relay(relay.port), **timing)
        way = RelayWay(f"ws://127.0.0.1:{relay.port}", bytes(32))
        second = pair_of(sites, way, **timing)
        with first[0], first[1], second[0], second[1]:
            for number in range(20):
                exchanged(*first, number, number + 1)
                exchanged(*second, number, number + 1)
            assert all(site.links.failure is None for site in (*first, *second))
            assert sum(site.state("Brook").connections for site in (first[0], second[0])) > 2


def test_a_relay_that_connects_the_wrong_sites_is_found_out(sites):
    """Ashby's connection to Brook, and Cliff's to Ashby, meet each other."""

    class Swapping(Relay):
        async def _come(self, end):
            end.place, end.other_place = ("", end.place[1]), ("", end.other_place[1])
            await super()._come(end)

    with InThread(lambda: Swapping("127.0.0.1", 0)) as relay:
        one = Site(sites["Ashby"], {"Brook": by_relay(relay.port)})
        other = Site(sites["Cliff"], {"Ashby": by_relay(relay.port)})
        with one, other:
            until(lambda: one.state("Brook").is_refused and other.state("Ashby").is_refused)
            assert "expected Brook and reached Cliff" in one.state("Brook").last_error
            assert not other.streams["Ashby"].received
            assert one.links.failure is None


@pytest.mark.parametrize("direct", [False, True])
def test_refusals_are_shown_at_both_ends_and_mended_by_a_new_certificate(tmp_path, direct, relay):
    authority = Authority(tmp_path)
    ashby, brook = authority.site("Ashby"), authority.site("Brook", valid=(-9 * DAY, -DAY))
    port = free_port()
    way = by_relay(relay.port)
    to_brook = DirectWay(connects=("127.0.0.1", port)) if direct else way
    to_ashby = DirectWay(listens=("127.0.0.1", port)) if direct else way
    one, other = Site(ashby, {"Brook": to_brook}), Site(brook, {"Ashby": to_ashby})
    with one, other:
        until(lambda: one.state("Brook").is_refused)
        assert "Ashby does not accept Brook" in one.state("Brook").last_error
        assert "has expired" in one.state("Brook").last_error
        until(lambda: other.state("Ashby").is_refused)
        assert "Ashby does not accept Brook" in other.state("Ashby").last_error
        assert one.links.failure is None
        authority.site("Brook")
        exchanged(one, other, 0, 5)
        assert not one.state("Brook").is_refused


def test_a_stranger_who_knows_where_sites_meet_gets_nothing(sites, tmp_path, relay):
    stranger = replace(Authority(tmp_path).site("Brook"), authority=sites["Ashby"].authority)
    way = by_relay(relay.port)
    one, other = Site(sites["Ashby"], {"Brook": way}), Site(stranger, {"Ashby": way})
    with one, other:
        until(lambda: one.state("Brook").is_refused and other.state("Ashby").is_refused)
        assert "not of the authority of this study" in one.state("Brook").last_error
    assert not one.streams["Brook"].received
    assert not other.streams["Ashby"].received


def test_an_error_of_the_neighbour_that_cannot_be_mended_ends_its_link_only(sites, relay):
    way = by_relay(relay.port)
    one = Site(sites["Ashby"], {"Brook": way, "Cliff": way})
    others = [Site(sites[name], {"Ashby": way}) for name in NAMES[1:]]
    one.streams["Brook"].errors.append(SiteError("Brook runs another study."))
    with one, others[0], others[1]:
        with pytest.raises(SiteError, match="another study"):
            one.streams["Brook"].receive()
        assert str(one.links.failure) == "Brook runs another study."
        assert one.state("Brook").failure is one.links.failure
        one.streams["Cliff"].send(b"still here")
        assert others[1].streams["Ashby"].receive() == b"still here"
        assert one.state("Cliff").failure is None


def test_an_error_in_a_stream_is_no_silence(sites, relay):
    one, other = pair_of(sites, by_relay(relay.port))
    one.streams["Brook"].errors.append(ZeroDivisionError("a mistake"))
    with one, other, pytest.raises(SiteError, match="a mistake"):
        one.streams["Brook"].receive()


def test_a_frame_that_does_not_belong_there_is_mended_by_a_new_connection(sites, relay):
    one, other = pair_of(sites, by_relay(relay.port))
    one.streams["Brook"].errors.extend([ProtocolError("what is this?")] * 2)
    with one, other:
        exchanged(one, other, 0, 20)
        assert one.state("Brook").last_error != ""
        assert one.links.failure is None


def test_a_message_that_is_too_long_ends_the_connection_only(sites, relay):
    one, other = pair_of(sites, by_relay(relay.port))
    other.streams["Ashby"].largest_frame = 1000
    with one, other:
        exchanged(one, other, 0, 2)
        one.streams["Brook"].send(bytes(2000))
        until(lambda: "1,000 are allowed" in other.state("Ashby").last_error)
        other.streams["Ashby"].largest_frame = 10_000
        assert other.streams["Ashby"].receive() == bytes(2000)


@pytest.mark.quick(1)
@pytest.mark.parametrize("delay", [0.0, 0.005])
def test_a_connection_without_a_sign_of_life_is_opened_again(sites, relay, delay):
    with InThread(partial(DeafRoad, relay.port)) as road:
        settings = {"heartbeat": 0.1, "patience": 1.0, "delay": delay}
        one = Site(sites["Ashby"], {"Brook": by_relay(road.port)}, **settings)
        other = Site(sites["Brook"], {"Ashby": by_relay(relay.port)}, **settings)
        with one, other:
            exchanged(one, other, 0, 20)
            connections = one.state("Brook").connections
            road.stop()
            exchanged(one, other, 20, 40)
            assert one.state("Brook").connections > connections


def test_a_delay_keeps_order_and_does_not_limit_the_rate(sites, relay):
    one, other = pair_of(sites, by_relay(relay.port), delay=0.02)
    with one, other:
        exchanged(one, other, 0, 500)
        until(lambda: one.state("Brook").round_trip is not None)
        assert one.state("Brook").round_trip >= 0.04
