"""The processes of an MPI job: which of them holds which agents, and what happens if one fails.

Every process runs the same program on its own agents, with the same compiled rounds as on one
machine; `communicator` has what crosses between processes in a round.

The noise of an agent has an address that does not depend on the process that holds it (see
`starlings.random.addresses`), so that the draws do not depend on the number of processes except for
rounding: sums over neighbours and over rows are made in another order where arrays have other
shapes.
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
"""Seconds that other processes wait before they print an error: process 0 often has the same."""
LAUNCHERS = ("SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
"""Environment variables in which launchers give the number of processes that they start."""


class Cluster:
    """All processes of an MPI job, as a context in which an error at one of them ends them all."""

    def __init__(self) -> None:
        mpi = import_mpi()
        self.world = mpi.COMM_WORLD
        self.rank: int = self.world.Get_rank()
        self.size: int = self.world.Get_size()
        self.where = ""
        """What an error message says about this process after its number."""
        _refuse_singletons(self.size)
        on_this_machine = self.world.Split_type(mpi.COMM_TYPE_SHARED).Get_size()
        os.environ.setdefault("NPROC", str(_own_cores(on_this_machine)))  # threads of XLA
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # exchanges in program order

    def __enter__(self) -> Cluster:
        if not self.is_first:
            warnings.simplefilter("ignore")  # process 0 prints them
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or self.size == 1:
            return
        if not self.is_first:
            time.sleep(HEAD_START)  # an error of all processes is printed once
        if os.environ.get("STARLINGS_DEBUG"):
            traceback.print_exception(error)
        said = f"Process {self.rank} of {self.size}{self.where}. {in_one_line(error)}"
        print(said, file=sys.stderr, flush=True)
        self.world.Abort(1)

    @property
    def is_first(self) -> bool:
        """Whether this is process 0, the only one that prints warnings and returns results."""
        return self.rank == 0

    def broadcast(self, value: Any) -> Any:
        """The value of process 0, which is small and can be pickled, at every process."""
        return self.world.bcast(value, root=0)

    def merged(self, own: dict[str, Any]) -> dict[str, Any]:
        """Small values by site, those of all processes together, at every process."""
        return {site: value for part in self.world.allgather(own) for site, value in part.items()}

    def partition(self, network: Network, rows: Any = None) -> Partition:
        """The division of the agents among the processes, the same at every process.

        Args:
            network: all agents and links.
            rows: the number of rows of every agent, which are balanced; None if they are alike.
                Process 0 needs them.
        """
        return self.broadcast(divide(network, self.size, rows) if self.is_first else None)

    def place(self, network: Network, partition: Partition) -> Network:
        """The network as this process sees it: all links, and its own agents."""
        if self.size == 1:
            return network
        communicator = MPICommunicator(self.world, network, partition.owner)
        return network.distributed(np.flatnonzero(partition.owner == self.rank), communicator)


def _refuse_singletons(size: int) -> None:
    """Refuse many jobs of one process each: a launcher that does not fit this MPI starts those."""
    for variable in LAUNCHERS:
        started = os.environ.get(variable, "1")
        if size == 1 and started.isdecimal() and int(started) > 1:
            raise ValueError(
                f"{variable} says {started} processes, but MPI sees only one: the launcher and the "
                "MPI that mpi4py uses are incompatible (with Slurm, try `srun --mpi=pmix`)."
            )


def _own_cores(processes: int) -> int:
    """The number of cores for this process, one of `processes` on this machine.

    A launcher may have bound it to some of the cores; otherwise all cores are shared evenly.
    """
    every = os.cpu_count() or 1
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else every
    return own if own < every else max(1, own // processes)
