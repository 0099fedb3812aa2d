"""What a neighbour with a valid certificate can do: end the run with its name, and nothing else."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time

import numpy as np
import pytest

import starlings as st
from starlings.errors import ProtocolError, SiteError
from starlings.runtime.peers import communicator as calls
from starlings.runtime.peers import stream as streams
from starlings.runtime.peers import values
from starlings.runtime.peers.communicator import PeersCommunicator
from starlings.runtime.peers.frames import Frame, Kind
from starlings.runtime.peers.guard import guarded
from starlings.runtime.peers.journal import Journal
from starlings.runtime.peers.journal import Kind as Record
from starlings.runtime.peers.stream import Stream
from tests.peers.flock import RUN, Flock


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "a.journal", RUN)
    yield journal
    journal.close()


@pytest.fixture
def stream(journal):
    """The stream of a neighbour that has said what it wants."""
    stream = Stream(RUN, 0, 1, "Brook", journal)
    stream.arrived(Frame(Kind.HELLO, RUN, 1, 0, 0).encoded())
    return stream


def message(number: int, body: bytes = b"body", durable: int = 0) -> bytes:
    return Frame(Kind.MESSAGE, RUN, 1, number, durable, body).encoded()


def flooded(stream: Stream, body: bytes) -> None:
    """Have a thousand messages arrive, of which none is used."""
    for number in range(1_000):
        stream.arrived(message(number, body))


def test_a_neighbour_that_sends_far_ahead_ends_the_run_and_not_the_memory(stream, monkeypatch):
    monkeypatch.setattr(streams, "MOST_KEPT", 10_000)
    with pytest.raises(SiteError, match="Brook sends far ahead: 10 of its messages are not used"):
        flooded(stream, bytes(1_000))
    assert stream.num_arrived == 10


def test_empty_messages_count_too(stream, monkeypatch):
    monkeypatch.setattr(streams, "MOST_KEPT", 10_000)
    with pytest.raises(SiteError, match="sends far ahead"):
        flooded(stream, b"")


def test_messages_that_are_used_count_no_longer(stream, monkeypatch):
    monkeypatch.setattr(streams, "MOST_KEPT", 2_000)
    for number in range(20):
        stream.arrived(message(number, bytes(1_000)))
        assert stream.receive() == bytes(1_000)


def test_messages_of_before_a_restart_do_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "MOST_KEPT", 2_000)
    journal = Journal(tmp_path / "b.journal", RUN)
    for number in range(20):
        journal.append(Record.RECEIVED, bytes(1_000), 1, number)
    journal.close()
    journal = Journal(tmp_path / "b.journal", RUN)
    stream = Stream(RUN, 0, 1, "Brook", journal)
    stream.arrived(Frame(Kind.HELLO, RUN, 1, 0, 0).encoded())
    stream.arrived(message(20))
    assert [len(stream.receive()) for _ in range(21)] == [1_000] * 20 + [4]
    journal.close()


@pytest.mark.parametrize("ends", [False, True], ids=["confirms at last", "never"])
def test_a_neighbour_that_confirms_nothing_is_waited_for(stream, monkeypatch, ends):
    monkeypatch.setattr(streams, "MOST_KEPT", 10_000)
    done, waiting = [], threading.Event()
    stream.wake = lambda: waiting.set() if stream.made == 10 else None

    def send():
        with contextlib.suppress(KeyboardInterrupt):
            list(map(stream.send, [bytes(1_000)] * 11))
            done.append(True)

    thread = threading.Thread(target=send)
    thread.start()
    assert waiting.wait(10)
    thread.join(0.05)
    assert thread.is_alive()
    assert stream.made == 10
    if ends:
        stream.failed(KeyboardInterrupt())
    else:
        stream.due()
        stream.arrived(Frame(Kind.RECEIPT, RUN, 1, 0, 5).encoded())
    thread.join(10)
    assert done == [True] * (not ends)


def test_confirmed_messages_are_not_kept(stream, monkeypatch):
    monkeypatch.setattr(streams, "MOST_KEPT", 2_000)
    for number in range(20):
        stream.send(bytes(1_000))
        stream.due()
        stream.arrived(Frame(Kind.RECEIPT, RUN, 1, 0, number + 1).encoded())
    assert stream.is_delivered


@pytest.mark.parametrize(
    "frame",
    [
        Frame(Kind.RECEIPT, RUN, 1, 0, 3),
        Frame(Kind.MESSAGE, RUN, 1, 0, 2**63, b"body"),
        Frame(Kind.HELLO, RUN, 1, 2, 3),
    ],
    ids=["a receipt", "a message", "the first frame"],
)
def test_what_was_not_sent_cannot_be_confirmed(stream, frame):
    stream.send(b"one")
    stream.send(b"two")
    stream.due()
    with pytest.raises(ProtocolError, match=r"Brook confirmed .* messages, and 2 were sent"):
        stream.arrived(frame.encoded())
    assert stream.durable == 0


def test_nothing_comes_before_the_first_frame(journal):
    stream = Stream(RUN, 0, 1, "Brook", journal)
    with pytest.raises(ProtocolError, match="and none were sent"):
        stream.arrived(message(0))


def test_a_restarted_site_hears_of_messages_that_it_has_not_made_yet(journal):
    """After a power cut its neighbour may have more of them on disk than its own journal says."""
    stream = Stream(RUN, 0, 1, "Brook", journal)
    stream.arrived(Frame(Kind.HELLO, RUN, 1, 7, 7).encoded())
    for number in range(9):
        stream.send(b"%d" % number)
    assert [Frame.decoded(frame).body for frame in stream.due()] == [b"7", b"8"]


BAD_VALUES = {
    "not UTF-8": b'"\xff"',
    "deep": b"[" * 100_000,
    "deep and whole": b"[" * 100_000 + b"]" * 100_000,
    "a huge shape": b'{"_":"array","type":"<f8","shape":[1180591620717411303424],"data":""}',
    "a shape of zeros and more": b'{"_":"array","type":"<f8","shape":[0,9223372036854775807,9],'
    b'"data":""}',
    "a negative shape": b'{"_":"array","type":"<f8","shape":[-1],"data":"AAAAAAAAAAA="}',
    "a shape that is no list": b'{"_":"array","type":"<f8","shape":1,"data":"AAAAAAAAAAA="}',
    "a true shape": b'{"_":"array","type":"<f8","shape":[true],"data":"AAAAAAAAAAA="}',
    "too many axes": b'{"_":"array","type":"<f8","shape":[%s],"data":"AAAAAAAAAAA="}'
    % b",".join([b"1"] * 99),
    "a type of Python": b'{"_":"array","type":"(((","shape":[1],"data":"AAAAAAAAAAA="}',
    "a table as a type": b'{"_":"array","type":"f8,f8","shape":[1],"data":""}',
    "a number as a type": b'{"_":"array","type":8,"shape":[1],"data":""}',
    "a type of no size": b'{"_":"array","type":"<f99","shape":[1],"data":""}',
    "too few bytes": b'{"_":"array","type":"<f8","shape":[2],"data":"AAAAAAAAAAA="}',
    "an unknown tag": b'{"_":["array"],"type":"<f8","shape":[1],"data":"AAAAAAAAAAA="}',
    "no data": b'{"_":"bytes"}',
    "data that are a number": b'{"_":"bytes","data":7}',
    "a tuple of a number": b'{"_":"tuple","items":7}',
    "too many digits": b"9" * 5_000,
}


@pytest.mark.parametrize("data", BAD_VALUES.values(), ids=BAD_VALUES)
def test_values_that_nobody_sends_are_an_error_and_nothing_else(data):
    with pytest.raises(ProtocolError, match="cannot be read"):
        values.decoded(data)


def test_numbers_without_end_and_empty_arrays_arrive():
    assert values.decoded(b"1e999") == float("inf")
    empty = np.zeros((0, 3))
    assert values.decoded(values.encoded(empty)).shape == (0, 3)


class Saying:
    """A neighbour whose next message is made up."""

    neighbour = "Brook"

    def __init__(self, kind: calls.Kind, data: bytes) -> None:
        self.message = calls.STAMP.pack(kind, 1) + data

    def send(self, body: bytes) -> None:
        pass

    def receive(self) -> bytes:
        return self.message


def told(journal, kind: calls.Kind, data: bytes, site: int = 0) -> PeersCommunicator:
    """A site of a star of three, 1 - 0 - 2, at whose neighbours somebody makes up messages."""
    network = st.Network.star(3)
    neighbours = {0: [1, 2], 1: [0], 2: [0]}[site]
    return PeersCommunicator(network, site, {j: Saying(kind, data) for j in neighbours}, journal)


EVERYBODY = {
    "no table": [1],
    "too many": {"1": b"", "2": b"", "3": b""},
    "one that is this site": {"0": b"forged", "1": b"", "2": b""},
    "too few": {"1": b""},
    "no number": {"one": b"", "2": b""},
    "no bytes": {"1": "text", "2": b""},
    "another spelling of a number": {"01": b"", "2": b""},
}


@pytest.mark.parametrize("value", EVERYBODY.values(), ids=EVERYBODY)
def test_who_says_something_for_sites_that_are_not_behind_it_is_named(journal, value):
    site = told(journal, calls.Kind.EVERYBODY, values.encoded(value))
    with pytest.raises(SiteError, match=r"what (Brook|a neighbour) sent in call 1 cannot be used"):
        site.everybody(b"own")


@pytest.mark.parametrize("value", [{"0": b""}, None, {"0": b"", "1": b"", "2": 3}])
def test_a_list_of_everybody_that_lacks_somebody_is_refused(journal, value):
    site = told(journal, calls.Kind.EVERYBODY, values.encoded(value), site=2)
    with pytest.raises(SiteError, match="Brook sent in call 1 cannot be used: it is not the bytes"):
        site.everybody(b"own")


@pytest.mark.parametrize("call", ["broadcast", "first", "everybody"])
def test_who_sends_what_cannot_be_read_is_named(journal, call):
    kind = {"broadcast": calls.Kind.VALUE, "first": calls.Kind.FIRST}.get(
        call, calls.Kind.EVERYBODY
    )
    site = told(journal, kind, b"\xff", site=2)
    with pytest.raises(SiteError, match="what Brook sent in call 1 cannot be used: a value that"):
        getattr(site, call)(b"own")


def test_values_that_cannot_be_compared_are_an_error_in_words(journal):
    site = told(journal, calls.Kind.FIRST, values.encoded("text"))
    with pytest.raises(SiteError, match="values that cannot be compared"):
        site.first(1)


@pytest.mark.parametrize("size", [0, 7, 9, 800])
def test_an_array_of_another_size_is_refused(journal, size):
    site = told(journal, calls.Kind.SUM, bytes(size))
    with pytest.raises(SiteError, match="Brook does not run the same program"):
        site.sum(np.zeros(1))


OWN = np.array([[0.5, -0.5]])
HONEST = [[0.5, -0.5], [9.0, -9.0], [-9.49, 9.49]]
WRONG = [[0.5, 9.51], [1e6, 0.0], [0.0, np.inf], [np.nan, 0.0], [-9.6, 0.0]]


@pytest.mark.parametrize("sent", [*HONEST, *WRONG], ids=str)
def test_a_position_that_no_honest_neighbour_has_ends_a_tuned_run(journal, sent):
    site = told(journal, calls.Kind.EXCHANGE, np.array(sent).tobytes(), site=2)
    with guarded(site, is_wanted=True):
        if sent in HONEST:
            np.testing.assert_array_equal(site.exchanged(OWN), [sent])
            return
        with pytest.raises(SiteError, match=r"Brook sent a position that is .*(away|not finite)"):
            site.exchanged(OWN)
    assert isinstance(site.failure, SiteError)


@pytest.mark.parametrize("own", [OWN, np.array([[np.nan, 0.0]])])
def test_the_guard_is_for_tuned_runs_and_for_the_faults_of_others(journal, own):
    site = told(journal, calls.Kind.EXCHANGE, np.array([1e6, 0.0]).tobytes(), site=2)
    with guarded(site, is_wanted=bool(np.isnan(own).any())):
        np.testing.assert_array_equal(site.exchanged(own), [[1e6, 0.0]])
    assert site.check_received is None


@pytest.mark.parametrize("data", [b"", b"short"])
def test_a_message_without_a_stamp_is_refused(journal, data):
    site = told(journal, calls.Kind.SUM, b"")
    for stream in site.streams.values():
        stream.message = data
    with pytest.raises(SiteError, match="Brook does not run the same program"):
        site.sum(np.zeros(1))


def test_a_disk_that_fails_while_it_is_written_to_ends_the_site(journal, stream, monkeypatch):
    def broken(file):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    stream.arrived(message(0))
    ending = time.monotonic() + 10
    while journal.failure is None and time.monotonic() < ending:
        time.sleep(0.005)
    with pytest.raises(SiteError, match="cannot be written"):
        stream.arrived(message(1))
    with pytest.raises(SiteError, match=r"cannot be written.*start this site again"):
        journal.sync()


def test_nothing_is_written_to_a_file_that_has_the_number_of_a_closed_journal(tmp_path):
    journal = Journal(tmp_path / "a.journal", RUN)
    journal.close()
    other = tmp_path / "other"
    with other.open("wb", buffering=0):
        with pytest.raises(SiteError, match="cannot be written"):
            journal.append(Record.FOUND, b"key")
        assert other.stat().st_size == 0


def test_an_interrupt_does_not_wait_until_all_messages_are_used(stream):
    stream.arrived(message(0))
    stream.failed(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        stream.receive()


def test_no_thread_outlives_a_run(tmp_path):
    def summed(communicator):
        return communicator.sum(np.ones(1)).tolist()

    before = set(threading.enumerate())
    assert Flock(st.Network.ring(3), summed, tmp_path).run() == [[3.0]] * 3
    assert set(threading.enumerate()) <= before
