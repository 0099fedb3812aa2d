"""Distances in a graph, counted in edges, and the agent in its middle.

Every process knows the whole graph, so that these cost no message. The eccentricity of an agent is
its distance from the agent farthest from it, and the centre is the agent of least eccentricity:
from there a flood reaches everybody soonest. In a large graph the distances from a few agents, the
ends, say enough. No eccentricity is less than

    bound_i = max_e distance(i, e)   over the ends e                                        (1)

The agent of least bound is tried, and the agent farthest from it is the next end. The search is
over when an agent's eccentricity is its bound, as in a tree after two ends.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, shortest_path

LARGEST_SEARCHED = 10_000_000
"""Agents times links up to which all distances are computed to find the centre, which takes less
than a second."""
MOST_ENDS = 4
"""Number of ends of eq. (1) at most; the best agent that was tried is taken then."""


def hops(adjacency: scipy.sparse.csr_array, root: int) -> np.ndarray:
    """The distance of every agent of a connected graph from the agent `root`, in edges.

    Every agent looks ahead on its way to the root twice as far each time: few passes are enough.
    """
    ahead = breadth_first_order(adjacency, root)[1]
    ahead[root] = root
    distance = (np.arange(len(ahead)) != root).astype(int)
    while (ahead != root).any():
        distance, ahead = distance + distance[ahead], ahead[ahead]
    return distance


def centre_of(adjacency: scipy.sparse.csr_array) -> int:
    """The number of the agent of least eccentricity, the smallest if there are several."""
    size, degrees = adjacency.shape[0], np.diff(adjacency.indptr)
    if degrees.max() in (0, size - 1):
        return int(degrees.argmax())
    if size * adjacency.nnz > LARGEST_SEARCHED:
        return _centre_between_ends(adjacency)
    return int(shortest_path(adjacency, unweighted=True).max(axis=1).argmin())


def _centre_between_ends(adjacency: scipy.sparse.csr_array) -> int:
    """The centre by eq. (1), or the agent of least eccentricity that was tried."""
    bound, tried = np.zeros(adjacency.shape[0], int), {}
    for _ in range(MOST_ENDS):
        agent = int(bound.argmin())
        distance = hops(adjacency, agent)
        tried[agent] = int(distance.max())
        if tried[agent] == bound[agent]:
            return agent
        bound = np.maximum(bound, hops(adjacency, int(distance.argmax())))  # (1)
    return min(tried, key=lambda agent: (tried[agent], agent))
