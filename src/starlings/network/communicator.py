"""What a runtime offers to the processes that share the agents of a network.

A run may be spread over several processes, each of which holds some of the agents: the processes
of an MPI job, or the sites of several organisations. All of them run the same program. Whatever
they have to tell each other goes through one `Communicator`:

    exchange     once in every round, from inside compiled code: the messages that cross       (1)
    broadcast    a small value of process 0, at all processes                                  (2)
    gather       arrays with one entry per agent, as one array at process 0                    (3)
    sum          arrays added over the processes, the total at all of them                     (4)
    first        the smallest value of any process, at all of them: an agreement               (5)
    barrier      nobody goes on before everybody has come here                                 (6)

Everything but (1) is *collective*: all processes call it, in the same order. A new runtime is one
more class with these methods; samplers, tuning, diagnostics and files do not change for it.
`LocalCommunicator`, for a single process, is the shortest possible one.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import jax
import numpy as np

Value = TypeVar("Value")


class Communicator(Protocol):
    """The methods that a runtime has to have; see the module for when each is called."""

    rank: int
    """The number of this process, from 0; process 0 returns results and speaks to people."""
    size: int
    """The number of processes."""
    outgoing: np.ndarray
    """Whose messages are sent: places among the local agents, in the order `exchange` takes."""
    incoming: np.ndarray
    """Whose messages arrive: numbers of agents elsewhere, in the order `exchange` returns."""

    def exchange(self, messages: jax.Array) -> jax.Array:
        """The messages (incoming agent, floats) in return for those of (outgoing agent, floats).

        Called under `jax.jit`: an implementation outside JAX goes through a foreign function or
        `jax.experimental.io_callback`. It must not raise: there is nobody to catch it.
        """

    def broadcast(self, value: Value) -> Value:
        """The value of process 0, at every process; it is small and can be pickled."""

    def gather(self, values: np.ndarray, axis: int) -> np.ndarray | None:
        """Entries of the local agents along `axis` as those of all agents, in their order.

        At process 0; None at the others.
        """

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Arrays of the same shape added over the processes, the same total at every process."""

    def first(self, value: Value | None) -> Value | None:
        """The smallest value that is not None at any process, at every process; None if all are."""

    def barrier(self) -> None:
        """Return when every process has called it."""


class LocalCommunicator:
    """Single-process communicator: every collective is the identity, and no message crosses."""

    rank, size = 0, 1
    outgoing = incoming = np.empty(0, int)

    def exchange(self, messages: jax.Array) -> jax.Array:
        """No messages in return for none."""
        return messages

    def broadcast(self, value: Value) -> Value:
        """The value itself."""
        return value

    def gather(self, values: np.ndarray, axis: int) -> np.ndarray | None:
        """The values themselves: all agents are local."""
        return values

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The values themselves."""
        return values

    def first(self, value: Value | None) -> Value | None:
        """The value itself."""
        return value

    def barrier(self) -> None:
        """Return at once."""
