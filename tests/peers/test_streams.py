"""Sites whose messages are lost, repeated and late, and that are killed: the bits are the same."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.strategies import binary as st_bytes

import starlings as st
from starlings.errors import ProtocolError, SiteError
from starlings.runtime.peers import values
from starlings.runtime.peers.frames import Frame, Kind
from starlings.runtime.peers.journal import HEAD, Journal
from starlings.runtime.peers.journal import Kind as Record
from starlings.runtime.peers.stream import Stream
from tests.peers.flock import RUN, Flock

CALLS = 60


def program(communicator, chance=lambda: bytes([7])):
    """Calls of all kinds in an order that depends on all numbers so far, and a digest of them."""
    state = np.array([1.0 + communicator.rank, 0.3])
    found = hashlib.sha256()
    for number in range(CALLS):
        state = np.sin(communicator.sum(state)) + 0.1 * communicator.rank
        messages = np.repeat(state[None], len(communicator.outgoing), axis=0)
        state = state + 0.01 * communicator.exchanged(messages).sum(axis=0)
        if number % 7 == 0:
            state = state + communicator.broadcast(communicator.remembered(chance)[0] / 256)
        if number % 11 == 0:
            found.update(str(communicator.first((float(state[0]), "text"))).encode())
        if number % 13 == 0:
            communicator.barrier()
        found.update(state.tobytes())
    return found.hexdigest(), communicator.sum(state).tobytes()


def program_of_chance(communicator):
    """The same with values that nobody can know beforehand."""
    return program(communicator, lambda: secrets.token_bytes(1))


GRAPHS = [
    pytest.param(nx.path_graph(3), id="path"),
    pytest.param(nx.complete_graph(4), id="complete", marks=pytest.mark.slow),
    pytest.param(nx.cycle_graph(5), id="ring", marks=pytest.mark.slow),
    pytest.param(nx.star_graph(4), id="star", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("graph", GRAPHS)
def test_losses_and_kills_change_no_bit(graph, tmp_path):
    network = st.Network(graph)
    (tmp_path / "calm").mkdir()
    wanted = Flock(network, program, tmp_path / "calm").run()
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        flock = Flock(network, program, folder, seed, loss=0.1, kills=5)
        assert flock.run() == wanted
        assert sum(site.restarts for site in flock.sites) > 0


def test_messages_that_overtake_each_other_change_no_bit(tmp_path):
    found = []
    for disorder in (0.0, 0.5):
        folder = tmp_path / str(disorder)
        folder.mkdir()
        flock = Flock(st.Network.path(4), ahead, folder, seed=1, disorder=disorder)
        found.append(flock.run())
        assert (flock.disordered > 5) == (disorder > 0)
    assert found[0] == found[1]


def ahead(communicator):
    """A program in which messages follow each other without an answer in between."""
    found = []
    for number in range(40):
        for stream in communicator.streams.values():
            for part in range(3):
                stream.send(b"%d %d %d" % (communicator.rank, number, part))
        found += [s.receive() for s in communicator.streams.values() for _ in range(3)]
    return found


def test_what_was_found_by_chance_is_the_same_after_a_restart(tmp_path):
    """A site whose numbers differed from before would be stopped by its journal."""
    flock = Flock(st.Network.ring(4), program_of_chance, tmp_path, seed=3, kills=8)
    totals = {total for _, total in flock.run()}
    assert len(totals) == 1
    assert sum(site.restarts for site in flock.sites) > 4


def linked(tmp_path, names=("a", "b")):
    """Two sites and the streams between them."""
    journals = [Journal(tmp_path / f"{name}.journal", RUN) for name in names]
    streams = [Stream(RUN, i, 1 - i, names[1 - i], journals[i]) for i in range(2)]
    return journals, streams


def opened(one, other):
    first, second = one.opening(), other.opening()
    one.arrived(second)
    other.arrived(first)


@pytest.fixture
def pair(tmp_path):
    journals, streams = linked(tmp_path)
    opened(*streams)
    yield streams
    for journal in journals:
        journal.close()


def test_nothing_is_due_before_the_neighbour_says_what_it_wants(tmp_path):
    journals, (one, _) = linked(tmp_path)
    one.send(b"early")
    assert one.due() == []
    for journal in journals:
        journal.close()


def test_messages_arrive_once_and_in_order(pair):
    one, other = pair
    for body in (b"first", b"second"):
        one.send(body)
    frames = one.due()
    for frame in (frames[0], frames[0], frames[1], frames[0]):
        other.arrived(frame)
    assert [other.receive(), other.receive()] == [b"first", b"second"]
    assert other.num_arrived == 2
    assert one.due() == []


def test_a_gap_is_an_error_of_the_link_and_is_mended_by_opening_it_again(pair):
    one, other = pair
    for body in (b"first", b"second"):
        one.send(body)
    with pytest.raises(ProtocolError, match="a sent message 1, and 0 is next"):
        other.arrived(one.due()[1])
    opened(one, other)
    for frame in one.due():
        other.arrived(frame)
    assert [other.receive(), other.receive()] == [b"first", b"second"]


def test_a_sender_keeps_messages_until_they_are_on_disk_at_the_receiver(pair):
    one, other = pair
    one.send(b"kept")
    other.arrived(one.due()[0])
    assert not one.is_delivered
    other.journal.sync()
    one.arrived(other.due()[0])
    assert one.is_delivered
    assert other.due() == []


def test_a_neighbour_that_lost_what_it_had_confirmed_ends_the_run(pair):
    one, other = pair
    one.send(b"kept")
    other.arrived(one.due()[0])
    other.journal.sync()
    one.arrived(other.due()[0])
    with pytest.raises(SiteError, match=r"b has lost messages .* wants number 0 and had 1"):
        one.arrived(Frame(Kind.HELLO, RUN, 1, 0, 0).encoded())


def test_another_run_and_another_sender_are_refused(pair):
    one, _ = pair
    with pytest.raises(SiteError, match="b runs another study"):
        one.arrived(Frame(Kind.HELLO, b"another name run", 1, 0, 0).encoded())
    with pytest.raises(ProtocolError, match="a frame of site 7 came from b"):
        one.arrived(Frame(Kind.HELLO, RUN, 7, 0, 0).encoded())


BAD_FRAMES = {
    "short": b"sT\1",
    "other magic": b"xx" + Frame(Kind.HELLO, RUN, 1, 0, 0).encoded()[2:],
    "other version": b"sT\1\7" + Frame(Kind.HELLO, RUN, 1, 0, 0).encoded()[4:],
    "unknown kind": b"sT\x09\1" + Frame(Kind.HELLO, RUN, 1, 0, 0).encoded()[4:],
    "cut off": Frame(Kind.MESSAGE, RUN, 1, 0, 0, b"body").encoded()[:-1],
    "too long": Frame(Kind.MESSAGE, RUN, 1, 0, 0, b"body").encoded() + b"x",
}


@pytest.mark.parametrize("data", BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_bytes_that_are_no_frame_are_an_error_of_the_link(pair, data):
    with pytest.raises(ProtocolError):
        pair[0].arrived(data)


@given(st_bytes())
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_frame_or_an_error_of_the_link(data):
    with contextlib.suppress(ProtocolError):
        assert Frame.decoded(data).encoded() == data


def test_a_restarted_site_must_make_the_same_messages_again(tmp_path):
    journals, (one, _) = linked(tmp_path)
    one.send(b"mask and number")
    for journal in journals:
        journal.close()
    journals, (one, _) = linked(tmp_path)
    with pytest.raises(SiteError, match="message 0 to b differs from the one before the restart"):
        one.send(b"the same mask on another number")
    for journal in journals:
        journal.close()


def test_a_torn_record_is_cut_off_and_the_rest_is_there(tmp_path):
    path = tmp_path / "a.journal"
    journal = Journal(path, RUN)
    sizes = [journal.append(Record.FOUND, bytes([n]) * 40) for n in range(3)]
    journal.close()
    whole = path.read_bytes()
    for size in range(sizes[1], sizes[2]):
        path.write_bytes(whole[:size])
        again = Journal(path, RUN)
        assert [again.body(place)[0] for place in again.past.found] == [0, 1]
        again.close()
        assert path.stat().st_size == sizes[1]


def test_a_damaged_record_ends_what_is_read(tmp_path):
    path = tmp_path / "a.journal"
    journal = Journal(path, RUN)
    size = journal.append(Record.FOUND, b"first")
    journal.append(Record.FOUND, b"second")
    journal.close()
    damaged = bytearray(path.read_bytes())
    damaged[size + HEAD.size + 3] ^= 1
    path.write_bytes(damaged)
    again = Journal(path, RUN)
    assert len(again.past.found) == 1
    again.close()


@pytest.mark.parametrize("place", [0, 5, HEAD.size, HEAD.size + 3, -1])
def test_damage_before_whole_records_is_an_error_and_nothing_is_cut(tmp_path, place):
    """In the length, the checksum, the kind, a field, or the bytes of a record."""
    path = tmp_path / "a.journal"
    journal = Journal(path, RUN)
    sizes = [journal.append(Record.RECEIVED, bytes([n]) * 400, n % 3, n) for n in range(6)]
    journal.close()
    damaged = bytearray(path.read_bytes())
    damaged[sizes[1] + place if place >= 0 else sizes[2] + place] ^= 0x41
    path.write_bytes(damaged)
    with pytest.raises(SiteError, match=rf"damaged at byte {sizes[1]:,}, and whole records follow"):
        Journal(path, RUN)
    assert path.read_bytes() == damaged
    path.write_bytes(damaged[: sizes[2]])  # nothing follows: it was being written
    Journal(path, RUN).close()
    assert path.stat().st_size == sizes[1]


def test_random_bytes_at_the_end_of_a_journal_are_cut_off(tmp_path):
    path = tmp_path / "a.journal"
    journal = Journal(path, RUN)
    size = journal.append(Record.FOUND, b"first")
    journal.close()
    for rest in (bytes(5000), np.random.default_rng(0).bytes(3_000_000), np.ones(9999).tobytes()):
        with path.open("ab") as stream:
            stream.write(rest)
        Journal(path, RUN).close()
        assert path.stat().st_size == size


def test_the_journal_of_another_run_and_one_in_use_are_refused(tmp_path):
    path = tmp_path / "a.journal"
    journal = Journal(path, RUN)
    with pytest.raises(BlockingIOError, match="another run is writing"):
        Journal(path, RUN)
    journal.close()
    with pytest.raises(SiteError, match="journal of another run"):
        Journal(path, b"another name run")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_ends_the_site_with_what_to_do(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "a.journal", RUN)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(SiteError, match=r"No space left on device.*start this site again"):
        journal.append(Record.FOUND, b"key")
    journal.close()


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


VALUES = [None, True, 17, -0.1, float("inf"), "text", b"\0bytes", (1, "a"), [1, [2.5]], {"a": (1,)}]


@pytest.mark.parametrize("value", VALUES)
def test_values_arrive_as_they_are(value):
    found = values.decoded(values.encoded(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "uint32", "bool"])
def test_arrays_arrive_in_every_bit(dtype):
    array = np.array([[0, 1, 1], [1, 0, 1]], dtype)
    found = values.decoded(values.encoded(array))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("data", [b"", b"{", b'{"_":"array","type":"O","shape":[1],"data":""}'])
def test_values_that_cannot_be_read_are_an_error_of_the_link(data):
    with pytest.raises(ProtocolError, match="cannot be read"):
        values.decoded(data)


def test_objects_are_not_sent():
    with pytest.raises(TypeError, match="type object cannot be sent"):
        values.encoded(object())


def test_sites_that_run_another_program_notice_it(tmp_path):
    def differing(communicator):
        if communicator.rank == 0:
            return communicator.sum(np.zeros(3))
        return communicator.broadcast(1)

    with pytest.raises(SiteError, match="does not run the same program"):
        Flock(st.Network.complete(2), differing, tmp_path).run()


@pytest.mark.slow
def test_two_hundred_runs_with_kills_in_a_row_have_the_same_bits(tmp_path):
    network = st.Network.ring(3)
    (tmp_path / "calm").mkdir()
    wanted = Flock(network, program, tmp_path / "calm").run()
    restarts = 0
    for seed in range(200):
        folder = tmp_path / str(seed)
        folder.mkdir()
        flock = Flock(network, program, folder, seed, loss=0.3 if seed % 4 == 0 else 0.0, kills=3)
        assert flock.run() == wanted
        restarts += sum(site.restarts for site in flock.sites)
    assert restarts >= 200


def test_a_journal_takes_nothing_that_it_could_not_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr("starlings.runtime.peers.journal.LARGEST_BODY", 100)
    journal = Journal(tmp_path / "journal", RUN)
    journal.append(Record.SENT, bytes(100))
    with pytest.raises(SiteError, match=r"is too large: .* Ask for fewer draws"):
        journal.append(Record.SENT, bytes(101))
    journal.close()
