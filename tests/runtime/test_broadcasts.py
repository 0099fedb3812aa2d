"""What agents that may be silent have sent: for every draw, however a run is cut into pieces."""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from starlings.network.communicator import LocalCommunicator
from starlings.results.disclosed import disclosed_in_words
from starlings.results.kinds import MESSAGES
from starlings.runtime import chunks
from tests.problems import irregular_graph, unequal_linear_problem

SAMPLER = st.EventDULA(0.002, 0.1, threshold=st.Decay(0.5, 1.0, 0.2))
NETWORK = st.Network(irregular_graph())
DEGREES = [4, 2, 2, 2, 3, 1]
LENGTHS = {"chains": 2, "seed": 4, "check": False, "progress": False}


def drawn(draws=40, sampler=SAMPLER, **settings):
    settings = {"burn_in": 0, **LENGTHS, **settings}
    return st.sample(unequal_linear_problem(), NETWORK, sampler, draws=draws, **settings)


def before_the_rounds(result):
    """Bytes that are not those of messages of the sampler."""
    return result.attrs["bytes_sent"] - int(result.sample_stats["bytes_sent"][:, -1].sum())


@pytest.fixture(scope="module")
def every_round():
    return drawn()


def assert_same(found, wanted, rounds):
    """The statistics of these rounds, of a run whose draw k is round k + 1."""
    for name in ("messages_sent", "bytes_sent"):
        kept = wanted.sample_stats[name].values[:, np.asarray(rounds) - 1]
        np.testing.assert_array_equal(found.sample_stats[name], kept)


def test_messages_are_counted_for_every_draw_chain_and_agent(every_round):
    sent = every_round.sample_stats["messages_sent"].values
    np.testing.assert_array_equal(sent[:, 0], np.tile(DEGREES, (2, 1)))  # all speak in round 1
    np.testing.assert_array_equal(np.unique(np.diff(sent, axis=1) / DEGREES), [0, 1])
    assert (sent[:, -1] < 40 * np.array(DEGREES)).all()
    assert (sent[0] != sent[1]).any()
    np.testing.assert_array_equal(every_round.sample_stats["bytes_sent"], 8 * 3 * sent)


def test_the_account_of_a_run_has_what_was_sent(every_round):
    sent = every_round.sample_stats["messages_sent"].values[:, -1].sum(axis=0)
    in_all = drawn(sampler=st.DULA(0.002, 0.1))
    assert before_the_rounds(every_round) == before_the_rounds(in_all)
    assert every_round.attrs["network_rounds"] == in_all.attrs["network_rounds"]
    assert every_round.attrs["bytes_sent"] < in_all.attrs["bytes_sent"]
    table = every_round.disclosed()
    own = table[table["kind"] == MESSAGES]["numbers"]
    np.testing.assert_array_equal(own, 3 * sent // DEGREES)  # a message is the same to all
    assert f"up to {own.max():,} {MESSAGES}" in disclosed_in_words(every_round.attrs)[0]


def test_burn_in_and_thinning_change_no_count(every_round):
    assert_same(drawn(6, burn_in=10, thin=5), every_round, range(15, 41, 5))


def test_chunks_change_no_count(every_round, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 1e-9)
    assert_same(drawn(), every_round, range(1, 41))


@pytest.mark.quick(1)
@pytest.mark.parametrize("every", [3, 100])
def test_a_resumed_run_has_the_counts_of_one_without_interruption(every_round, tmp_path, every):
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": every, "thin": 2}
    drawn(7, **kept)
    again = drawn(20, **kept, resume=True, output=tmp_path / "draws.nc")
    assert_same(again, every_round, range(2, 41, 2))
    assert_same(st.load(tmp_path / "draws.nc"), every_round, range(2, 41, 2))
    assert again.attrs["bytes_sent"] == every_round.attrs["bytes_sent"]
    fewer = drawn(5, **kept, resume=True)
    assert_same(fewer, every_round, range(2, 11, 2))
    assert before_the_rounds(fewer) == before_the_rounds(every_round)


class Keeping(LocalCommunicator):
    """A runtime in which every process keeps its own draws."""

    collects = False


def test_a_process_that_keeps_its_draws_has_the_counts_of_its_agents(every_round):
    network = NETWORK.distributed(range(6), Keeping())
    problem = unequal_linear_problem()
    found = st.sample(problem, network, SAMPLER, draws=40, burn_in=0, **LENGTHS)
    assert_same(found, every_round, range(1, 41))


def test_samplers_that_do_not_count_have_a_message_in_every_round():
    found = drawn(5, st.DULA(0.002, 0.1))
    wanted = np.multiply.outer(np.arange(1, 6), DEGREES)
    np.testing.assert_array_equal(found.sample_stats["messages_sent"], [wanted, wanted])
    assert "disclosed_each" not in found.attrs
