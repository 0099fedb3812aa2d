"""Agents to processes: nobody is left out, few links are cut, and rows are shared evenly."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.network.partition import UNEVEN, divide

pytest.importorskip("pymetis", reason="METIS comes with the extra `mpi`")

GRAPHS = {
    "ring": st.Network.ring(60),
    "star": st.Network.star(60),
    "complete": st.Network.complete(20),
    "power-law": st.Network(nx.barabasi_albert_graph(300, 2, seed=0)),
    "grid": st.Network.grid(20, 20),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("parts", [1, 2, 3, 8])
def test_every_part_has_agents_and_about_as_many_rows(graph, parts):
    network = GRAPHS[graph]
    rows = np.random.default_rng(0).integers(50, 150, size=network.size)
    found = divide(network, parts, rows)
    assert sorted(np.unique(found.owner)) == list(range(parts))
    assert found.rows_of_parts.sum() == rows.sum()
    assert found.imbalance < 1.2
    edges = np.array([(int(a), int(b)) for a, b in network.graph.edges])
    assert found.cut == np.sum(found.owner[edges[:, 0]] != found.owner[edges[:, 1]])


def test_few_links_are_cut():
    assert divide(GRAPHS["ring"], 4).cut == 4
    assert divide(GRAPHS["grid"], 4).cut <= 60
    random = np.random.default_rng(0).integers(4, size=300)
    edges = np.array(GRAPHS["power-law"].graph.edges)
    by_chance = np.sum(random[edges[:, 0]] != random[edges[:, 1]])
    assert divide(GRAPHS["power-law"], 4).cut < 0.7 * by_chance


def test_a_small_network_is_divided_by_rows():
    """One large site and many small ones: the best is to leave the large one alone."""
    found = divide(st.Network.ring(7), 2, [60, 10, 10, 10, 10, 10, 10])
    assert found.imbalance == 1.0
    assert found.imbalance <= UNEVEN
    assert "2 processes with 1 to 6 agents each; 2 of 7 links" in str(found)


@pytest.mark.parametrize("agents", range(3, 12))
def test_as_many_processes_as_agents_hold_one_each(agents):
    rows = np.arange(1, agents + 1) ** 2
    assert sorted(divide(st.Network.ring(agents), agents, rows).owner) == list(range(agents))


def test_impossible_divisions_are_refused():
    with pytest.raises(ValueError, match="4 processes are more than the 3 agents"):
        divide(st.Network.ring(3), 4)
    with pytest.raises(ValueError, match="`rows` must be 3 numbers from 1 up"):
        divide(st.Network.ring(3), 2, [1, 0, 2])
    with pytest.raises(ValueError, match="`num_parts` must be"):
        divide(st.Network.ring(3), 0)


def test_agents_in_order_leave_no_part_out():
    """Two large sites side by side: the middle of each is two parts from the other's."""
    found = divide(st.Network.path(6), 5, np.array([1, 1, 90, 90, 1, 1]))
    assert found.owner.tolist() == [0, 0, 1, 2, 3, 4]
    assert found.cut == 4
