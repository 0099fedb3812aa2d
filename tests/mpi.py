"""How tests start MPI jobs, and what a process of such a job sees of a problem and a network."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import starlings as st

if TYPE_CHECKING:
    from starlings.runtime.mpi.cluster import Cluster

ROOT = Path(__file__).parents[1]
"""The folder of the repository, in which the jobs run."""
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
"""The program that starts MPI jobs; None if it is not installed."""
MISSING = [name for name in ("mpi4py", "pymetis") if importlib.util.find_spec(name) is None]
"""The packages that the MPI runtime needs and that are not installed."""
needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or bool(MISSING), reason=f"no MPI here: mpiexec is {MPIEXEC}, no {MISSING}"
)
OVERSUBSCRIBED = ("--map-by", ":OVERSUBSCRIBE", "--mca", "mpi_yield_when_idle", "1")
"""Options of `mpiexec` that allow more processes than cores."""
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""Environment variables with which Open MPI runs as root, as in a container."""


def mpi(processes: int, *command: object) -> subprocess.CompletedProcess[str]:
    """Run `python COMMAND` on some processes, and wait at most 300 seconds for all of them."""
    return subprocess.run(
        [MPIEXEC, "-n", str(processes), *OVERSUBSCRIBED, sys.executable, *map(str, command)],
        cwd=ROOT,
        env={**os.environ, **AS_ROOT},
        capture_output=True,
        text=True,
        timeout=300,
    )


def placed(
    cluster: Cluster, problem: st.Problem, network: st.Network
) -> tuple[st.Problem, st.Network]:
    """A problem and a network as one process sees them."""
    network = network.matched_to(problem.sites)
    network = cluster.place(network, cluster.partition(network, problem.num_rows))
    local = {site: problem.shards[site] for site in network.local_names}
    densities = (problem.log_likelihoods, problem.log_prior, problem.parameters)
    own = problem.log_local_prior
    part = st.Problem.from_flat(*densities, local, problem.is_quadratic, log_local_prior=own)
    return part.part_of(problem.sites), network
