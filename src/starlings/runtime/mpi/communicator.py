"""The communicator of an MPI job: messages between processes by a neighbourhood collective.

A message that an agent of another process has to hear crosses once in each round:

    outgoing of p to q    the agents of p with a neighbour at q, in the order of their numbers  (1)

by `Neighbor_alltoallv` on a communicator that knows which processes are neighbours. It is called
from inside the compiled loop (see `_xla_ffi`), so that nothing but (1) is ever waited for.
"""

from __future__ import annotations

import itertools
import math
import time
import traceback
from typing import Any

import jax
import numpy as np

from starlings.network import Network
from starlings.runtime.mpi import _xla_ffi
from starlings.system.extras import install_command

_numbers = itertools.count()


class MPICommunicator:
    """A `Communicator` between the processes of an MPI job."""

    def __init__(self, world: Any, network: Network, owner: np.ndarray) -> None:
        self.rank, self.size, self.world = world.Get_rank(), world.Get_size(), world
        self.owner = owner
        held = np.flatnonzero(owner == self.rank)
        links = network.adjacency[held]
        receivers, senders = np.repeat(held, np.diff(links.indptr)), links.indices
        neighbours = sorted({int(q) for q in owner[senders]} - {self.rank})
        incoming = [np.unique(senders[owner[senders] == q]) for q in neighbours]
        outgoing = [np.unique(receivers[owner[senders] == q]) for q in neighbours]  # (1)
        self.incoming = np.concatenate([*incoming, np.empty(0, int)]).astype(int)
        """The numbers of the agents elsewhere that those here hear."""
        self.outgoing = np.searchsorted(held, np.concatenate([*outgoing, np.empty(0, int)]))
        """The places, among those here, of the agents whose messages are sent."""
        self.graph = world.Create_dist_graph_adjacent(neighbours, neighbours, reorder=False)
        self._sent = _counts_and_places(outgoing)
        self._received = _counts_and_places(incoming)
        self._bytes_at = import_mpi().buffer.fromaddress
        self.seconds, self.least_seconds, self.rounds, self.bytes_sent = 0.0, math.inf, 0, 0
        self.name = f"starlings_exchange_{next(_numbers)}"
        _xla_ffi.register(self.name, self._exchange)

    def exchange(self, messages: jax.Array) -> jax.Array:
        """The messages of the incoming agents for those of the outgoing ones, in compiled code."""
        return _xla_ffi.call(self.name, messages, len(self.incoming))

    def _exchange(self, source: int, target: int, row_bytes: int) -> None:
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
        except BaseException:  # nobody else would hear of it
            traceback.print_exc()
            self.world.Abort(1)

    def broadcast(self, value: Any) -> Any:
        """A small value of process 0, at every process."""
        return self.world.bcast(value, root=0)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Arrays added over the processes."""
        return self.world.allreduce(values)

    def first(self, value: Any) -> Any:
        """The smallest value of any process that is not None."""
        found = [each for each in self.world.allgather(value) if each is not None]
        return min(found) if found else None

    def gather(self, values: np.ndarray, axis: int) -> np.ndarray | None:
        """Values of the agents here, along one axis, as those of all agents, at the first process.

        None at the others.
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
        """Wait for all processes."""
        self.world.Barrier()


def _counts_and_places(lists: list[np.ndarray]) -> np.ndarray:
    """The lengths of lists that follow one another, and where each begins: (2, lists)."""
    counts = np.array([len(numbers) for numbers in lists], int)
    return np.stack([counts, np.cumsum(counts) - counts])


def import_mpi() -> Any:
    """mpi4py's `MPI`, or an error that says how to install it."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            f"the MPI runtime needs mpi4py and an MPI; {install_command('mpi')} ({error})."
        ) from None
    return MPI
