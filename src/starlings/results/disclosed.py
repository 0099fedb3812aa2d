"""What left each site in a run: every kind of number, how many, who could read it, what follows.

A run records how many numbers of each kind an agent has sent, or the most that any has and how many
each; and which agents, if not all did. Who could read them follows from the way they took:

    sums over the network     the neighbours nearer to the centre of the graph, who get them as they
                              are, or added to those of the sites behind                        (1)
    to neighbours             all neighbours                                                    (2)
    to all                    everybody                                                         (3)
    in the result             process 0, and whoever gets the result                            (4)

Where all sites are neighbours of each other, (1) is (3). Where messages are masked, (1) and (2)
tell nobody more than totals, which are named. What is in the result has left the site too: the
draws of one agent of a sampler in rounds say as much as its messages, masked or not.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd

from starlings.errors import DisconnectedNetworkWarning, first_of
from starlings.results.kinds import (
    ALL,
    IN_RESULT,
    KINDS,
    MESSAGES,
    NEIGHBOURS,
    RESULT,
    SUM,
    UNKNOWN,
)

if TYPE_CHECKING:
    from starlings.network import Network

TOTALS = "nothing about one site beyond what the total over all sites says"
NEIGHBOUR_TOTALS = "nothing about one site beyond what the total over a site's neighbours says"
"""What follows where messages are masked."""
RESULT_READERS = "process 0 and whoever gets the result"
MOST_NAMES = 6
"""Names of sites that are listed; of more, this many and how many more there are."""
COLUMNS = ("kind", "numbers", "readable by", "what follows")


def disclosed(attrs: Mapping[str, Any], sites: list[str]) -> pd.DataFrame:
    """Return one row for each site and kind of number that left it; the index is the site.

    Args:
        attrs: the attributes of a result.
        sites: the names of the agents.
    """
    if "disclosed" not in attrs:
        raise ValueError(
            "this result does not say what left its sites: an older version of starlings made it."
        )
    readers = _Readers.of(attrs)
    names = ("disclosed", "disclosed_by", "disclosed_each")
    kinds, senders, each = (json.loads(attrs.get(name, "{}")) for name in names)
    rows, index = [], []
    for site in sites:
        for kind, most in kinds.items():
            numbers = each.get(kind, {}).get(site, most)
            if numbers and site in senders.get(kind, [site]):
                rows.append((kind, numbers, *readers.row(site, kind)))
                index.append(site)
    return pd.DataFrame(rows, columns=list(COLUMNS), index=pd.Index(index, name="site"))


HUB = "hub"
"""The attribute `through` of a result whose sites sent everything to a hub, which forwards it."""


class _Readers(NamedTuple):
    """Who reads what a site sends, from the graph of a run."""

    network: Network
    levels: np.ndarray
    """The distance of every agent from the centre."""
    is_masked: bool
    processes: int
    """Processes whose draws one of them has collected; 0 if every site keeps its own."""
    has_hub: bool
    """Whether everything went through a hub."""

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> _Readers:
        """Those of a run with these attributes."""
        from starlings.network import Network
        from starlings.network.hops import hops

        described = json.loads(attrs["network"])
        graph: nx.Graph = nx.Graph()
        graph.add_nodes_from(described["agents"])
        graph.add_edges_from(described["edges"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisconnectedNetworkWarning)
            network = Network(graph)
        levels = hops(network.adjacency, network.centre) if network.num_edges else np.zeros(1, int)
        is_masked = attrs.get("privacy") == "totals"
        has_hub = attrs.get("through") == HUB
        return cls(network, levels, is_masked, int(attrs.get("processes", 1)), has_hub)

    def row(self, site: str, kind: str) -> tuple[str, str]:
        """Who could read numbers of a kind that a site sent, and what follows from them."""
        way, follows = KINDS.get(kind, UNKNOWN)
        if way == IN_RESULT:
            return RESULT_READERS, follows
        if self.network.num_edges == 0:
            return "nobody: the site has no neighbours", "nothing"
        if way == ALL:
            return "everybody", follows
        if self.has_hub:
            return self._of_hub(kind, follows)
        if self.is_masked:
            if kind == MESSAGES:
                return f"nobody by itself; {self._neighbour_totals(site)}", NEIGHBOUR_TOTALS
            return f"nobody by itself; everybody: {self._total(self.network.names)}", TOTALS
        if way == NEIGHBOURS and kind != MESSAGES:
            return f"{self._named_neighbours(site)}; everybody: the largest", follows
        if way == NEIGHBOURS:
            return self._named_neighbours(site), follows
        return self._of_sum(site), follows

    def _of_hub(self, kind: str, follows: str) -> tuple[str, str]:
        """Who could read what goes through a hub, and what follows."""
        if not self.is_masked:
            return "whoever runs the hub; all sites: what it forwards to them", follows
        if kind == MESSAGES:
            return (
                "nobody by itself; whoever runs the hub: totals over neighbours",
                NEIGHBOUR_TOTALS,
            )
        return "nobody by itself; all sites, and whoever runs the hub: the total of all", TOTALS

    def _of_sum(self, site: str) -> str:
        """Who could read a site's part of a sum, way (1)."""
        if self.processes > 1:
            return "every process of the MPI job, on the way; everybody: the total"
        if self.network.is_complete:
            return "everybody"
        behind, nearer = self._behind(site), self._neighbours(site, -1)
        if not nearer:
            return "nobody by itself: the site is the centre; everybody: the total"
        added = f", added to those of {first_of(behind, MOST_NAMES)}" if behind else ""
        return f"{first_of(nearer, MOST_NAMES)}{added}; everybody: the total"

    def _neighbours(self, site: str, step: int | None = None) -> list[str]:
        """The neighbours of a site, or those so many levels farther from the centre than it."""
        names = self.network.names
        agent = names.index(site)
        found = self.network.adjacency[[agent]].indices
        return [names[j] for j in found if step in (None, self.levels[j] - self.levels[agent])]

    def _named_neighbours(self, site: str) -> str:
        return first_of(self._neighbours(site), MOST_NAMES)

    def _behind(self, site: str) -> list[str]:
        """The sites whose numbers pass through a site on their way to the centre."""
        found: dict[str, None] = {}
        waiting = self._neighbours(site, 1)
        while waiting and len(found) <= MOST_NAMES:
            found |= dict.fromkeys(waiting)
            waiting = [far for near in waiting for far in self._neighbours(near, 1)]
        return list(found)

    def _neighbour_totals(self, site: str) -> str:
        """Which totals the neighbours of a site read, of which its messages are a part."""
        neighbours = self._neighbours(site)
        read = [f"{each}: {self._total(self._neighbours(each))}" for each in neighbours]
        more = len(read) - MOST_NAMES
        return "; ".join(read[:MOST_NAMES]) + (f"; and {more} more" if more > 0 else "")

    def _total(self, names: list[str]) -> str:
        return f"the total over {first_of(names, MOST_NAMES)}"


