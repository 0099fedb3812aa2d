"""What a process hears from the others, where there are none: the exchange of `mpi` for one."""

from __future__ import annotations

from typing import Any

import numpy as np

from starlings.network import Network
from starlings.runtimes.recording import disagreement
from starlings.runtimes.trouble import Trouble


class Alone:
    """A process that holds all agents."""

    rank, size = 0, 1

    def told(self, value: Any) -> Any:
        """What the first process says."""
        return value

    def earliest(self, trouble: Trouble | None) -> Trouble | None:
        """The first trouble of any process."""
        return trouble

    def disagreement(self, positions: np.ndarray) -> float:
        """Of positions (chain, agent, dim), the mean over the chains."""
        return float(disagreement(positions).mean())

    def gather(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Values of all agents along one axis, at the first process."""
        return values

    def barrier(self) -> None:
        """Wait for nobody."""


def others(network: Network) -> Any:
    """The exchange with the processes that hold the rest of a network, or nobody."""
    return Alone() if network.exchange is None else network.exchange
