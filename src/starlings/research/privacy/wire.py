"""Wire taps: everything that agents send in a run of `starlings.sample`, or for sums.

`WireTap` is a communicator of two processes, of which this one holds all agents and the other one
none. The runtime then hands it the messages of all agents in every round, as it hands MPI those
that leave a process, and the run itself is the same.

`SumTap` stands where masks would be made: it gets what every agent puts into a sum over the
network, and passes it on as it is, or with masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import jax
import numpy as np

from starlings.network import Network
from starlings.network.communicator import LocalCommunicator
from starlings.network.secrecy import Secrecy, SumMasks
from starlings.privacy.fixed_point import FRACTION_BITS, LIMBS, Words
from starlings.runtime.callback import exchange_on_host


class WireTap(LocalCommunicator):
    """A communicator that keeps what agents send in rounds."""

    size = 2

    def __init__(self, num_agents: int) -> None:
        self.outgoing = np.arange(num_agents)
        self._sent: list[np.ndarray] = []

    def exchange(self, messages: jax.Array) -> jax.Array:
        """Keep the messages (agent, floats) of a round; nobody is elsewhere to send any back."""
        return exchange_on_host(self._keep, messages, num_incoming=0)

    def _keep(self, messages: np.ndarray) -> np.ndarray:
        self._sent.append(np.array(messages))
        return messages[:0]

    @property
    def messages(self) -> list[np.ndarray]:
        """The messages (agent, floats) of every round so far."""
        jax.effects_barrier()
        return list(self._sent)


def tapped(network: Network) -> tuple[Network, WireTap]:
    """The same network, and a tap of all its wires."""
    tap = WireTap(network.size)
    return network.distributed(np.arange(network.size), tap), tap


class Unmasked:
    """Masks that hide nothing."""

    def masked(self, parts: np.ndarray) -> np.ndarray:
        """The numbers (agent, k) themselves."""
        return np.asarray(parts)

    def opened(self, total: np.ndarray) -> np.ndarray:
        """The total itself."""
        return total


@dataclass
class SumTap:
    """A `Secrecy` that keeps what agents send for sums: `network.masked(SumTap())`."""

    masks: Secrecy | None = None
    """What makes masks; None if agents send their numbers as they are."""
    sent: list[np.ndarray] = field(default_factory=list)
    """What every agent sent for each sum over the network, (agent, numbers)."""
    received: dict[str, list[np.ndarray]] = field(default_factory=dict)
    """What a site, by its name, read of its neighbours in every round: their sum, (numbers,)."""
    fewest_neighbours: int = 2
    readers: dict[str, str | None] = field(default_factory=dict)
    """What `starlings.runtime.maskable` has found of who reads what."""

    def sum_masks(self, network: Network) -> SumMasks:
        """Masks for sums over the network, with a tap."""
        made = Unmasked() if self.masks is None else self.masks.sum_masks(network)
        return _Tapped(made, sent=self.sent)

    @property
    def numbers(self) -> list[np.ndarray]:
        """What was sent, as numbers (agent, k) that a receiver reads without the other messages."""
        return self.sent if self.masks is None else [_read_alone(sent) for sent in self.sent]

    def neighbourhood_masks(self, members: Sequence[str], receiver: str) -> SumMasks:
        """Masks for sums over the neighbours of a site, with a tap of what it reads."""
        made: SumMasks = Unmasked()
        if self.masks is not None:
            made = self.masks.neighbourhood_masks(members, receiver)
        return _Tapped(made, read=self.received.setdefault(receiver, []))


def _read_alone(limbs: np.ndarray) -> np.ndarray:
    """Masked numbers (agent, k) from limbs (agent, limb), without the one that checks the total."""
    words = Words.from_limbs(limbs.reshape(len(limbs), -1, LIMBS))
    high, low = words.high.astype(np.int64).astype(float), words.low.astype(float)
    return (high + low * 2.0**-FRACTION_BITS)[:, :-1]


@dataclass
class _Tapped:
    """Masks that keep what is sent, and the totals that are read."""

    masks: SumMasks
    sent: list[np.ndarray] = field(default_factory=list)
    read: list[np.ndarray] = field(default_factory=list)

    def masked(self, parts: np.ndarray) -> np.ndarray:
        self.sent.append(self.masks.masked(parts))
        return self.sent[-1]

    def opened(self, total: np.ndarray) -> np.ndarray:
        self.read.append(self.masks.opened(total))
        return self.read[-1]
