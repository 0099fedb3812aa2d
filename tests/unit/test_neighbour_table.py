"""The table of neighbours, and the noise that the two ends of an edge share."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.random.addresses import Round, chain_keys
from tests.problems import irregular_graph


def test_neighbours_are_listed_and_nobody_has_a_negative_number():
    network = st.Network(irregular_graph())
    table = network.neighbour_table
    assert table.shape == (6, 4)
    for agent, row in enumerate(table):
        assert sorted(row[row >= 0]) == sorted(network.graph.adj[network.nodes[agent]])
        assert len(set(row)) == 4


@pytest.mark.slow
def test_the_noise_of_an_edge_is_the_same_at_both_ends_and_at_no_other_edge_or_round():
    table = st.Network.ring(4).neighbour_table
    private, shared = chain_keys(5, 1, 4)
    like = jax.ShapeDtypeStruct((3,), np.float32)

    def noise(agent, neighbours, index=1):
        return np.asarray(
            Round(index, private[0, agent], shared[0]).edge_noise(
                agent, np.array(neighbours, np.int32), like
            )
        )

    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    first = {edge: noise(edge[0], edge[1:]) for edge in edges}
    for low, high in edges:
        np.testing.assert_array_equal(first[low, high], noise(high, [low]))
        assert np.all(first[low, high] != noise(low, [high], index=2))
    assert len({tuple(numbers) for numbers in first.values()}) == 4
    np.testing.assert_allclose(noise(0, table[0]), first[0, 1] + first[0, 3], rtol=1e-5)
    np.testing.assert_allclose(noise(0, [1, -2]), first[0, 1], rtol=1e-5)
