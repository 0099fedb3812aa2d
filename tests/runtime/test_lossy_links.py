"""Networks with faults: what is refused, and that the same seed has the same faults."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.errors import CheckpointError, LossyLinksError
from starlings.network.communicator import LocalCommunicator
from starlings.runtime import chunks
from starlings.runtime.unreliable import LinkByLink, OnLinks, check_links
from starlings.study.study import Study
from tests.problems import irregular_graph, paper_problem, unequal_linear_problem

PROBLEM, NETWORK = unequal_linear_problem(), st.Network(irregular_graph())
FAULTS = {"loss": 0.3, "delay": 2, "asleep": 0.2}
SHORT = {"draws": 12, "chains": 2, "burn_in": 3, "check": False, "progress": False}
SAMPLER = st.AsyncDADMMS(2.0)
STUDY = """
[model]
kind = "linear_regression"
outcome = "y"
covariates = ["x"]
noise_std = 1.0

[data]
file = "rows.csv"
site = "site"

[network]
graph = "path"
lossy = {loss = 0.3, delay = 1, seed = 4}

[sampler]
name = "async-dadmms"
rho = 2.0

[run]
draws = 5
chains = 2
burn_in = 2
"""


def drawn(network, sampler=SAMPLER, **settings):
    return st.sample(PROBLEM, network, sampler, **{**SHORT, **settings}).posterior["beta"].values


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("loss", 1.0, "below 1"),
        ("loss", -0.1, "at least 0"),
        ("loss", [0.1, 0.2], "broadcast to 6 x 6"),
        ("loss", "much", "must be a number"),
        ("delay", 0.5, "whole numbers of rounds"),
        ("delay", -1, "0 or more"),
        ("asleep", [[0.1]], "broadcast to 6,"),
        ("asleep", float("nan"), "below 1"),
        ("seed", -1, "`seed` must be a whole number"),
        ("seed", 2**32, r"below 2\*\*32"),
    ],
)
def test_wrong_faults_are_refused(name, value, what):
    with pytest.raises(ValueError, match=what):
        NETWORK.lossy(**{name: value})


@pytest.mark.parametrize(
    "how",
    [
        {"sampler": st.DADMMS(2.0)},
        {"sampler": st.DSGLD(0.01)},
        {"sampler": st.DADMMS},
        {"method": "hmc"},
        {"method": "weights"},
        {"method": "dadmms"},
        {},
    ],
    ids=str,
)
def test_what_waits_for_every_message_is_refused_where_some_are_lost(how):
    with pytest.raises(LossyLinksError, match=r"waits for every message.*AsyncDADMMS"):
        st.sample(PROBLEM, NETWORK.lossy(0.1), **how)


class TwoProcesses(LocalCommunicator):
    size = 2


def test_several_processes_are_refused():
    """Both where a run is asked for and where a runtime begins one."""
    cut = NETWORK.distributed([0, 1, 2], TwoProcesses())
    for refusing in (lambda: check_links(cut, SAMPLER), lambda: OnLinks.of(SAMPLER, cut)):
        with pytest.raises(LossyLinksError, match=r"runtime of one process"):
            refusing()
    check_links(cut, st.DADMMS(2.0))


def test_masks_and_networks_without_edges_are_refused():
    with pytest.raises(st.PrivacyError, match="cannot be masked"):
        st.sample(paper_problem(6), NETWORK, SAMPLER, privacy="totals", **SHORT)
    with pytest.warns(st.DisconnectedNetworkWarning):
        nobody = st.Network.no_edges(6)
    with pytest.raises(ValueError, match="needs a network with edges"):
        st.sample(PROBLEM, nobody, SAMPLER, **SHORT)


def test_the_faults_of_a_network_follow_its_nodes():
    """In another order of the sites, each link keeps its own faults."""
    loss = np.arange(36.0).reshape(6, 6) / 100
    order = ["3", "1", "5", "0", "2", "4"]
    moved = NETWORK.lossy(loss=loss, delay=2, asleep=np.arange(6) / 10).matched_to(
        [NETWORK.names[int(i)] for i in order]
    )
    found, numbers = moved.faults, np.array(order, int)
    np.testing.assert_array_equal(found.loss, loss[np.ix_(numbers, numbers)])
    np.testing.assert_array_equal(found.asleep, numbers / 10)
    assert found.delay.shape == (1, 1)
    assert NETWORK.faults is None
    assert NETWORK.pace == NETWORK.lossy().pace == 1.0


def test_every_slot_leads_back_to_its_agent():
    wiring = LinkByLink.over(NETWORK)
    senders, back, exists = (np.asarray(a) for a in (wiring.senders, wiring.back, wiring.exists))
    for i in range(6):
        neighbours = sorted(irregular_graph().adj[i])
        assert senders[i, : len(neighbours)].tolist() == neighbours
        assert exists[i, :, 0].tolist() == [slot < len(neighbours) for slot in range(4)]
        assert all(senders[j, back[i, slot]] == i for slot, j in enumerate(neighbours))


def test_messages_are_lost_as_often_as_is_asked():
    """In each chain by itself, and those of a chain do not depend on how many there are."""
    network = NETWORK.lossy(loss=0.3, seed=8)
    wiring = LinkByLink.over(network)

    def arrivals(chains, rounds=200):
        messages = jnp.ones((6, 1, 4, 1, chains))
        arrived = jax.jit(lambda index: wiring.inboxes(messages, index).inbox.arrived)
        came = np.array([arrived(index) for index in range(1, rounds + 1)])
        return came[:, np.asarray(wiring.exists)[:, :, 0]]

    found, single = arrivals(3), arrivals(1)
    np.testing.assert_array_equal(found[..., :1], single)
    error = np.sqrt(0.3 * 0.7 / found[..., 0].size)
    assert np.abs(found.mean(axis=(0, 1)) - 0.7).max() < 4.5 * error
    assert (found[..., 0] != found[..., 1]).any()


@pytest.mark.slow
def test_a_run_is_repeated_and_resumed_with_the_same_faults(tmp_path, monkeypatch):
    network = NETWORK.lossy(**FAULTS, seed=3)
    first = st.sample(PROBLEM, network, SAMPLER, **SHORT)
    assert json.loads(first.attrs["network"])["faults"] == network.faults.described()
    whole = first.posterior["beta"].values
    np.testing.assert_array_equal(whole, drawn(network))
    assert not np.allclose(whole, drawn(NETWORK.lossy(**FAULTS, seed=4)))
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 1e-9)
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 2}
    drawn(network, draws=5, **kept)
    with pytest.raises(CheckpointError, match="its `faults`"):
        drawn(NETWORK.lossy(**FAULTS, seed=4), resume=True, **kept)
    np.testing.assert_array_equal(whole, drawn(network, resume=True, **kept))


def test_a_study_names_its_faults(tmp_path):
    (tmp_path / "rows.csv").write_text("site,x,y\na,1,2\na,2,3\nb,0,1\nb,1,1\nc,3,3\n")
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    study = Study.read(path)
    network = study.make_network(["a", "b", "c"])
    assert network.faults.described() == {
        "loss": [[0.3]],
        "delay": [[1]],
        "asleep": [0.0],
        "seed": 4,
    }
    assert study.make_sampler() == st.AsyncDADMMS(2.0)
    path.write_text(STUDY.replace("loss = 0.3", "los = 0.3"))
    with pytest.raises(ValueError, match=r"network\.lossy\] unknown key `los`.*'loss'"):
        Study.read(path)
    path.write_text(STUDY.replace("loss = 0.3", "loss = 2.0"))
    with pytest.raises(ValueError, match=r"network\.lossy\] `loss` must be at least 0"):
        Study.read(path).make_network(["a", "b", "c"])


@pytest.mark.slow
def test_tuned_on_a_lossy_network():
    """Tuning waits for its sums; what it predicts of a draw's rounds has the network's pace."""
    network, quiet = NETWORK.lossy(0.4), {"progress": False, "check": False}
    tuned = st.tune(PROBLEM, network, sampler=st.AsyncDADMMS)
    waiting = st.tune(PROBLEM, NETWORK, sampler=st.AsyncDADMMS)
    slower = tuned.predicted_rounds_per_draw / waiting.predicted_rounds_per_draw
    assert slower == pytest.approx(1 / 0.6)
    result = st.sample(PROBLEM, network, st.AsyncDADMMS, draws=1500, chains=8, seed=1, **quiet)
    mean, covariance = PROBLEM.exact_posterior()
    draws = result.posterior["beta"].values
    sd = np.sqrt(np.diag(covariance))
    effective = draws.shape[0] * draws.shape[1] / 2  # thinned to half of what one takes
    assert np.abs((draws.mean(axis=(0, 1)) - mean) / sd).max() < 5 / np.sqrt(effective)
    np.testing.assert_allclose(
        draws.std(axis=(0, 1)) / sd, 1, atol=0.02 + 5 / np.sqrt(2 * effective)
    )
