"""Networks on graphs whose answers are known in closed form."""

from __future__ import annotations

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.network._gathered_twice import GatheredTwice
from starlings.network.delivery import Dense, Links, Lists, Total, Wiring
from tests.problems import irregular_graph
from tests.quick import quick_cases


def test_ring_spectrum():
    expected = np.sort(2 - 2 * np.cos(2 * np.pi * np.arange(7) / 7))
    np.testing.assert_allclose(st.Network.ring(7).laplacian_spectrum(), expected, atol=1e-12)


def test_complete_star_and_path_spectra():
    np.testing.assert_allclose(
        st.Network.complete(6).laplacian_spectrum(), [0] + [6] * 5, atol=1e-12
    )
    np.testing.assert_allclose(
        st.Network.star(6).laplacian_spectrum(), [0, 1, 1, 1, 1, 6], atol=1e-12
    )
    path = np.sort(2 - 2 * np.cos(np.pi * np.arange(5) / 5))
    np.testing.assert_allclose(st.Network.path(5).laplacian_spectrum(), path, atol=1e-12)


def test_metropolis_weights():
    network = st.Network(irregular_graph())
    W = network.mixing.toarray()
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W.sum(axis=0), 1.0)
    assert W[0, 1] == pytest.approx(1 / 5)  # degrees 4 and 2
    assert W[4, 5] == pytest.approx(1 / 4)  # degrees 3 and 1
    assert W[0, 5] == 0
    assert network.mixing_spectrum()[-1] == pytest.approx(1.0)


def test_grid_and_small_world():
    grid = st.Network.grid(2, 3)
    assert sorted(grid.degrees) == [2, 2, 2, 2, 3, 3]
    assert grid.graph.has_edge(0, 3)
    world = st.Network.small_world(20, 4, 0.3, seed=1)
    assert world.num_edges == 40
    assert nx.is_connected(world.graph)


def test_no_edges_warns():
    with pytest.warns(UserWarning, match="3 agents and no edges"):
        network = st.Network.no_edges(3)
    np.testing.assert_array_equal(network.mixing.toarray(), np.eye(3))


def test_names_are_matched_by_name_then_by_number():
    named = st.Network(nx.Graph([("c", "a"), ("a", "b")])).matched_to(["a", "b", "c"])
    assert named.names == ["a", "b", "c"]
    assert named.degrees.tolist() == [2, 1, 1]
    numbered = st.Network(nx.path_graph(3)).matched_to(["x", "y", "z"])
    assert numbered.names == ["x", "y", "z"]
    assert numbered.degrees.tolist() == [1, 2, 1]


WIRED = {
    "irregular": (irregular_graph(), Dense),
    "star": (nx.star_graph(40), Lists),
    "ring": (nx.cycle_graph(9), Lists),
    "hub": (nx.barabasi_albert_graph(300, 2, seed=0), Lists),
    "complete": (nx.complete_graph(7), Total),
    "two": (nx.path_graph(2), Total),
    "no edges": (nx.empty_graph(3), Lists),
    "crowded": (nx.gnp_random_graph(30, 0.8, seed=0), Dense),
}
QUICK_WIRED = ("two", "crowded", "hub")
"""One graph for each form of wiring, for the quick suite."""


@pytest.mark.quick(1)
@pytest.mark.filterwarnings("ignore:The network has 3 agents and no edges")
@pytest.mark.parametrize("name", quick_cases(WIRED, QUICK_WIRED))
def test_every_form_of_wiring_delivers_the_same_inbox(name):
    graph, form = WIRED[name]
    network = st.Network(graph)
    messages = np.random.default_rng(0).normal(size=(network.size, 4))
    with jax.enable_x64(True):
        chosen = Wiring.of(network, np.float64)
        assert isinstance(chosen, form)
        links = Links.of(network)
        forms = [chosen, Dense.from_links(links, np.float64)]
        forms += [Lists.from_links(links, np.float64, width) for width in (0, 1, 3)]
        inboxes = [wiring.deliver(jnp.asarray(messages)) for wiring in forms]
    largest = np.full_like(messages, -np.inf)
    for i, j in zip(*network.adjacency.nonzero(), strict=True):
        largest[i] = np.maximum(largest[i], messages[j])
    for inbox in inboxes:
        for _ in range(3):  # a sum that is read again may be another copy of it
            np.testing.assert_allclose(inbox.sum, network.adjacency @ messages, atol=1e-13)
        np.testing.assert_allclose(inbox.mix, network.mixing @ messages, atol=1e-13)
        np.testing.assert_array_equal(inbox.max, largest)


def test_an_inbox_cannot_be_changed():
    inbox = st.Inbox(sum=1.0, mix=2.0, max=3.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        inbox.sum = 4.0
    assert jax.tree.leaves(inbox) == [1.0, 2.0, 3.0]


def test_an_inbox_gathered_twice_hands_out_its_copies_in_turn():
    """Each use of the sum reads its own copy, from the start in every traced function."""
    inbox = GatheredTwice(("first", "second"), mix="mix", max="max")
    assert [inbox.sum for _ in range(3)] == ["first", "second", "first"]
    again = jax.tree.map(str.upper, inbox)
    assert isinstance(again, st.Inbox)
    assert (again.sum, again.sum, again.mix, again.max) == ("FIRST", "SECOND", "MIX", "MAX")
    with pytest.raises(dataclasses.FrozenInstanceError):
        inbox.mix = "other"


def test_a_hub_pays_for_its_degree_alone():
    network = st.Network.star(5000)
    with jax.enable_x64(True):
        wiring = Wiring.of(network, np.float64)
    assert len(wiring.columns) == 1
    assert wiring.surplus.senders.size == 4999 - 1


def test_a_network_can_be_handed_to_another_process():
    network = st.Network.ring(5).lossy(loss=0.3)
    again = pickle.loads(pickle.dumps(network))
    assert (again.names, again.pace, again.num_edges) == (network.names, network.pace, 5)
