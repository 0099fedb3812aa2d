"""Three ways for a compiled loop to exchange with a neighbour: `python -m benchmarks.cluster.ways`.

ffi       the loop calls MPI with its own memory (`starlings.runtime.mpi._xla_ffi`)           (1)
callback  the loop calls Python by `jax.experimental.io_callback`                         (2)
leaving   every round is a compiled function of its own, with the exchange in between     (3)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

import starlings as st
from starlings.runtime.mpi.cluster import Cluster

SIZES, ROUNDS, REPEATS = (3, 1000), 2000, 5
"""Floats of a message, rounds of a repeat, and repeats."""


def step(own: jax.Array, received: jax.Array) -> jax.Array:
    """A small computation between two exchanges."""
    return 0.5 * own + 0.1 * received


def rounds_by(name: str, swap: Callable[[Any], Any], host: Callable[[Any], Any]) -> Any:
    """A function of messages (agent, floats) and a number of rounds, by one of the ways."""
    if name == "leaving":
        compiled = jax.jit(step)

        def loop(own: Any, rounds: int) -> Any:
            for _ in range(rounds):
                own = compiled(own, host(np.asarray(own)))
            return own

        return loop

    def received(own: jax.Array) -> Any:
        if name == "ffi":
            return swap(own)  # (1)
        return io_callback(host, jax.ShapeDtypeStruct(own.shape, own.dtype), own, ordered=True)

    def loop_inside(own: Any, rounds: Any) -> Any:
        return jax.lax.fori_loop(0, rounds, lambda _, own: step(own, received(own)), own)

    return jax.jit(loop_inside)


def by_host(graph: Any, buffers: list[np.ndarray], message: Any) -> np.ndarray:
    """Exchange from Python, into two buffers in turn: compiled code may still read the last one."""
    buffers.reverse()
    graph.Neighbor_alltoall(np.asarray(message), buffers[0])
    return buffers[0]


def measure(cluster: Cluster, floats: int) -> dict[str, float]:
    """Microseconds of a round in each way, between two processes with one agent each."""
    network = st.Network.path(2)
    exchange = cluster.place(network, cluster.partition(network)).exchange
    own = jnp.ones((1, floats))
    host = partial(by_host, exchange.graph, [np.empty((1, floats)), np.empty((1, floats))])
    found = {}
    for name in ("ffi", "callback", "leaving"):
        loop, laps = rounds_by(name, exchange.swap, host), []
        jax.block_until_ready(loop(own, 10))
        for _ in range(REPEATS):
            cluster.world.Barrier()
            began = time.perf_counter()
            jax.block_until_ready(loop(own, ROUNDS))
            laps.append((time.perf_counter() - began) / ROUNDS)
        found[name] = 1e6 * max(cluster.world.allgather(median(laps)))
    return found


if __name__ == "__main__":
    with Cluster() as cluster, jax.enable_x64(True):
        rows = [{"floats": floats, **measure(cluster, floats)} for floats in SIZES]
        if cluster.is_first:
            Path(sys.argv[1]).write_text(json.dumps(rows), "utf-8")
