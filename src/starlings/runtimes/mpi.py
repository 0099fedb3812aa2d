"""A network over many processes: who holds which agents, what they exchange, what comes together.

Every process of an MPI job runs the same program on the agents that it holds, with the same
compiled rounds as on one machine. A message that another process's agent has to hear crosses once
in each round:

    outgoing of p to q    the agents of p with a neighbour at q, in the order of their numbers  (1)

by a neighbourhood collective on a communicator that knows which processes are neighbours. It is
called from inside the compiled loop (see `foreign`), so that nothing but (1) is ever waited for.

The noise of an agent has an address that does not depend on where it is held (see `rounds`), so
that the draws do not depend on the number of processes but for rounding: sums over neighbours and
over rows are made in another order where arrays have other shapes.
"""

from __future__ import annotations

import itertools
import math
import os
import sys
import time
import traceback
import warnings
from typing import Any

import jax
import numpy as np

from starlings.errors import in_one_line
from starlings.network import Network
from starlings.runtimes import foreign
from starlings.runtimes.partition import Partition, divide
from starlings.runtimes.trouble import Trouble

HEAD_START = 1.0
"""Seconds that the other processes leave the first one to speak."""
LAUNCHERS = ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")

_numbers = itertools.count()


class Cluster:
    """All processes of an MPI job, as a context in which an error at one of them ends them all."""

    def __init__(self) -> None:
        mpi = _import_mpi()
        self.world = mpi.COMM_WORLD
        self.rank: int = self.world.Get_rank()
        self.size: int = self.world.Get_size()
        self.where = ""
        """What an error says about this process besides its number."""
        _refuse_singletons(self.size)
        on_this_machine = self.world.Split_type(mpi.COMM_TYPE_SHARED).Get_size()
        os.environ.setdefault("NPROC", str(_own_cores(on_this_machine)))  # threads of XLA
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # exchanges in program order

    def __enter__(self) -> Cluster:
        if not self.is_first:
            warnings.simplefilter("ignore")  # one process speaks for all
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or self.size == 1:
            return
        if not self.is_first:
            time.sleep(HEAD_START)  # an error of all processes is said once
        if os.environ.get("STARLINGS_DEBUG"):
            traceback.print_exception(error)
        said = f"Process {self.rank} of {self.size}{self.where}. {in_one_line(error)}"
        print(said, file=sys.stderr, flush=True)
        self.world.Abort(1)

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that speaks for all."""
        return self.rank == 0

    def told(self, value: Any) -> Any:
        """A small value as the first process has it."""
        return self.world.bcast(value, root=0)

    def merged(self, own: dict[str, Any]) -> dict[str, Any]:
        """A small value of every site, from whoever holds it."""
        return {site: value for part in self.world.allgather(own) for site, value in part.items()}

    def partition(self, network: Network, rows: Any = None) -> Partition:
        """The division of agents among the processes, the same at each."""
        return self.told(divide(network, self.size, rows) if self.is_first else None)

    def place(self, network: Network, partition: Partition) -> Network:
        """The network as this process sees it."""
        if self.size == 1:
            return network
        exchange = Exchange(self.world, network, partition.owner)
        return network.placed(np.flatnonzero(partition.owner == self.rank), exchange)


class Exchange:
    """The messages between one process and its neighbours, round after round."""

    def __init__(self, world: Any, network: Network, owner: np.ndarray) -> None:
        self.rank, self.size, self.world = world.Get_rank(), world.Get_size(), world
        self.owner = owner
        held = np.flatnonzero(owner == self.rank)
        links = network.adjacency[held]
        receivers, senders = np.repeat(held, np.diff(links.indptr)), links.indices
        neighbours = sorted({int(q) for q in owner[senders]} - {self.rank})
        incoming = [np.unique(senders[owner[senders] == q]) for q in neighbours]
        outgoing = [np.unique(receivers[owner[senders] == q]) for q in neighbours]  # (1)
        self.visible = np.concatenate([*incoming, np.empty(0, int)]).astype(int)
        """The numbers of the agents elsewhere that those here hear."""
        self.outgoing = np.searchsorted(held, np.concatenate([*outgoing, np.empty(0, int)]))
        """The places, among those here, of the agents whose messages are sent."""
        self.graph = world.Create_dist_graph_adjacent(neighbours, neighbours, reorder=False)
        self._sent = _counts_and_places(outgoing)
        self._received = _counts_and_places(incoming)
        self._bytes_at = _import_mpi().buffer.fromaddress
        self.seconds, self.least_seconds, self.rounds, self.bytes_sent = 0.0, math.inf, 0, 0
        self.name = f"starlings_exchange_{next(_numbers)}"
        foreign.register(self.name, self._swap)

    def swap(self, messages: jax.Array) -> jax.Array:
        """The messages of `visible` for those of `outgoing`, (agent, floats), in compiled code."""
        return foreign.call(self.name, messages, len(self.visible))

    def _swap(self, source: int, target: int, row_bytes: int) -> None:
        try:
            began = time.perf_counter()
            sent, received = self._sent * row_bytes, self._received * row_bytes
            total = len(self.outgoing) * row_bytes
            self.graph.Neighbor_alltoallv(
                [self._bytes_at(source, total), (sent[0], sent[1])],
                [
                    self._bytes_at(target, len(self.visible) * row_bytes),
                    (received[0], received[1]),
                ],
            )
            took = time.perf_counter() - began
            self.seconds, self.least_seconds = self.seconds + took, min(self.least_seconds, took)
            self.rounds, self.bytes_sent = self.rounds + 1, self.bytes_sent + total
        except BaseException:  # nobody else would hear of it
            traceback.print_exc()
            self.world.Abort(1)

    def told(self, value: Any) -> Any:
        """A small value as the first process has it."""
        return self.world.bcast(value, root=0)

    def earliest(self, trouble: Trouble | None) -> Trouble | None:
        """The first trouble of any process, so that all stop for it together."""
        found = [each for each in self.world.allgather(trouble) if each is not None]
        return min(found) if found else None

    def disagreement(self, positions: np.ndarray) -> float:
        """Of positions (chain, agent, dim) of all agents, the mean over the chains."""
        size = len(self.owner)
        mean = self.world.allreduce(positions.sum(axis=1)) / size
        apart = ((positions - mean[:, None]) ** 2).sum(axis=(1, 2))
        return float(np.sqrt(self.world.allreduce(apart) / size).mean())

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


def _refuse_singletons(size: int) -> None:
    """A launcher that this MPI does not know starts many jobs of one process each."""
    for variable in LAUNCHERS:
        started = os.environ.get(variable, "1")
        if size == 1 and started.isdecimal() and int(started) > 1:
            raise ValueError(
                f"{variable} says {started} processes, but MPI knows of one: the launcher and the "
                "MPI that mpi4py uses do not fit (with Slurm, try `srun --mpi=pmix`)."
            )


def _own_cores(processes: int) -> int:
    """The cores of this process, which may have its own or share all of them with some others."""
    every = os.cpu_count() or 1
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every
    return own if own < every else max(1, own // processes)


def _import_mpi() -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            "the MPI runtime needs mpi4py and an MPI; install both with "
            f"`pip install 'starlings[mpi]'` ({error})."
        ) from None
    return MPI
