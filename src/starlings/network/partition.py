"""Which process gets which agents: few links between processes, and similar numbers of rows.

METIS searches for the division that cuts the fewest links, with each part's rows near the average.
For a small network it is compared with two simple divisions: agents in the order of their numbers,
and the largest agent first to the part with the fewest rows. The division with the fewest cut links
is taken among those whose largest part is at most `UNEVEN` times the average, or among those that
come nearest to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from starlings.errors import check_count
from starlings.network import Network
from starlings.system.extras import import_extra

IMBALANCE = 30
"""By how much METIS may let a part exceed the average, in thousandths, if it can."""
UNEVEN = 1.05
"""Rows of the largest part, over the average, up to which a division counts as even."""
SMALL = 1000
"""Largest number of agents for which the simple divisions are tried."""
FEWEST = 4
"""Number of agents for each part below which METIS is not asked."""


@dataclass(frozen=True)
class Partition:
    """A division of the agents of a network among processes."""

    owner: np.ndarray
    """The number of each agent's process."""
    rows: np.ndarray
    """The number of each agent's rows."""
    num_parts: int
    num_links: int
    cut: int
    """The number of links between agents of different processes."""

    @property
    def rows_of_parts(self) -> np.ndarray:
        """The number of rows of every part."""
        return np.bincount(self.owner, weights=self.rows, minlength=self.num_parts)

    @property
    def imbalance(self) -> float:
        """The rows of the largest part, over the average."""
        return float(self.rows_of_parts.max() / self.rows_of_parts.mean())

    def __str__(self) -> str:
        agents = np.bincount(self.owner, minlength=self.num_parts)
        return (
            f"{self.num_parts} processes with {agents.min()} to {agents.max()} agents each; "
            f"{self.cut} of {self.num_links} links cross between them; the largest holds "
            f"{self.imbalance:.2f} times the average number of rows"
        )


def divide(network: Network, num_parts: int, rows: np.ndarray | None = None) -> Partition:
    """A division of the agents into parts, none of which is empty.

    Args:
        network: who talks to whom.
        num_parts: how many processes there are.
        rows: the number of rows of each agent, which makes its work; equal if None.
    """
    check_count(1, num_parts=num_parts)
    if num_parts > network.size:
        raise ValueError(
            f"{num_parts} processes are more than the {network.size} agents; start fewer."
        )
    rows = np.ones(network.size, int) if rows is None else np.asarray(rows, int)
    if rows.shape != (network.size,) or rows.min() < 1:
        raise ValueError(f"`rows` must be {network.size} numbers from 1 up, got {rows}.")
    owners = []
    if num_parts > 1 and network.size >= FEWEST * num_parts:
        owners.append(_metis(network, num_parts, rows))
    if network.size <= SMALL or not owners:
        owners += [_in_order(rows, num_parts), _largest_first(rows, num_parts)]
    whole = [owner for owner in owners if len(np.unique(owner)) == num_parts]
    found = [_partition(network, owner, rows, num_parts) for owner in whole]
    return min(found, key=lambda each: (max(each.imbalance, UNEVEN), each.cut))


def _partition(network: Network, owner: np.ndarray, rows: np.ndarray, num_parts: int) -> Partition:
    senders = np.repeat(np.arange(network.size), network.degrees)
    cut = int(np.sum(owner[senders] != owner[network.adjacency.indices])) // 2
    return Partition(owner, rows, num_parts, network.num_edges, cut)


def _metis(network: Network, num_parts: int, rows: np.ndarray) -> np.ndarray:
    pymetis = import_extra("pymetis", "dividing a network", extra="mpi")
    links = pymetis.CSRAdjacency(network.adjacency.indptr, network.adjacency.indices)
    options = pymetis.Options(ufactor=IMBALANCE, seed=0)
    found = pymetis.part_graph(num_parts, adjacency=links, vweights=rows, options=options)
    return np.array(found.vertex_part)


def _largest_first(rows: np.ndarray, num_parts: int) -> np.ndarray:
    """Give the largest agents first, each to the part with the fewest rows so far."""
    owner, load = np.zeros(len(rows), int), np.zeros(num_parts)
    for agent in np.argsort(-rows, kind="stable"):
        owner[agent] = load.argmin()
        load[owner[agent]] += rows[agent]
    return owner


def _in_order(rows: np.ndarray, num_parts: int) -> np.ndarray:
    """Keep the order of the agents, with similar numbers of rows in each part."""
    middles = (np.cumsum(rows) - rows / 2) / rows.sum()
    owner = np.minimum((middles * num_parts).astype(int), num_parts - 1)
    fewest, most = np.arange(len(rows)) - (len(rows) - num_parts), np.arange(len(rows))
    owner = np.clip(owner, np.maximum(fewest, 0), np.minimum(most, num_parts - 1))
    for i in range(1, len(rows)):  # no part is skipped
        owner[i] = min(owner[i], owner[i - 1] + 1)
    return owner