def disclosed_in_words(attrs: Mapping[str, Any]) -> list[str]:
    """Return a few lines on what left each site, for the summary of a run."""
    if "disclosed" not in attrs:
        return []
    kinds, each = (json.loads(attrs.get(k, "{}")) for k in ("disclosed", "disclosed_each"))
    by_way: dict[str, dict[str, int]] = {way: {} for way in (SUM, NEIGHBOURS, ALL, IN_RESULT)}
    for kind, numbers in kinds.items():
        by_way[KINDS.get(kind, UNKNOWN).way][kind] = numbers
    if attrs.get("privacy") == "totals":
        ending = "all masked, so that nobody could read more than totals of them"
    else:
        ending = "not masked: neighbours of a small site can work out its rows from such numbers"
    lines = [
        f"Numbers that left each site: {_in_words(by_way[SUM] | by_way[NEIGHBOURS], each)}; "
        f"{ending}"
    ]
    if by_way[ALL]:
        lines.append(f"In the clear, to all sites: {_in_words(by_way[ALL])}")
    in_result = by_way[IN_RESULT]
    if own := in_result.pop(RESULT, 0):
        lines.append(
            f"The result has {own:,} numbers of each site's own draws, in the clear: whoever "
            "gets it can work out the rows of a small site, even of a masked run"
        )
    if in_result:
        lines.append(f"Further in the result, of each site: {_in_words(in_result)}")
    return lines


def _in_words(kinds: Mapping[str, int], each: Collection[str] = ()) -> str:
    """Numbers of some kinds, which for those of `each` are the most of any site."""
    return ", ".join(
        f"{'up to ' if kind in each else ''}{numbers:,} {kind}"
        for kind, numbers in kinds.items()
        if numbers
    )
