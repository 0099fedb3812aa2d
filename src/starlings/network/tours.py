"""A walk along links that visits every agent and ends where it began: the way of a token.

Agents are numbered in the order of a depth-first search, and the walk goes to each of them in turn,
by the shortest way, and then back to the first one. An agent that is passed on the way counts as
visited. Along the tree of the search these ways would use every link of the tree twice, so that

    hops <= 2 (N - 1)                                                                       (1)

on every connected graph of N > 1 agents. It is N where the search ends at a neighbour of its
beginning, such as on a ring or a complete graph, and 2 (N - 1) on a tree, where no walk is shorter.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order


def tour(adjacency: scipy.sparse.csr_array, start: int = 0) -> np.ndarray:
    """The agents of a closed walk from `start`, which is the first and the last of them.

    Args:
        adjacency: of a connected graph.
        start: the number of an agent.

    >>> import starlings
    >>> tour(starlings.Network.path(3).adjacency).tolist()
    [0, 1, 2, 1, 0]
    >>> tour(starlings.Network.ring(4).adjacency).tolist()
    [0, 1, 2, 3, 0]
    """
    walk, visited = [start], {start}
    for target in _depth_first(adjacency, start):
        if target not in visited:
            way = _way(adjacency, walk[-1], target)
            walk.extend(way)
            visited.update(way)
    return np.array([*walk, *_way(adjacency, walk[-1], start)])


def _depth_first(adjacency: scipy.sparse.csr_array, start: int) -> list[int]:
    """All agents in the order in which a depth-first search finds them."""
    found, waiting = dict.fromkeys([start]), [iter(_neighbours(adjacency, start))]
    while waiting:
        following = next((j for j in waiting[-1] if j not in found), None)
        if following is None:
            waiting.pop()
        else:
            found[following] = None
            waiting.append(iter(_neighbours(adjacency, following)))
    return list(found)


def _neighbours(adjacency: scipy.sparse.csr_array, agent: int) -> list[int]:
    return adjacency.indices[adjacency.indptr[agent] : adjacency.indptr[agent + 1]].tolist()


def _way(adjacency: scipy.sparse.csr_array, here: int, there: int) -> list[int]:
    """The agents after `here` on a shortest way to `there`; none if they are the same."""
    if there in _neighbours(adjacency, here):
        return [there]
    ahead, way = breadth_first_order(adjacency, there)[1], []
    while here != there:
        here = int(ahead[here])
        way.append(here)
    return way
