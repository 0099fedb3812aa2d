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
from starlings.network.partition import Partition, divide
from starlings.runtime.mpi.communicator import MPICommunicator, import_mpi

HEAD_START = 1.0
"""Seconds that the other processes leave the first one to speak."""
LAUNCHERS = ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


class Cluster:
    """All processes of an MPI job, as a context in which an error at one of them ends them all."""

    def __init__(self) -> None:
        mpi = import_mpi()
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

    def broadcast(self, value: Any) -> Any:
        """A small value as the first process has it."""
        return self.world.bcast(value, root=0)

    def merged(self, own: dict[str, Any]) -> dict[str, Any]:
        """A small value of every site, from whoever holds it."""
        return {site: value for part in self.world.allgather(own) for site, value in part.items()}

    def partition(self, network: Network, rows: Any = None) -> Partition:
        """The division of agents among the processes, the same at each."""
        return self.broadcast(divide(network, self.size, rows) if self.is_first else None)

    def place(self, network: Network, partition: Partition) -> Network:
        """The network as this process sees it."""
        if self.size == 1:
            return network
        communicator = MPICommunicator(self.world, network, partition.owner)
        return network.distributed(np.flatnonzero(partition.owner == self.rank), communicator)


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
