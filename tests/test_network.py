"""Networks on graphs whose answers are known in closed form."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import starlings as st
from conftest import irregular_graph
from starlings.runtimes.vectorised import Wiring


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


@pytest.mark.parametrize("graph", [irregular_graph(), nx.star_graph(9), nx.complete_graph(7)])
def test_both_wirings_deliver_the_same_inbox(graph, monkeypatch):
    import jax

    network = st.Network(graph)
    messages = np.random.default_rng(0).normal(size=(network.size, 4))
    with jax.enable_x64(True):
        dense = Wiring.of(network, np.float64).deliver(jax.numpy.asarray(messages))
        monkeypatch.setattr("starlings.runtimes.vectorised.DENSE_SIZE", 0)
        sparse = Wiring.of(network, np.float64).deliver(jax.numpy.asarray(messages))
    np.testing.assert_allclose(dense.sum, network.adjacency @ messages, atol=1e-13)
    np.testing.assert_allclose(dense.mix, network.mixing @ messages, atol=1e-13)
    np.testing.assert_allclose(sparse.sum, dense.sum, atol=1e-13)
    np.testing.assert_allclose(sparse.mix, dense.mix, atol=1e-13)
