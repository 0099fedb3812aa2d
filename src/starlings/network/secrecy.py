"""What hides the messages of a network: implemented in `starlings.privacy`, used wherever sums are.

A network that has one (see `Network.masked`) sends nothing but masked numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from starlings.network.network import Network


class SumMasks(Protocol):
    """Makes what agents send for a sum unreadable, so that only the total can be read."""

    def masked(self, parts: np.ndarray) -> np.ndarray:
        """What the local agents send, (agent, limbs), for the sum of their numbers (agent, k)."""

    def opened(self, total: np.ndarray) -> np.ndarray:
        """The total (k,) of all agents' numbers, from the sum of what they sent (limbs,)."""


class Secrecy(Protocol):
    """Makes masks for every purpose."""

    fewest_neighbours: int
    """Neighbours of every agent whose neighbours' messages are added for it, at least."""
    readers: dict[str, str | None]
    """Who could read whose messages alone, in words, by what samplers read; None if nobody."""

    def sum_masks(self, network: Network) -> SumMasks:
        """Masks for sums over the whole network, which nobody else gets."""

    def neighbourhood_masks(self, members: Sequence[str], receiver: str) -> SumMasks:
        """Masks for the sums of what the neighbours of one site, the members, send to it."""
