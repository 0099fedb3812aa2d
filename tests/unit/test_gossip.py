"""Exact sums, maxima and floods over a network, and what they cost."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.network import hops as distances
from starlings.network.gossip import Gossip, Ledger
from tests.problems import irregular_graph

MIDDLE = nx.Graph([(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 6)])
GRAPHS = {
    "irregular": irregular_graph(),
    "ring": nx.cycle_graph(7),
    "even ring": nx.cycle_graph(8),
    "star": nx.star_graph(5),
    "path": nx.path_graph(6),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3)),
    "complete": nx.complete_graph(5),
    "two agents": nx.path_graph(2),
    "one agent": nx.path_graph(1),
    "0 in the middle": MIDDLE,
    "0 at the end of a long path": nx.relabel_nodes(nx.path_graph(9), {0: 4, 4: 0}),
    **{f"tree {seed}": nx.random_labeled_tree(11, seed=seed) for seed in range(3)},
}


def network_of(graph: str) -> st.Network:
    nodes = sorted(GRAPHS[graph].nodes)
    ordered = nx.Graph()
    ordered.add_nodes_from(nodes)
    ordered.add_edges_from(GRAPHS[graph].edges)
    return st.Network(ordered)


def cost_of(gossip: Gossip, action) -> tuple[int, int, int]:
    before = dataclasses.replace(gossip.ledger)
    action()
    after = gossip.ledger
    return (
        after.rounds - before.rounds,
        after.messages - before.messages,
        after.floats - before.floats,
    )


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_centre_has_the_least_eccentricity(graph):
    network = network_of(graph)
    assert network.centre == min(nx.center(network.graph))
    assert network.radius == nx.radius(network.graph)
    assert network.depth == nx.eccentricity(network.graph, 0)


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_centre_is_found_from_a_few_distances_too(graph, monkeypatch):
    monkeypatch.setattr(distances, "LARGEST_SEARCHED", 0)
    network = network_of(graph)
    assert network.centre == min(nx.center(network.graph))


@pytest.mark.slow
def test_the_centre_of_many_agents_is_found_soon():
    network = st.Network(nx.path_graph(100_001))
    assert (network.centre, network.radius, network.depth) == (50_000, 50_000, 100_000)


def test_a_network_without_edges_has_no_radius():
    with pytest.warns(UserWarning, match="will not agree"):
        network = st.Network.no_edges(3)
    assert (network.centre, network.radius, network.depth) == (0, 0, 0)


@pytest.mark.parametrize("graph", GRAPHS)
def test_sums_are_right_and_the_same_in_every_bit(graph):
    network = network_of(graph)
    parts = np.random.default_rng(0).normal(size=(network.size, 4, 3)) * 10.0 ** np.arange(3)
    with jax.enable_x64(True):
        gossip = Gossip(network)
        assert gossip.ledger == Ledger(), "levels are computed from the graph"
        total = np.asarray(gossip.sum(jnp.asarray(parts)))
    np.testing.assert_allclose(total[0], parts.sum(axis=0), rtol=1e-13, atol=1e-12)
    assert all(np.array_equal(total[0], copy) for copy in total)
    levels = nx.single_source_shortest_path_length(network.graph, network.centre)
    assert gossip.level.tolist() == [levels[node] for node in network.nodes]


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_sum_takes_one_round_or_twice_the_radius(graph):
    network = network_of(graph)
    size, links = network.size, 2 * network.num_edges
    levels = nx.single_source_shortest_path_length(network.graph, network.centre)
    upward = sum(levels[a] != levels[b] for a, b in network.graph.edges)
    complete = links == size * (size - 1)
    rounds = min(size - 1, 1) if complete else 2 * network.radius
    messages = links if complete else upward + links
    with jax.enable_x64(True):
        gossip = Gossip(network)
        assert gossip.rounds_per_sum == rounds
        cost = cost_of(gossip, lambda: gossip.sum(np.ones((size, 5))))
    assert cost == (rounds, messages, 5 * messages)
    assert gossip.ledger.bytes == 8 * 5 * messages


@pytest.mark.parametrize("graph", GRAPHS)
def test_everybody_hears_the_largest_wherever_it_is(graph):
    network = network_of(graph)
    values = np.random.default_rng(1).normal(size=(network.size, network.size))
    values[np.diag_indices(network.size)] = 10.0 + np.arange(network.size)  # column k: agent k's
    heard = []
    with jax.enable_x64(True):
        gossip = Gossip(network)
        cost = cost_of(gossip, lambda: heard.append(gossip.max(values)))
    np.testing.assert_array_equal(heard[0], np.tile(values.max(axis=0), (network.size, 1)))
    rounds, links = gossip.rounds_per_sum, 2 * network.num_edges
    assert cost == (rounds, rounds * links, rounds * links * network.size)


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_flood_brings_the_roots_value_to_everybody(graph):
    network = network_of(graph)
    values = np.random.default_rng(1).normal(size=(network.size, 2, 3))
    flooded = []
    with jax.enable_x64(True):
        gossip = Gossip(network)
        cost = cost_of(gossip, lambda: flooded.append(gossip.flood(values)))
    wanted = np.broadcast_to(values[network.centre], values.shape)
    np.testing.assert_array_equal(flooded[0], wanted)
    complete = network.num_edges == network.size * (network.size - 1) / 2
    messages = network.size - 1 if complete else 2 * network.num_edges
    assert cost == (network.radius, messages, 6 * messages)


@pytest.mark.parametrize("columns", [1, 32, 33, 512, 513])
def test_sums_of_any_width(columns):
    network = st.Network(irregular_graph())
    parts = np.random.default_rng(columns).normal(size=(6, columns, 1))
    with jax.enable_x64(True):
        gossip = Gossip(network)
        total = gossip.sum(parts)
    assert total.shape == parts.shape
    np.testing.assert_allclose(total[3], parts.sum(axis=0), rtol=1e-12, atol=1e-13)
    assert gossip.ledger.floats == gossip.ledger.messages * columns


def test_sums_need_edges():
    with pytest.warns(UserWarning, match="will not agree"):
        network = st.Network.no_edges(3)
    with pytest.raises(ValueError, match=r"`network` must have edges.*: add edges"):
        Gossip(network)
