"""The way of a token visits every agent, uses links only, and is as short as promised."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.network.tours import tour
from tests.problems import irregular_graph, unequal_linear_problem

GRAPHS = {
    "ring": nx.cycle_graph(7),
    "complete": nx.complete_graph(6),
    "star": nx.star_graph(5),
    "path": nx.path_graph(6),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5), ordering="sorted"),
    "irregular": irregular_graph(),
    **{f"random {s}": nx.connected_watts_strogatz_graph(30, 4, 0.3, seed=s) for s in range(5)},
    **{f"tree {s}": nx.random_labeled_tree(25, seed=s) for s in range(3)},
}
EXACT = {"ring": 7, "complete": 6, "star": 10, "path": 10, **{f"tree {s}": 48 for s in range(3)}}
"""The shortest of all tours, where it is known."""


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("start", [0, 3])
def test_a_tour_is_a_closed_walk_over_all_agents(name, start):
    network = st.Network(GRAPHS[name])
    walk = tour(network.adjacency, start)
    assert walk[0] == walk[-1] == start
    assert set(walk) == set(range(network.size))
    assert np.all(network.adjacency.toarray()[walk[:-1], walk[1:]] == 1)
    assert len(walk) - 1 <= 2 * (network.size - 1)
    assert len(walk) - 1 == EXACT.get(name, len(walk) - 1)


def test_an_agent_alone_makes_no_hop():
    assert tour(st.Network.path(1).adjacency).tolist() == [0]
    assert st.SPLA.on(st.Network.path(1), 0.1).hops == 1


def test_only_the_agent_with_the_token_sends():
    """On a path of three, 0 1 2 1 0, and one round in which nobody sends."""
    network, sampler = st.Network.path(3), st.SPLA(0.1, hops=5)
    sent = sampler.messages_until(np.arange(12), network)
    senders = [0, 1, 2, 1, None]
    expected = np.zeros((12, 3), int)
    for k in range(1, 12):
        expected[k] = expected[k - 1]
        if senders[(k - 1) % 5] is not None:
            expected[k, senders[(k - 1) % 5]] += 1
    np.testing.assert_array_equal(sent, expected)
    assert sampler.gradients_per_round(unequal_linear_problem()) == 1 / 5


def test_samplers_at_one_place_send_nothing_and_say_where_to_run():
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    samplers = (st.PULA(0.1), st.PMALA(0.1), st.MYULA(0.1, st.Ridge(1.0), 0.1))
    for sampler in samplers:
        with pytest.raises(ValueError, match=r"give `problem.pooled\(\)` and `Network.path\(1\)`"):
            st.sample(problem, network, sampler, draws=2)
        assert sampler.floats(3) == 0
        assert not sampler.messages_until(np.arange(4), st.Network.path(1)).any()


def test_a_decision_needs_a_support_with_an_inside():
    problem = unequal_linear_problem().pooled()
    with pytest.raises(ValueError, match="rejects every candidate"):
        st.PMALA(0.1, st.Simplex()).check(problem, st.Network.path(1))


def test_a_token_needs_links_and_enough_rounds():
    problem = unequal_linear_problem()
    with pytest.warns(UserWarning, match="will not agree"):
        apart = st.Network.no_edges(6)
    with pytest.raises(ValueError, match="needs a network with edges"):
        st.SPLA(0.1, hops=8).check(problem, apart)
    with pytest.raises(ValueError, match="`hops` must be at least 8, the length of a tour"):
        st.SPLA(0.1, hops=7).check(problem, st.Network(irregular_graph()))


def test_the_order_of_the_sites_decides_how_long_a_tour_is():
    """A graph made in another order can have shorter tours; the remedy that is named works."""
    graph = nx.Graph()
    graph.add_nodes_from([4, 0, 1, 2, 3])
    graph.add_edges_from([(0, 2), (0, 3), (1, 2), (1, 3), (1, 4), (3, 4)])
    problem, network = st.models.gaussian(np.ones((5, 1, 1))), st.Network(graph)
    with pytest.raises(ValueError, match=r"SPLA.on\(network.matched_to\(problem.sites\), step"):
        st.sample(problem, network, st.SPLA.on(network, 0.1), draws=2)
    sampler = st.SPLA.on(network.matched_to(problem.sites), 0.1)
    assert (st.SPLA.on(network, 0.1).hops, sampler.hops) == (5, 6)
    sampler.check(problem, network.matched_to(problem.sites))
