"""Who talks to whom: an undirected graph of agents, and how messages travel on it."""

from __future__ import annotations

import copy
import numbers
import warnings
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

import networkx as nx
import numpy as np

from starlings.errors import DisconnectedNetworkWarning, check_count
from starlings.network.budget import Budget
from starlings.network.communicator import Communicator, LocalCommunicator
from starlings.network.faults import Faults
from starlings.network.graph_arrays import GraphArrays
from starlings.network.graph_checks import check_graph, check_still_connected, preview
from starlings.network.ledger import Ledger
from starlings.network.picture import network_html
from starlings.network.secrecy import Secrecy


class Network(GraphArrays):
    """An undirected graph of agents, as arrays in a fixed order of the nodes.

    >>> import networkx as nx
    >>> network = Network(nx.cycle_graph(5))
    >>> network.size, network.num_edges
    (5, 5)
    >>> network.degrees
    array([2, 2, 2, 2, 2])

    The names of the nodes become the names of the agents. The graph must be connected, with one
    exception: a graph with no edges at all is legal (no agent then learns from another), and warns.
    """

    def __init__(self, graph: nx.Graph) -> None:
        check_graph(graph)
        self.graph = nx.freeze(nx.Graph(graph))
        self.communicator: Communicator = LocalCommunicator()
        self.secrecy: Secrecy | None = None
        self.faults: Faults | None = None
        self.budget = Budget()
        self.opening = Ledger()
        """What all processes have sent to agree on something before a run, see `opening`."""
        self.on_mode: Callable[[Any], None] | None = None
        self.nodes: list[Any] = list(graph.nodes)
        self.names: list[str] = [str(node) for node in self.nodes]
        if len(set(self.names)) < len(self.names):
            repeated = sorted({n for n in self.names if self.names.count(n) > 1})
            raise ValueError(
                f"`graph` has nodes that have the same name as text: {repeated}; rename them."
            )
        if self.num_edges == 0 and self.size > 1:
            warnings.warn(
                f"The network has {self.size} agents and no edges: no agent will learn from "
                "another, and they will not agree.",
                DisconnectedNetworkWarning,
                stacklevel=2,
            )

    @cached_property
    def local(self) -> np.ndarray:
        """The numbers of the local agents, those of this process: all, unless `distributed`."""
        return np.arange(self.size)

    @property
    def local_names(self) -> list[str]:
        """The names of the local agents."""
        return [self.names[i] for i in self.local]

    @property
    def is_distributed(self) -> bool:
        """Whether some of the agents belong to other processes."""
        return self.communicator.size > 1

    def distributed(self, local: Any, communicator: Communicator) -> Network:
        """This network as one of several processes sees it: all links, and some of the agents.

        Args:
            local: the numbers of the local agents, in ascending order.
            communicator: how this process exchanges messages with other processes.
        """
        seen = copy.copy(self)
        seen.local, seen.communicator = np.asarray(local), communicator
        return seen

    def limited(self, budget: Budget) -> Network:
        """This network with at most so many rounds, and with an account of its own opening."""
        seen = copy.copy(self)
        seen.budget, seen.opening = budget, self.opening.copy()
        return seen

    def lossy(self, loss: Any = 0.0, delay: Any = 0, asleep: Any = 0.0, seed: int = 0) -> Network:
        """This network where a round goes on without messages that are lost, late or not sent.

        Samplers that wait for every message are refused there; `AsyncDADMMS` goes on.

        Args:
            loss: the probability with which a message is lost: one number, or numbers that
                broadcast to (receiver, sender).
            delay: how many rounds late a message arrives: one whole number, or several that
                broadcast to (receiver, sender).
            asleep: the probability with which an agent is asleep in a round, and then hears,
                computes and sends nothing: one number, or one for each agent.
            seed: the seed of all that; the same seed gives the same faults.

        >>> network = Network.ring(5).lossy(loss=0.3)
        >>> round(network.pace, 3)
        0.7
        """
        seen = copy.copy(self)
        seen.faults = Faults.of(self.size, loss, delay, asleep, seed)
        return seen

    @property
    def pace(self) -> float:
        """Langevin time in a round over that without faults, for samplers that go on with them."""
        return 1.0 if self.faults is None else self.faults.pace(self.adjacency)

    def masked(self, secrecy: Secrecy) -> Network:
        """This network with messages of which nobody learns anything but totals.

        Args:
            secrecy: the keys of the local sites, see `starlings.privacy.secrecy.Secrecy.agreed`.
        """
        seen = self.limited(self.budget)
        seen.secrecy = secrecy
        return seen

    def noting_mode(self, note: Callable[[Any], None]) -> Network:
        """This network with somebody who is told the mode of a posterior when all agents have it.

        Args:
            note: is called with the `starlings.tuning.tuner.Coordinates`.
        """
        seen = copy.copy(self)
        seen.on_mode = note
        return seen

    @property
    def neighbour_table(self) -> np.ndarray:
        """The numbers of each local agent's neighbours, (agent, most neighbours).

        Places of nobody have the numbers -1, -2, ..., which differ within a row.
        """
        degrees = self.degrees[self.local]
        columns = np.arange(max(1, degrees.max()), dtype=np.int32)
        places = columns < degrees[:, None]
        table = np.tile(-1 - columns, (len(degrees), 1))
        table[places] = self.adjacency[self.local].indices
        return table

    def matched_to(self, sites: Sequence[str]) -> Network:
        """This network with its nodes in the order of `sites`.

        Nodes are matched by name where the names are the same; nodes numbered 0..N-1 are matched
        by position. Anything else is an error: a wrong match would be silent.
        """
        if len(sites) != self.size:
            raise ValueError(
                f"`network` has {self.size} agents but the problem has {len(sites)} shards: "
                f"agents {preview(self.names)}, shards {preview(sites)}. Give the network one "
                f"agent for each shard, such as `Network.path({len(sites)})`."
            )
        if self.names == list(sites):
            return self
        if self.is_distributed or self.secrecy is not None:
            raise ValueError(
                "match a network to the sites before it is distributed over processes or masked."
            )
        if set(self.names) == set(sites):
            by_name = dict(zip(self.names, self.nodes, strict=True))
            return self._relabelled([by_name[site] for site in sites], sites)
        if set(self.nodes) == set(range(self.size)):
            return self._relabelled(list(range(self.size)), sites)
        missing = sorted(set(sites) - set(self.names))
        unknown = sorted(set(self.names) - set(sites))
        raise ValueError(
            f"`network` and the problem name different sites: {preview(missing)} have data but no "
            f"node, {preview(unknown)} are nodes without data. Name the nodes after the sites, or "
            "number them 0..N-1 to match by position."
        )

    def without(self, absent: Collection[str]) -> Network:
        """This network without some agents, whose links are gone; the others stay connected.

        Args:
            absent: the names of these agents.

        >>> Network.ring(5).without(["0"])
        Network(agents=4, edges=3)
        """
        if self.is_distributed or self.secrecy is not None:
            raise ValueError("leave agents out before a network is distributed or masked.")
        gone = set(absent)
        if not gone < set(self.names):
            raise ValueError(
                f"`absent` must be some of the agents {preview(self.names)}, and not all, got "
                f"{preview(sorted(gone))}."
            )
        graph: nx.Graph = nx.Graph()
        nodes = zip(self.names, self.nodes, strict=True)
        graph.add_nodes_from(node for name, node in nodes if name not in gone)
        graph.add_edges_from(self.graph.subgraph(graph.nodes).edges)
        check_still_connected(graph, sorted(gone), was_connected=self.num_edges > 0)
        smaller = Network(graph)
        if self.faults is not None:
            kept = np.array([i for i, name in enumerate(self.names) if name not in gone])
            smaller.faults = self.faults.reordered(kept)
        return smaller

    def _relabelled(self, order: list[Any], names: Sequence[str]) -> Network:
        graph: nx.Graph = nx.Graph()
        graph.add_nodes_from(names)
        new_name = dict(zip(order, names, strict=True))
        graph.add_edges_from((new_name[a], new_name[b]) for a, b in self.graph.edges)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisconnectedNetworkWarning)
            relabelled = Network(graph)
        if self.faults is not None:
            numbers = {node: i for i, node in enumerate(self.nodes)}
            relabelled.faults = self.faults.reordered(np.array([numbers[n] for n in order]))
        return relabelled

    def __repr__(self) -> str:
        return f"Network(agents={self.size}, edges={self.num_edges})"

    def _repr_html_(self) -> str:
        return network_html(self)

    @classmethod
    def ring(cls, size: int) -> Network:
        """Every agent has two neighbours, in a circle."""
        return cls(nx.cycle_graph(_count(size, 3)))

    @classmethod
    def complete(cls, size: int) -> Network:
        """All agents are neighbours of each other."""
        return cls(nx.complete_graph(_count(size, 1)))

    @classmethod
    def star(cls, size: int) -> Network:
        """Agent 0 is the only neighbour of every other agent."""
        return cls(nx.star_graph(_count(size, 2) - 1))

    @classmethod
    def path(cls, size: int) -> Network:
        """Agents in a line."""
        return cls(nx.path_graph(_count(size, 1)))

    @classmethod
    def grid(cls, rows: int, columns: int) -> Network:
        """A rectangle of agents, numbered row by row, each with up to four neighbours."""
        graph = nx.grid_2d_graph(_count(rows, 1, "rows"), _count(columns, 1, "columns"))
        return cls(nx.convert_node_labels_to_integers(graph, ordering="sorted"))

    @classmethod
    def small_world(
        cls, size: int, neighbours: int = 4, rewire: float = 0.1, seed: int = 0
    ) -> Network:
        """A connected Watts-Strogatz graph: a ring of near neighbours with some edges rewired."""
        check_count(2, neighbours=neighbours)
        check_count(0, size=size, seed=seed)
        if neighbours >= size:
            raise ValueError(f"`neighbours` must be below `size` ({size}), got {neighbours}.")
        if not isinstance(rewire, numbers.Real) or not 0 <= rewire <= 1:
            raise ValueError(f"`rewire` must be a probability, got {rewire!r}.")
        graph = nx.connected_watts_strogatz_graph(size, neighbours, rewire, tries=1000, seed=seed)
        return cls(graph)

    @classmethod
    def no_edges(cls, size: int) -> Network:
        """Agents without any neighbours; legal, and warns."""
        return cls(nx.empty_graph(_count(size, 1)))


def _count(value: int, least: int, name: str = "size") -> int:
    check_count(least, **{name: value})
    return int(value)
