"""What one process of a measured job does: `python -m benchmarks.cluster.worker CASES OUTPUT`.

Every process makes the rows of its own agents only. A round is timed as in
`speed`. The time inside the exchange is mostly waiting for neighbours; the shortest of all rounds,
in which nobody had to wait for long, is what the exchange itself costs.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import jax
import networkx as nx
import numpy as np

import starlings as st
from starlings.random.addresses import chain_keys
from starlings.runtime import loop
from starlings.runtime.mpi.cluster import Cluster
from starlings.sampling import start_positions

RHO, LIMIT = 5.0, 1e9
"""The penalty of D-ADMMS, and the absolute value of a coordinate above which it has diverged."""


@dataclass(frozen=True)
class Case:
    """A study on some number of processes."""

    graph: str
    agents: int
    rows: int
    """Rows of each agent."""
    dim: int
    chains: int
    rounds: int
    """Rounds of one repeat."""
    repeats: int = 5

    @property
    def network(self) -> st.Network:
        """A ring or a power-law graph (preferential attachment)."""
        if self.graph == "ring":
            return st.Network.ring(self.agents)
        return st.Network(nx.barabasi_albert_graph(self.agents, 2, seed=0))

    def problem(self, local: np.ndarray) -> st.Problem:
        """A logistic regression with the rows of the local agents, given by their numbers."""
        X, y = zip(*(self._rows_of(int(agent)) for agent in local), strict=True)
        sites = np.repeat(np.arange(len(local)), self.rows)
        problem = st.models.logistic_regression(
            np.concatenate(X), np.concatenate(y), sites, intercept=False
        )
        named = problem.renamed([str(agent) for agent in local])
        return named.part_of([str(agent) for agent in range(self.agents)])

    def _rows_of(self, agent: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng([0, agent])
        X = random.normal(size=(self.rows, self.dim))
        chance = 1 / (1 + np.exp(-X.sum(axis=1) / self.dim**0.5))
        return X, (random.random(self.rows) < chance).astype(float)


class Job:
    """The rounds of a case at this process, advanced by so many at a call."""

    def __init__(self, case: Case, cluster: Cluster) -> None:
        whole = case.network.matched_to([str(agent) for agent in range(case.agents)])
        self.partition = cluster.partition(whole)
        self.network = cluster.place(whole, self.partition)
        problem = case.problem(self.network.local)
        with jax.enable_x64(True):
            self.sampler = st.DADMMS(RHO)
            agents = problem.agents(self.network)
            agents = loop.prepared(self.sampler, agents)
            keys = chain_keys(0, case.chains, self.network.local)
            wiring = loop.Wiring.of(self.network, np.float64)
            start = start_positions(problem, self.sampler, None, case.chains, 0, np.float64)
            self.fixed = (self.sampler, agents, wiring, keys, LIMIT)
            self.state = loop.start(self.sampler, agents, start, keys)
        self.bytes_held = sum(leaf.nbytes for leaf in jax.tree.leaves((agents, self.state.states)))
        self(1)

    def __call__(self, rounds: int) -> Any:
        """Go on for so many rounds, and return what was recorded."""
        with jax.enable_x64(True):
            self.state, record = loop.advance(*self.fixed, self.state, 1, rounds, capacity=1)
            return jax.block_until_ready(record)

    def gather(self, record: Any) -> None:
        """Gather one draw of all agents at the first process."""
        position = np.asarray(record.position)
        if self.network.is_distributed:
            self.network.exchange.gather(position, axis=2)


def measure(case: Case, cluster: Cluster) -> dict[str, Any]:
    """Seconds of a round and of its parts: the slowest process, medians over the repeats."""
    job = Job(case, cluster)
    exchange = job.network.exchange
    walls, waits, records = [], [], []
    for _ in range(case.repeats):
        cluster.world.Barrier()
        before, began = 0.0 if exchange is None else exchange.seconds, time.perf_counter()
        record = job(case.rounds)
        walls.append((time.perf_counter() - began) / case.rounds)
        waits.append(((0.0 if exchange is None else exchange.seconds) - before) / case.rounds)
        began = time.perf_counter()
        job.gather(record)
        records.append(time.perf_counter() - began)
    sent = 0 if exchange is None else exchange.bytes_sent / exchange.rounds
    own = np.array([median(walls), median(waits), median(records), sent, job.bytes_held])
    least = 0.0 if exchange is None else exchange.least_seconds
    own = np.append(own, [1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, least])
    everybody = np.array(cluster.world.allgather(own))
    crossing = crossing_messages(job.network, job.partition.owner)
    return {
        "processes": cluster.size,
        "seconds_per_round": everybody[:, 0].max(),
        "exchange_seconds": everybody[:, 6].max(),
        "waiting_seconds": max(0.0, everybody[:, 1].max() - everybody[:, 6].max()),
        "recording_seconds": everybody[:, 2].max(),
        "bytes_per_round": everybody[:, 3].sum(),
        "least_bytes": 8.0 * case.dim * case.chains * crossing,
        "cut": job.partition.cut,
        "edges": job.partition.num_links,
        "bytes_held": everybody[:, 4].max(),
        "resident_bytes": everybody[:, 5].max(),
    }


def crossing_messages(network: st.Network, owner: np.ndarray) -> int:
    """The number of pairs of an agent and a different process that receives from it.

    Fewer messages than that cannot be sent.
    """
    senders = np.repeat(np.arange(network.size), network.degrees)
    pairs = np.stack([senders, owner[network.adjacency.indices]])
    return np.unique(pairs[:, owner[senders] != pairs[1]], axis=1).shape[1]


def main(case_file: Path, output: Path) -> None:
    """Measure the cases of a file, and write the results at the first process."""
    cases = [Case(**case) for case in json.loads(case_file.read_text("utf-8"))]
    with Cluster() as cluster:
        rows = [measure(case, cluster) for case in cases]
        if cluster.is_first:
            output.write_text(json.dumps(rows), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
