"""The graph of a network as a small picture for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from starlings.system.html import block, heading

if TYPE_CHECKING:
    from starlings.network.network import Network

MOST_DRAWN = 200
"""Agents above which there is no picture: it would be a blot, and large."""
MOST_NAMED = 30
"""Agents above which the picture has no names; a name is shown when the pointer is on its agent."""
SIZE, MARGIN = 300, 45
"""Width and height of the picture, and the room for names around the agents, in pixels."""
NUDGE = 0.1
"""How far agents that the coarse layout puts on one place are moved apart, of its half width."""
LETTERS = 14
"""Letters of a name in the picture; of a longer one the rest is left out."""


def network_html(network: Network) -> str:
    """A network in one line of words and a picture."""
    title = f"Network of {network.size} agents, {network.num_edges} edges"
    return block(heading(title), _picture(network) if network.size <= MOST_DRAWN else "")


def _picture(network: Network) -> str:
    places = dict(zip(network.nodes, _positions(network.graph), strict=True))
    lines = [_line(places[a], places[b]) for a, b in network.graph.edges]
    named = zip(network.names, places.values(), strict=True)
    dots = [_dot(name, place, network.size <= MOST_NAMED) for name, place in named]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" '
        f'height="{SIZE}" role="img" style="color:inherit;background:none">'
        f"<title>{network.size} agents and {network.num_edges} edges</title>"
        f'<g stroke="currentColor" stroke-opacity=".45">{"".join(lines)}</g>'
        f'<g fill="currentColor" font-size="11" text-anchor="middle">{"".join(dots)}</g></svg>'
    )


def _positions(graph: nx.Graph) -> np.ndarray:
    """The place of every node in the picture, (node, 2)."""
    found = nx.circular_layout(graph)
    if len(graph) <= MOST_NAMED and graph.number_of_edges() > 0:
        coarse = nx.spectral_layout(graph) if len(graph) > 2 else found  # unfolds a grid
        start = {node: coarse[node] + NUDGE * found[node] for node in graph.nodes}
        found = nx.kamada_kawai_layout(graph, pos=start)
    points = np.array([found[node] for node in graph.nodes], float)
    points -= (points.max(axis=0) + points.min(axis=0)) / 2
    return SIZE / 2 + (SIZE / 2 - MARGIN) * points / max(np.abs(points).max(), 1e-9)


def _line(start: Any, end: Any) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _dot(name: str, place: Any, is_named: bool) -> str:
    x, y = place
    short = name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"
    text = f'<text x="{x:.1f}" y="{y - 8:.1f}">{escape(short)}</text>' if is_named else ""
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(name)}</title></circle>{text}'
