"""Graphs on which the algorithms are not defined are refused, with the nodes that are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import networkx as nx


def check_graph(graph: nx.Graph) -> None:
    """Refuse graphs on which the algorithms are not defined, naming the nodes that are wrong."""
    if not isinstance(graph, nx.Graph):
        raise TypeError(
            f"`graph` must be a networkx graph, got {type(graph).__name__}; for a ring of 4 "
            "agents write `Network.ring(4)`."
        )
    if graph.is_directed():
        raise ValueError(
            "`graph` is directed, but messages go both ways along an edge; "
            "use `graph.to_undirected()`."
        )
    if graph.is_multigraph():
        raise ValueError("`graph` has parallel edges; use `networkx.Graph(graph)`.")
    if graph.number_of_nodes() == 0:
        raise ValueError("`graph` has no nodes; a network needs at least one agent.")
    loops = list(nx.nodes_with_selfloops(graph))
    if loops:
        raise ValueError(
            f"`graph` has self-loops at {preview(loops)}; an agent is not its own neighbour. "
            "Remove them with `graph.remove_edges_from(networkx.selfloop_edges(graph))`."
        )
    if graph.number_of_edges() == 0:
        return
    isolated = list(nx.isolates(graph))
    if isolated:
        raise ValueError(
            f"`graph` has isolated nodes {preview(isolated)}: they would never hear from anybody. "
            "Connect them or leave them out."
        )
    if not nx.is_connected(graph):
        parts = [len(part) for part in nx.connected_components(graph)]
        raise ValueError(
            f"`graph` falls into {len(parts)} parts of sizes {preview(parts)} that never exchange "
            "a message; sample them as separate networks or add an edge between them."
        )


def check_still_connected(graph: nx.Graph, absent: Sequence[str], was_connected: bool) -> None:
    """Refuse a graph that falls apart without the agents that are absent.

    Args:
        graph: the graph of the other agents.
        absent: the names of the absent ones.
        was_connected: whether the graph was connected with them.
    """
    if not was_connected or nx.is_connected(graph):
        return
    parts = sorted((sorted(map(str, p)) for p in nx.connected_components(graph)), key=len)
    shown = " and ".join(preview(part) for part in parts[-2:])
    raise ValueError(
        f"without {preview(absent)} the network falls into {len(parts)} parts that never exchange "
        f"a message, such as {shown}. Wait for the absent agents, or give the others a link of "
        "their own."
    )


def preview(items: Sequence[Any], most: int = 6) -> str:
    """The first few items as text."""
    shown = ", ".join(str(item) for item in items[:most])
    return f"[{shown}{', ...' if len(items) > most else ''}]"
