"""Which messages cross between processes, where each process holds some of the agents.

    outgoing of p to q    the agents of p with a neighbour at q, in the order of their numbers   (1)
    incoming of p from q  the agents of q with a neighbour at p, in the order of their numbers   (2)

so that what q gets from p by (2) is what p sends to q by (1), row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from starlings.network.network import Network


@dataclass(frozen=True)
class Crossings:
    """What one process sends to others in every round, and what it gets from them.

    >>> crossings = Crossings.of(Network.ring(4), owner=[0, 0, 1, 1], rank=1)
    >>> crossings.neighbours, crossings.sent[0], crossings.received[0]
    ([0], array([2, 3]), array([0, 1]))
    """

    local: np.ndarray
    """The numbers of the agents of this process, in ascending order."""
    neighbours: list[int]
    """The processes that it exchanges messages with, in ascending order."""
    sent: list[np.ndarray]
    """For each of them, the numbers of the local agents whose messages it gets, eq. (1)."""
    received: list[np.ndarray]
    """For each of them, the numbers of its agents whose messages arrive here, eq. (2)."""

    @classmethod
    def of(cls, network: Network, owner: Any, rank: int) -> Crossings:
        """The crossings of one process.

        Args:
            network: all agents and links.
            owner: the process that holds each agent, by the number of the agent.
            rank: the number of this process.
        """
        owner = np.asarray(owner)
        local = np.flatnonzero(owner == rank)
        links = network.adjacency[local]
        receivers, senders = np.repeat(local, np.diff(links.indptr)), links.indices
        neighbours = sorted({int(process) for process in owner[senders]} - {rank})
        sent = [np.unique(receivers[owner[senders] == process]) for process in neighbours]  # (1)
        received = [np.unique(senders[owner[senders] == process]) for process in neighbours]  # (2)
        return cls(local, neighbours, sent, received)

    @cached_property
    def outgoing(self) -> np.ndarray:
        """`sent` as `Communicator.outgoing`: indices into the local agents, one list."""
        return np.searchsorted(self.local, _joined(self.sent))

    def rows_sent(self) -> Iterator[tuple[int, int]]:
        """The receiving process and the number of the agent, for each row of `outgoing`."""
        for process, agents in zip(self.neighbours, self.sent, strict=True):
            yield from ((process, agent) for agent in agents.tolist())

    @cached_property
    def incoming(self) -> np.ndarray:
        """`received` as `Communicator.incoming`: numbers of agents, one list."""
        return _joined(self.received)


def _joined(lists: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([*lists, np.empty(0, int)]).astype(int)
