"""The communicator of an MPI job: messages between processes by a neighbourhood collective.

In each round the messages of `Crossings` are exchanged by `Neighbor_alltoallv`, on an MPI
communicator that knows which processes are neighbours. It is called from inside the compiled loop,
with the loop's own memory where XLA has a version of its interface that was tried (see `_xla_ffi`),
and otherwise by `exchange_on_host`, which is slower by some 0.1 ms per round.
"""

from __future__ import annotations

import itertools
import math
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from starlings.network import Network
from starlings.network.crossings import Crossings
from starlings.runtime.callback import exchange_on_host
from starlings.runtime.mpi import _xla_ffi
from starlings.system.extras import install_command

_numbers = itertools.count()
"""Numbers for the names under which XLA knows the exchanges of this process."""


class MPICommunicator:
    """A `Communicator` between the processes of an MPI job."""

    collects = True

    def __init__(self, world: Any, network: Network, owner: np.ndarray) -> None:
        self.rank, self.size, self.world = world.Get_rank(), world.Get_size(), world
        self.owner = owner
        crossings = Crossings.of(network, owner, self.rank)
        self.outgoing, self.incoming = crossings.outgoing, crossings.incoming
        neighbours = crossings.neighbours
        self.graph = world.Create_dist_graph_adjacent(neighbours, neighbours, reorder=False)
        self._sent = _counts_and_offsets(crossings.sent)
        self._received = _counts_and_offsets(crossings.received)
        self._bytes_at = import_mpi().buffer.fromaddress
        self.seconds, self.least_seconds, self.rounds, self.bytes_sent = 0.0, math.inf, 0, 0
        """Time in exchanges so far and in the shortest, exchanges, and bytes sent in them."""
        self.name = f"starlings_exchange_{next(_numbers)}"
        self.is_in_place = _xla_ffi.is_tried()
        """Whether the exchange works on the memory of the compiled loop, without copies."""
        if self.is_in_place:
            _xla_ffi.register(self.name, self._exchange)
        else:
            warnings.warn(_untried(), UserWarning, stacklevel=2)

    def exchange(self, messages: jax.Array) -> jax.Array:
        """The messages of the incoming agents for those of the outgoing ones, in compiled code."""
        if self.is_in_place:
            return _xla_ffi.call(self.name, messages, len(self.incoming))
        return exchange_on_host(self._exchange_copies, messages, len(self.incoming))

    def _exchange_copies(self, sent: np.ndarray) -> np.ndarray:
        """The exchange from and to arrays of Python."""
        received = np.empty((len(self.incoming), sent.shape[1]), sent.dtype)
        self._exchange(sent.ctypes.data, received.ctypes.data, sent.shape[1] * sent.itemsize)
        return received

    def _exchange(self, source: int, target: int, row_bytes: int) -> None:
        """The exchange from one address in memory to another; an error ends all processes."""
        try:
            began = time.perf_counter()
            sent, received = self._sent * row_bytes, self._received * row_bytes
            total = len(self.outgoing) * row_bytes
            self.graph.Neighbor_alltoallv(
                [self._bytes_at(source, total), (sent[0], sent[1])],
                [
                    self._bytes_at(target, len(self.incoming) * row_bytes),
                    (received[0], received[1]),
                ],
            )
            took = time.perf_counter() - began
            self.seconds, self.least_seconds = self.seconds + took, min(self.least_seconds, took)
            self.rounds, self.bytes_sent = self.rounds + 1, self.bytes_sent + total
        except BaseException:  # compiled code could not report it
            traceback.print_exc()
            self.world.Abort(1)

    def broadcast(self, value: Any) -> Any:
        """The value of process 0, at every process."""
        return self.world.bcast(value, root=0)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Arrays added over the processes, the same total at each."""
        return self.world.allreduce(values)

    def first(self, value: Any) -> Any:
        """The smallest value that is not None at any process, at every process."""
        found = [each for each in self.world.allgather(value) if each is not None]
        return min(found) if found else None

    def gather(self, values: np.ndarray, axis: int) -> np.ndarray | None:
        """Entries of the local agents along `axis` as those of all agents, at process 0.

        The other processes get None.
        """
        own = np.ascontiguousarray(np.moveaxis(values, axis, 0))
        row = own[0].size
        counts = np.bincount(self.owner, minlength=self.size) * row
        if self.rank != 0:
            self.world.Gatherv(own, None, root=0)
            return None
        everything = np.empty((len(self.owner), *own.shape[1:]), own.dtype)
        self.world.Gatherv(own, [everything, counts], root=0)
        order = np.argsort(self.owner, kind="stable")
        ordered = np.empty_like(everything)
        ordered[order] = everything
        return np.moveaxis(ordered, 0, axis)

    def barrier(self) -> None:
        """Return when every process has called it."""
        self.world.Barrier()

    def remembered(self, make: Callable[[], bytes]) -> bytes:
        """New bytes: all processes of a job end and start together."""
        return make()


def _counts_and_offsets(lists: list[np.ndarray]) -> np.ndarray:
    """The lengths of lists that follow one another, and where each begins: (2, lists)."""
    counts = np.array([len(numbers) for numbers in lists], int)
    return np.stack([counts, np.cumsum(counts) - counts])


def _untried() -> str:
    major, minor = _xla_ffi.version()
    return (
        f"XLA's foreign function interface has the version {major}.{minor}, with which starlings "
        f"was not tried (JAX {jax.__version__}): messages go through a callback, which makes every "
        "round some 0.1 ms slower. Draws do not change."
    )


def import_mpi() -> Any:
    """mpi4py's `MPI`, or an error that says how to install it."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"the MPI runtime needs mpi4py and an MPI; {install_command('mpi')} ({error})."
        ) from None
    return MPI
