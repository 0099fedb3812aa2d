"""The network of a study: a graph over its sites by name, or by its edges."""

from __future__ import annotations

import inspect
from pathlib import Path

import networkx as nx

from starlings.errors import nearest
from starlings.network import Network
from starlings.study.schema import GRAPHS, NetworkSection
from starlings.study.sections import Pairs, Section


def network_of(path: Path, section: NetworkSection, sites: list[str]) -> Network:
    """The network of some sites.

    Args:
        path: the study, which errors name.
        section: its section [network].
        sites: the names of all sites.
    """
    network = _reliable(path, section, sites)
    if section.lossy is None:
        return network
    try:
        return network.lossy(**section.lossy)
    except ValueError as error:
        raise Section(path, "network.lossy", {}).error(str(error)) from None


def _reliable(path: Path, section: NetworkSection, sites: list[str]) -> Network:
    """The network, on which no message is lost."""
    named = Section(path, "network", {})
    if section.graph is None:
        return Network(_graph(named, sites, section.edges or []))
    graph = GRAPHS[section.graph]
    takes_size = "size" in inspect.signature(graph).parameters
    size = [len(sites)] if takes_size else []
    try:
        return graph(*size, **section.options).matched_to(sites)
    except ValueError as error:
        hint = ' Two sites are a "path".' if len(sites) == 2 else ""
        raise named.error(
            f'graph = "{section.graph}" does not fit {len(sites)} sites: {error}{hint}'
        ) from None


def _graph(section: Section, sites: list[str], edges: Pairs) -> nx.Graph:
    """A graph with a node for every site, even if no edge names it."""
    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(sites)
    for edge in edges:
        ends = [str(end) for end in edge]
        if len(ends) != 2:
            raise section.error(f"`edges` must be pairs of sites, got {edge}.")
        for end in ends:
            if end not in graph:
                hint = nearest(end, sites)
                raise section.error(
                    f"`edges` names {end!r}, but the sites are {sites}; name one of them.{hint}"
                )
        graph.add_edge(*ends)
    return graph
