"""What a runtime offers to the processes that share the agents of a network.

A run may be spread over several processes, each of which holds some of the agents: the processes
of an MPI job, or the sites of several organisations. All of them run the same program, and all that
they send each other goes through one `Communicator`:

    exchange     once in every round, from inside compiled code: the messages that cross       (1)
    broadcast    a small value of process 0, at all processes                                  (2)
    gather       arrays with one entry per agent, as one array at process 0                    (3)
    sum          arrays added over the processes, the total at all of them                     (4)
    first        the smallest value of any process, at all of them: an agreement               (5)
    barrier      no process goes on before all have come here                                  (6)

All of them are *collective*: all processes call them, in the same order. (2), (4), (5) and (6) are
called a few times for each chunk of rounds, (3) when a run is over.

Runtimes differ in two more points: whether process 0 `collects` all draws or every process keeps
its own, and whether a process may be started again in the middle of a run. The latter makes what
it did before again, and needs what it had found by chance, which is `remembered`.

A new runtime is one more class with these methods; samplers, tuning, diagnostics and files do not
change for it. `LocalCommunicator`, for a single process, is the shortest possible one,
`starlings.testing.check_communicator` tries any of them, and the page "Adding a runtime" of the
documentation has an example for several processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import jax
import numpy as np

Value = TypeVar("Value")


class Communicator(Protocol):
    """The methods of a runtime, which all its processes call together.

    `Crossings` computes `outgoing` and `incoming`, and which of them belong to which process.
    """

    rank: int
    """The number of this process, from 0; process 0 prints, writes files and returns results."""
    size: int
    """The number of processes."""
    collects: bool
    """Whether process 0 gets the draws of all agents, and the other processes none. If not, every
    process keeps the draws of its own agents, and `gather` returns them at once."""
    outgoing: np.ndarray
    """The agents whose messages are sent: indices into the local agents, in the order of the rows
    that `exchange` takes. An agent is listed once for each process that its message goes to."""
    incoming: np.ndarray
    """The agents elsewhere whose messages arrive: their numbers, in the order of the rows that
    `exchange` returns."""

    def exchange(self, messages: jax.Array) -> jax.Array:
        """Send the messages (outgoing agent, floats), and return those of (incoming agent, floats).

        It is called under `jax.jit`. A runtime outside JAX uses `starlings.exchange_on_host`. An
        error cannot leave compiled code in order: a runtime has to end all its processes itself.
        """

    def broadcast(self, value: Value) -> Value:
        """Return the value of process 0 at every process; it is small and can be pickled."""

    def gather(self, values: np.ndarray, axis: int) -> np.ndarray | None:
        """Return the entries of all agents, in their order, at process 0, and None elsewhere.

        Args:
            values: those of the local agents.
            axis: the axis of the agents.
        """

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the total of arrays of one shape over the processes, the same bits at each."""

    def first(self, value: Value | None) -> Value | None:
        """Return the smallest value that is not None at any process; None if all are None."""

    def barrier(self) -> None:
        """Return when every process has called it."""

    def remembered(self, make: Callable[[], bytes]) -> bytes:
        """Return bytes that are found by chance, made here, for this process alone.

        Where a process can be started again in the middle of a run, it gets the same ones then.
        """


def has_result(communicator: Communicator) -> bool:
    """Whether this process gets a result: process 0, or each one where draws are not collected."""
    return communicator.rank == 0 or not communicator.collects


class LocalCommunicator:
    """Single-process communicator: every collective is the identity, and no message crosses."""

    rank, size, collects = 0, 1, True
    outgoing = incoming = np.empty(0, int)

    def exchange(self, messages: jax.Array) -> jax.Array:
        """Return no messages: no agent is elsewhere."""
        return messages

    def broadcast(self, value: Value) -> Value:
        """Return the value."""
        return value

    def gather(self, values: np.ndarray, axis: int) -> np.ndarray | None:
        """Return the values: all agents are local."""
        return values

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the values."""
        return values

    def first(self, value: Value | None) -> Value | None:
        """Return the value."""
        return value

    def barrier(self) -> None:
        """Return at once."""

    def remembered(self, make: Callable[[], bytes]) -> bytes:
        """Return new ones."""
        return make()
