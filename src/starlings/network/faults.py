"""What may happen to messages where nobody can wait: loss, delay, and agents that are asleep.

On a reliable network every message of a round arrives in that round, since a runtime waits for it.
On one with faults the round goes on without it:

    loss      a message from j to i is lost with probability p_ij, each one by itself          (1)
    delay     it arrives tau_ij rounds late, always as many on one link                        (2)
    asleep    an agent is asleep in a round with probability s_i: it hears nothing, computes   (3)
              nothing and sends nothing

The numbers that decide on (1) and (3) are drawn from a seed of their own, by chain and round, so
that a run can be repeated and resumed. Every chain has faults of its own.

What goes on without a message goes slower. Edge by edge, as in asynchronous D-ADMMS, with the share
a_ij = (1 - p_ij)(1 - s_i)(1 - s_j) of messages that arrive, the Langevin time in one round, over
that on a reliable network, is

    pace = 1 / mean over all links, both ways, of (1 / a_ij + tau_ij / 2)                      (4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from starlings.errors import check_count


@dataclass(frozen=True, eq=False)
class Faults:
    """The faults of a network, as `Network.lossy` takes them; axes of length 1 are for all agents.

    >>> Faults.of(3, loss=0.3, delay=[[0, 1, 2]], asleep=0.0, seed=0).longest_delay
    2
    """

    size: int
    """The number of agents."""
    loss: np.ndarray
    """p_ij of eq. (1), (receiver i, sender j)."""
    delay: np.ndarray
    """tau_ij of eq. (2), (receiver i, sender j)."""
    asleep: np.ndarray
    """s_i of eq. (3), (agent,)."""
    seed: int

    @classmethod
    def of(cls, size: int, loss: Any, delay: Any, asleep: Any, seed: int) -> Faults:
        """The faults of a network of so many agents; a `ValueError` says what is wrong with them.

        Args:
            size: the number of agents.
            loss: numbers that broadcast to (receiver, sender).
            delay: whole numbers that broadcast to (receiver, sender).
            asleep: numbers that broadcast to (agent,).
            seed: a whole number.
        """
        check_count(0, seed=seed)
        if seed >= 2**32:
            raise ValueError(f"`seed` of faults must be below 2**32, got {seed}.")
        lost = _probabilities("loss", loss, (size, size))
        slept = _probabilities("asleep", asleep, (size,))
        late = _fitting("delay", delay, (size, size))
        if not np.all((late >= 0) & (late == np.floor(late))):
            raise ValueError(
                f"`delay` must be whole numbers of rounds, 0 or more, got {delay!r}; 0 is a "
                "message that arrives in the round in which it is sent."
            )
        return cls(size, lost, late.astype(int), slept, int(seed))

    @property
    def longest_delay(self) -> int:
        """The largest tau_ij."""
        return int(self.delay.max())

    def of_links(self, receivers: np.ndarray, senders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """p_ij and tau_ij of some links."""
        shape = (self.size, self.size)
        loss, delay = (np.broadcast_to(a, shape)[receivers, senders] for a in self._by_link)
        return loss, delay

    @property
    def _by_link(self) -> tuple[np.ndarray, np.ndarray]:
        return self.loss, self.delay

    def reordered(self, order: np.ndarray) -> Faults:
        """The faults of all or some agents in another order, given by their numbers so far."""
        loss, delay = (_taken(_taken(array, order, 0), order, 1) for array in self._by_link)
        return Faults(len(order), loss, delay, _taken(self.asleep, order, 0), self.seed)

    def pace(self, adjacency: scipy.sparse.csr_array) -> float:
        """Eq. (4); 1 without faults."""
        receivers, senders = adjacency.nonzero()
        if not len(receivers):
            return 1.0
        loss, delay = self.of_links(receivers, senders)
        awake = 1 - np.broadcast_to(self.asleep, self.size)
        arriving = (1 - loss) * awake[receivers] * awake[senders]
        return float(1 / np.mean(1 / arriving + delay / 2))  # (4)

    def described(self) -> dict[str, Any]:
        """The faults in types that JSON has."""
        arrays = {"loss": self.loss, "delay": self.delay, "asleep": self.asleep}
        return {**{name: array.tolist() for name, array in arrays.items()}, "seed": self.seed}


def _fitting(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An array with as many axes as `shape`, each of length 1 or as there."""
    wanted = " x ".join(map(str, shape))
    try:
        array = np.asarray(values, float)
        np.broadcast_to(array, shape)
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must be a number, or numbers that broadcast to {wanted}, got {values!r}. "
            "The first axis is who receives, and the last one who sends."
        ) from None
    return array.reshape((1,) * (len(shape) - array.ndim) + array.shape)


def _probabilities(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    array = _fitting(name, values, shape)
    if not np.all((array >= 0) & (array < 1)):
        raise ValueError(
            f"`{name}` must be at least 0 and below 1, a share of all cases, got {values!r}. "
            "A link that never carries a message is no link: leave it out of the graph."
        )
    return array


def _taken(array: np.ndarray, order: np.ndarray, axis: int) -> np.ndarray:
    return array if array.shape[axis] == 1 else array.take(order, axis)
