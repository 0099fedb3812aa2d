"""A runtime of sites behind a hub: its contract, its totals, its restarts, and wrong messages."""

from __future__ import annotations

import threading
import time

import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.errors import ProtocolError, SiteError
from starlings.runtime.hub import hub
from starlings.runtime.hub.mailbox import Mailbox, State, Visit
from starlings.runtime.hub.messages import STAMP, Kind, array_bytes, joined, parts_of
from starlings.testing import check_communicator
from tests.hub.threads import Sites, killed_and_resumed

SITES = ["Ashby", "Brook", "Cliff"]


def complete() -> st.Network:
    return st.Network(nx.relabel_nodes(nx.complete_graph(3), dict(enumerate(SITES))))


def noise(seed: int, size: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size) * 10.0 ** np.arange(size)


def message(kind: int, call: int, contents: bytes = b"") -> bytes:
    return STAMP.pack(kind, call) + contents


def test_the_contract_of_communicators(tmp_path):
    network = st.Network(nx.path_graph(3))

    def program(communicator):
        check_communicator(network.distributed([communicator.rank], communicator))

    sites = Sites(network, tmp_path, program)
    sites.run()
    assert not sites.errors


def test_totals_are_added_in_the_order_of_the_sites(tmp_path):
    found = Sites(complete(), tmp_path, lambda c: c.sum(noise(c.rank, 8))).run()
    wanted = (noise(0, 8) + noise(1, 8)) + noise(2, 8)
    assert [found[name].tobytes() for name in SITES] == 3 * [wanted.tobytes()]


def walk(communicator) -> bytes:
    """A program whose calls depend on all replies before them, and on chance."""
    state = np.frombuffer(communicator.remembered(lambda: np.random.bytes(64)), "<u8").astype(float)
    for turn in range(12):
        state = communicator.sum(np.sin(state + turn))
        communicator.first(float(state[0]) if communicator.rank else None)
        state = state + communicator.broadcast(time.perf_counter())  # such as lengths of chunks
    return state.tobytes()


@pytest.mark.slow
def test_sites_that_are_lost_one_after_another_change_no_bit(tmp_path):
    seen = []
    sites = Sites(complete(), tmp_path, walk)
    found = killed_and_resumed(sites, {"Brook": 5, "Ashby": 3, "Cliff": 4})
    assert len(set(found.values())) == 1
    # the same run again, from journals alone: the hub is asked nothing, and chance was remembered
    seen, sites.seen = sites.seen, []
    assert sites.run() == found
    assert sites.seen == []
    by_call = {}
    for name, sent in seen:
        call = (name, sent[: STAMP.size])
        assert by_call.setdefault(call, sent) == sent  # no mask would ever hide two numbers


def test_a_site_that_computes_otherwise_after_a_restart_is_refused(tmp_path):
    sites = Sites(complete(), tmp_path, walk)
    sites.stop_after = {"Brook": 5}
    with pytest.raises(SiteError, match="Brook cannot be reached"):
        sites.run()
    sites.stop_after = {}
    sites.program = lambda c: c.sum(np.ones(8) if c.rank == 1 else np.zeros(8))
    with pytest.raises(SiteError, match="has stopped"):
        sites.run()
    assert "differs from the one before the restart" in str(sites.errors["Brook"])


def test_the_hub_is_told_that_a_site_stopped_and_not_why(tmp_path):
    def program(communicator):
        if communicator.rank == 2:
            raise ValueError("row 17 has 170 kg")
        return communicator.sum(np.zeros(2))

    sites = Sites(complete(), tmp_path, program)
    with pytest.raises(SiteError, match="Cliff has stopped") as error:
        sites.run()
    assert "kg" not in str(error.value)
    assert {type(sites.errors[name]) for name in ("Ashby", "Brook")} == {SiteError}


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        ([message(Kind.ADD, 1), message(Kind.ADD, 2)], "different calls"),
        ([message(Kind.ADD, 1), message(Kind.FORWARD, 1)], "different calls"),
        ([b"", b""], "different calls"),
        (2 * [message(77, 1)], "unknown"),
        (2 * [message(Kind.ADD, 1, b"x123")], "not an array"),
        (2 * [message(Kind.ADD, 1, b"d1234567")], "not an array"),
        ([message(Kind.ADD, 1, array_bytes(np.zeros(n))) for n in (1, 2)], "different arrays"),
        (2 * [message(Kind.FORWARD, 1, joined({2: b"a"}))], "cannot have"),
        (2 * [message(Kind.FORWARD, 1, joined({1: b"abc"})[:-1])], "cannot have"),
        (2 * [message(Kind.FORWARD, 1, b"abc")], "cut off"),
    ],
)
def test_wrong_messages_end_the_run(sent, fault):
    with pytest.raises(ProtocolError, match=fault):
        hub.replies(sent)


def test_parts_go_to_their_site_and_to_nobody_else():
    sent = [{1: b"to Brook", 2: b"to Cliff"}, {0: b"back"}, {}]
    found = hub.replies([message(Kind.FORWARD, 1, joined(parts)) for parts in sent])
    assert [parts_of(each, 3) for each in found] == [
        {1: b"back"},
        {0: b"to Brook"},
        {0: b"to Cliff"},
    ]


def test_a_visit_that_is_repeated_finds_the_same_message():
    box = Mailbox()
    found = []
    program = threading.Thread(target=lambda: found.append(box.ask(b"one")))
    program.start()
    for _ in range(2):
        assert box.visited(Visit(0, b"")) == (State.WAITS, b"one")
    for _ in range(2):
        assert box.visited(Visit(1, b"reply"), 0.01) == (State.COMPUTES, b"")
    program.join()
    assert found == [b"reply"]
    with pytest.raises(SiteError, match="same program"):
        box.visited(Visit(3, b""), 0.01)
