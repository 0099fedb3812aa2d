"""Who has to pool what they know before they read the numbers of a single site."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.errors import PrivacyError
from starlings.network.communicator import LocalCommunicator
from starlings.privacy.fixed_point import Words, encoded
from starlings.privacy.keys import agreed_keys
from starlings.privacy.masks import Masks
from starlings.privacy.secrecy import Secrecy
from starlings.runtime.maskable import check_maskable, readable_by
from starlings.runtime.neighbourhoods import Neighbourhoods

NESTED = nx.Graph({0: [2, 3, 4], 1: [2, 3], 2: [4], 3: [4], 4: []})
"""The neighbours of 1 are those of 0 but for 4."""
CUBE = nx.convert_node_labels_to_integers(nx.hypercube_graph(3))
GRAPHS = {
    "ring": nx.cycle_graph(7),
    "complete": nx.complete_graph(5),
    "nested": NESTED,
    "cube": CUBE,
    "star": nx.star_graph(4),
}


@pytest.mark.parametrize("reads", ["sum", "mix"])
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_a_coalition_reads_what_linear_algebra_says(graph, reads):
    """The totals of our own masked runs determine exactly the messages that are said to be read."""
    network = st.Network(graph)
    masked = network.masked(Secrecy.agreed(network))
    messages = np.random.default_rng(0).normal(size=(network.size, 1))
    totals = Neighbourhoods.of(masked, reads).totals(messages)
    matrix = (network.adjacency if reads == "sum" else network.mixing).toarray()
    np.testing.assert_allclose(totals, matrix @ messages, atol=1e-14)
    for number in (1, 2, 3):
        for coalition in itertools.combinations(range(network.size), number):
            own = np.eye(network.size)[list(coalition)]
            known = np.concatenate([own, matrix[list(coalition)]])
            values = np.concatenate([messages[list(coalition)], totals[list(coalition)]])
            best, *_ = np.linalg.lstsq(known, values, rcond=None)
            free = np.abs(np.eye(network.size) - np.linalg.pinv(known) @ known).max(axis=1)
            wanted = [k for k in np.flatnonzero(free < 1e-9) if k not in coalition]
            assert readable_by(network, coalition, reads) == wanted
            np.testing.assert_allclose(best[wanted], messages[wanted], atol=1e-9)


def test_two_sites_of_a_ring_read_a_third_and_so_do_nested_neighbourhoods():
    """Site 1 has x_0 + x_2, and site 2 has x_2; the totals of 0 and 1 differ by x_4."""
    assert readable_by(st.Network.ring(10), [1, 2]) == [0, 3]
    assert readable_by(st.Network(NESTED), [0, 1]) == [4]
    assert readable_by(st.Network.ring(10), [1, 4]) == []


@pytest.mark.parametrize("size", [3, 4, 6])
def test_on_a_complete_graph_all_but_one_have_to_pool(size):
    network = st.Network.complete(size)
    for number in range(1, size):
        expected = [size - 1] if number == size - 1 else []
        assert readable_by(network, range(number)) == expected


def test_no_single_site_reads_another_where_all_have_two_neighbours():
    random = np.random.default_rng(1)
    for _ in range(50):
        graph = nx.gnp_random_graph(8, 0.4, seed=int(random.integers(1000)))
        if min(dict(graph.degree).values()) >= 2 and nx.is_connected(graph):
            network = st.Network(graph)
            assert not any(readable_by(network, [site]) for site in range(8))


def test_what_one_site_could_read_is_refused_whatever_the_guard_rails_say():
    network = st.Network.path(3)
    secrecy = Secrecy.agreed(network)
    secrecy.fewest_neighbours = 1
    with pytest.raises(PrivacyError, match=r"the agent '0' could compute the messages of '1'.*Add"):
        check_maskable(network.masked(secrecy), st.DADMMS)


class OneOfTwo(LocalCommunicator):
    """What the first of two processes has."""

    size = 2


def test_what_one_process_could_read_is_refused():
    """Sites 0 and 1 of a ring of five, in one process, read sites 2 and 4."""
    for network, is_refused in ((st.Network.ring(5), True), (st.Network.complete(5), False)):
        masked = network.masked(Secrecy.agreed(network)).distributed([0, 1], OneOfTwo())
        if not is_refused:
            check_maskable(masked, st.DADMMS)
            continue
        with pytest.raises(PrivacyError, match="the process of the agents '0', '1' could compute"):
            check_maskable(masked, st.DADMMS)


SITES = ["Ashby", "Brook", "Cliff", "Downs"]


@pytest.mark.parametrize("left", [1, 2])
def test_all_but_two_sites_read_nothing_of_a_total_over_all(left):
    """All but one take every mask off the last one's number; two others keep theirs secret."""
    keys = agreed_keys(SITES, SITES, LocalCommunicator())
    masks, values = Masks.of(SITES, keys, "sums"), np.array([[3.25], [2.0], [-1.0], [0.5]])
    sent = Words.from_limbs(masks.masked(values)[0].reshape(-1, 4))
    for other in SITES[left:]:  # what the coalition knows of the masks of the first site
        pair = Masks.of(["Ashby", other], {other: keys[other]}, "1")
        pair.local[other].pairs = [(masks.local[other].pair_keys["Ashby"], False)]
        sent = sent.plus(pair.local[other].of_sum(0, 2))
    bare = encoded(np.append(values[0], 1.0), 4)
    assert np.array_equal(sent.low, bare.low) == (left == 1)
    assert np.array_equal(sent.high, bare.high) == (left == 1)
