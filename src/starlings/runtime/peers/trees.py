"""Trees in the network, along which sums and values travel between sites."""

from __future__ import annotations

from dataclasses import dataclass

from starlings.network import Network
from starlings.network.hops import hops


@dataclass(frozen=True)
class Tree:
    """The place of one site in a tree of shortest paths to a root."""

    parent: int | None
    """The neighbour that is next on the way to the root; None at the root."""
    children: tuple[int, ...]
    """The neighbours whose way to the root is over this site, in the order of their numbers."""

    @classmethod
    def of(cls, network: Network, root: int, site: int) -> Tree:
        """The place of a site: among the neighbours nearer to the root the first is its parent."""
        levels = hops(network.adjacency, root)

        def parent(agent: int) -> int | None:
            nearer = [j for j in _neighbours(network, agent) if levels[j] < levels[agent]]
            return min(nearer, default=None)

        children = tuple(j for j in _neighbours(network, site) if parent(j) == site)
        return cls(parent(site), children)


def _neighbours(network: Network, agent: int) -> list[int]:
    return [int(j) for j in network.adjacency[[agent]].indices]
