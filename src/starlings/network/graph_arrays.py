"""A graph of agents as arrays: who is whose neighbour, weights, distances and spectra.

With adjacency A, degrees d_i and agents 0..N-1,

    Laplacian            L = diag(d) - A                                    (1)
    Metropolis weights   W_ij = 1 / (1 + max(d_i, d_j)) for neighbours,     (2)
                         W_ii = 1 - sum_j W_ij

W is symmetric and doubly stochastic, so that mixing keeps the network's average.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse

from starlings.network.hops import centre_of, hops


class GraphArrays:
    """What follows from a graph and the order of its nodes alone."""

    graph: nx.Graph
    nodes: list[Any]

    @property
    def size(self) -> int:
        """The number of agents."""
        return len(self.nodes)

    @property
    def num_edges(self) -> int:
        """The number of undirected edges."""
        return self.graph.number_of_edges()

    @cached_property
    def adjacency(self) -> scipy.sparse.csr_array:
        """A, sparse; row i lists the neighbours of agent i, in order."""
        matrix = nx.to_scipy_sparse_array(self.graph, nodelist=self.nodes, weight=None)
        adjacency = scipy.sparse.csr_array(matrix, dtype=float)
        adjacency.sort_indices()
        return adjacency

    @cached_property
    def degrees(self) -> np.ndarray:
        """The number of neighbours of each agent."""
        return np.diff(self.adjacency.indptr)

    @cached_property
    def shares(self) -> np.ndarray:
        """The part of the posterior that each agent carries, (agent,); see `shares_by_degree`."""
        return shares_by_degree(self.degrees)

    @cached_property
    def diameter(self) -> int:
        """The largest number of rounds in which a flood from any agent reaches every agent."""
        return nx.diameter(self.graph) if self.num_edges else 0

    @cached_property
    def depth(self) -> int:
        """The number of rounds in which a flood from agent 0 reaches every agent."""
        return int(hops(self.adjacency, 0).max()) if self.num_edges else 0

    @property
    def is_complete(self) -> bool:
        """Whether all agents are neighbours of each other."""
        return 2 * self.num_edges == self.size * (self.size - 1)

    @cached_property
    def centre(self) -> int:
        """The number of the agent from which a flood reaches every agent soonest.

        The smallest number if there are several; in large networks about in the middle.
        """
        return centre_of(self.adjacency)

    @cached_property
    def radius(self) -> int:
        """The number of rounds in which a flood from the `centre` reaches every agent."""
        return int(hops(self.adjacency, self.centre).max()) if self.num_edges else 0

    @property
    def laplacian(self) -> np.ndarray:
        """L of eq. (1), dense."""
        return np.diag(self.degrees.astype(float)) - self.adjacency.toarray()

    @cached_property
    def mixing(self) -> scipy.sparse.csr_array:
        """The Metropolis weights W of eq. (2), sparse."""
        rows, columns = self.adjacency.nonzero()
        weights = metropolis_weights(self.degrees[rows], self.degrees[columns])
        off = scipy.sparse.csr_array((weights, (rows, columns)), shape=(self.size, self.size))
        own = scipy.sparse.diags_array(1.0 - np.asarray(off.sum(axis=1)).ravel())
        return scipy.sparse.csr_array(off + own)

    def laplacian_spectrum(self) -> np.ndarray:
        """The eigenvalues of L, ascending; the second is the algebraic connectivity.

        >>> import starlings
        >>> starlings.Network.ring(4).laplacian_spectrum().round(12) + 0.0
        array([0., 2., 2., 4.])
        """
        return np.linalg.eigvalsh(self.laplacian)

    def mixing_spectrum(self) -> np.ndarray:
        """The eigenvalues of W, ascending; the last is 1."""
        return np.linalg.eigvalsh(self.mixing.toarray())


def shares_by_degree(degrees: np.ndarray) -> np.ndarray:
    """The part of the posterior that each agent carries: d_i / sum_j d_j, or 1/N without edges.

    >>> shares_by_degree(np.array([1, 2, 1])), shares_by_degree(np.zeros(2))
    (array([0.25, 0.5 , 0.25]), array([0.5, 0.5]))
    """
    total = degrees.sum()
    return degrees / total if total > 0 else np.full(len(degrees), 1 / len(degrees))


def metropolis_weights(degrees: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """W_ij of eq. (2) for links between agents of these degrees, one entry for each link."""
    return 1.0 / (1.0 + np.maximum(degrees, neighbours))  # (2)
