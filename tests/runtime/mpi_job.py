"""What the processes of an MPI job do for test_mpi.py: `-m tests.runtime.mpi_job WHAT OUTPUT`."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import networkx as nx
import numpy as np

import starlings as st
from starlings.runtime import loop
from starlings.runtime.checkpoint import Checkpoint
from starlings.runtime.divergence import Divergence
from starlings.runtime.mpi import _xla_ffi
from starlings.runtime.mpi.cluster import Cluster
from starlings.runtime.mpi.communicator import MPICommunicator
from starlings.samplers import PilotLength
from starlings.testing import check_communicator
from starlings.testing.trial import irregular_network
from tests.mpi import placed
from tests.problems import unequal_linear_problem

AGENTS, ROUNDS = 10, 200
GRAPHS = {
    "ring": lambda: st.Network.ring(AGENTS),
    "star": lambda: st.Network.star(AGENTS),
    "complete": lambda: st.Network.complete(AGENTS),
    "power-law": lambda: st.Network(nx.barabasi_albert_graph(AGENTS, 2, seed=1)),
}
SAMPLERS = {
    "dadmms": st.DADMMS(rho=2.0),
    "paper": st.DADMMS(rho=2.0, noise="paper", output="iterate"),
    "cadmm": st.CADMM(rho=2.0),
    "dsgld": st.DSGLD(step_size=0.002, batch_size=2),
    "dsghmc": st.DSGHMC(step_size=0.01, friction=7.0, batch_size=2),
    "dula": st.DULA(step_size=0.002, consensus_step=0.05),
}
FIELD = {
    "gextra": (st.GEXTRA(step_size=0.002, batch_size=2), "ring"),
    "diging": (st.DIGing(step_size=0.001), "power-law"),
    "peer learning": (st.PeerLearning(updates=3), "star"),
    "mahmc": (st.MAHMC(step_size=0.05, form="published"), "complete"),
    "depsgld": (st.DEPSGLD(0.002, st.Box(0.0, 0.9), smoothing=0.01, batch_size=2), "ring"),
    "gibbs": (st.NetworkGibbs(rho=2.0), "power-law"),
    "event-dula": (st.EventDULA(0.002, 0.05, threshold=0.3), "power-law"),
    "spla": (st.SPLA(0.05, hops=2 * AGENTS), "star"),
}
"""Samplers of the field, each tried on one graph."""
OTHERS = {
    "midpoint": st.MidpointADMMS(rho=2.0),
    "metropolis": st.Metropolis(0.3, flood_rounds=AGENTS, decision="sum"),
}
EVERY = {**SAMPLERS, **OTHERS, **{name: sampler for name, (sampler, _) in FIELD.items()}}
CASES = {
    "all": [("linear", sampler, graph) for sampler in SAMPLERS for graph in GRAPHS],
    "each": [
        ("linear", sampler, list(GRAPHS)[i % len(GRAPHS)]) for i, sampler in enumerate(SAMPLERS)
    ],
    "some": [
        ("logistic", "dadmms", "power-law"),
        ("linear", "dsghmc", "star"),
    ],
    "one": [("linear", "paper", "power-law")],
    "others": [("linear", "midpoint", "ring"), ("linear", "metropolis", "ring")],
    "field": [("linear", sampler, graph) for sampler, (_, graph) in FIELD.items()],
    "callback": [("linear", "dadmms", "star"), ("linear", "dsgld", "power-law")],
}
LENGTHS = {"draws": 20, "thin": 10, "burn_in": 0, "chains": 2, "seed": 7}


def problem_of(kind: str) -> st.Problem:
    """A regression with unequal shards: from 2 to 38 rows."""
    rng = np.random.default_rng(0)
    sites = np.repeat(np.arange(AGENTS), 2 + 4 * np.arange(AGENTS))
    X = rng.normal(size=(len(sites), 3))
    if kind == "linear":
        y = X.sum(axis=1) + rng.normal(size=len(sites))
        return st.models.linear_regression(X, y, sites, noise_std=1.0, intercept=False)
    y = rng.random(len(sites)) < 1 / (1 + np.exp(-X.sum(axis=1)))
    return st.models.logistic_regression(X, y.astype(float), sites, intercept=False)


def draws_of(problem: st.Problem, network: st.Network, sampler: str) -> st.Result:
    """The same run for every number of processes."""
    how = {"progress": False, "check": False}
    if sampler in OTHERS:
        how |= {"precision": "float32", "initial": np.full(3, 0.5)}
    return st.sample(problem, network, EVERY[sampler], **LENGTHS, **how)


def traffic_of(result: st.Result) -> np.ndarray:
    """Messages and bytes of every draw, and all bytes: the same for every number of processes."""
    stats = (result.sample_stats[name].values for name in ("messages_sent", "bytes_sent"))
    return np.append(np.stack(list(stats)), result.attrs["bytes_sent"])


def compare(cluster: Cluster, what: str, output: Path) -> None:
    """Every case, into one file."""
    found = {}
    for kind, sampler, graph in CASES[what]:
        problem, network = placed(cluster, problem_of(kind), GRAPHS[graph]())
        result = draws_of(problem, network, sampler)
        if cluster.is_first:
            found[f"{kind} {sampler} {graph}"] = result.posterior["beta"].values
            found[f"{kind} {sampler} {graph} sent"] = traffic_of(result)
    if cluster.is_first:
        np.savez(output, **found)


def fail(cluster: Cluster, what: str, output: Path) -> None:
    """A process that raises, or that is killed, in the midst of a run."""
    save, saved = Checkpoint.save, []

    def save_and_fail(self, *arguments):
        save(self, *arguments)
        saved.append(1)
        if len(saved) == 2 and self.rank == 1:
            if what != "raised":
                os.kill(os.getpid(), getattr(signal, what))
            raise OSError("no more room")

    if what != "resumed":
        Checkpoint.save = save_and_fail
    problem, network = placed(cluster, unequal_linear_problem(), st.Network.ring(6))
    options = {"checkpoint": f"{output}.run", "checkpoint_every": 40, "output": output}
    st.sample(problem, network, SAMPLERS["paper"], **LENGTHS, **options, resume=True, check=False)


def diverge(cluster: Cluster, what: str, output: Path) -> None:
    """A pilot that diverges at one process: all of them turn to Metropolis."""
    seen, st.Metropolis.pilot = loop.first_divergence, PilotLength(16, 400, 20)

    def once(*arguments):
        loop.first_divergence = seen
        return Divergence(3, "diverged") if cluster.rank == 1 else None

    loop.first_divergence = once
    problem, network = placed(cluster, problem_of("logistic"), st.Network.ring(AGENTS))
    st.sample(problem, network, draws=4, chains=2, burn_in=20, thin=20, output=output)


def check(cluster: Cluster) -> None:
    """The contract of communicators, with agents of one process next to each other and not."""
    for owner in (np.arange(6) % cluster.size, np.arange(6) * cluster.size // 6):
        network = irregular_network()
        communicator = MPICommunicator(cluster.world, network, owner)
        local = np.flatnonzero(owner == cluster.rank)
        check_communicator(network.distributed(local, communicator))


if __name__ == "__main__":
    what, output = sys.argv[1], Path(sys.argv[2])
    with Cluster() as cluster:
        if what == "callback":
            _xla_ffi.TRIED.clear()
        if what == "communicator":
            check(cluster)
        elif what in CASES:
            compare(cluster, what, output)
        else:
            (diverge if what == "diverged" else fail)(cluster, what, output)
    print(json.dumps({"rank": cluster.rank}))
