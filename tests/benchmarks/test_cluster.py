"""What the benchmark `cluster` counts and how it judges; the jobs themselves take minutes."""

from __future__ import annotations

import networkx as nx
import numpy as np

import starlings as st
from benchmarks.cluster import report, worker


def row(processes: int, seconds: float, **others) -> dict:
    case = {"graph": "ring", "agents": 400, "rows": 200, "dim": 8, "chains": 4}
    times = {"exchange_seconds": 1e-5, "waiting_seconds": 0.0, "recording_seconds": 1e-4}
    sizes = {"bytes_per_round": 64.0, "least_bytes": 64.0, "bytes_held": 1e6}
    sizes |= {"resident_bytes": 1e8, "cut": 2, "edges": 400}
    return {"processes": processes, "seconds_per_round": seconds} | case | times | sizes | others


def cells(grid, column: str) -> list[str]:
    return [line[grid.headings.index(column)] for line in grid.rows]


def test_each_message_crosses_once_to_each_process_that_hears_it():
    network = st.Network(nx.barabasi_albert_graph(30, 3, seed=0))
    owner = np.random.default_rng(0).integers(4, size=30)
    pairs = {
        (agent, owner[other])
        for agent in range(30)
        for other in network.adjacency.indices[
            network.adjacency.indptr[agent] : network.adjacency.indptr[agent + 1]
        ]
        if owner[other] != owner[agent]
    }
    assert worker.crossing_messages(network, owner) == len(pairs)


def test_rows_of_an_agent_do_not_depend_on_who_makes_them():
    case = worker.Case("ring", agents=6, rows=4, dim=2, chains=1, rounds=1)
    whole, part = case.problem(np.arange(6)), case.problem(np.array([1, 4]))
    assert (part.num_agents, list(part.shards)) == (6, ["1", "4"])
    for column in ("x", "y"):
        np.testing.assert_array_equal(part.shards["4"][column], whole.shards["4"][column])


def test_missed_targets_have_a_star():
    rows = [row(1, 3e-3), row(2, 2.5e-3), row(4, 1e-2)]
    assert cells(report.strong_grid({"rows": rows}), "speed-up") == ["1.00", "1.20 *", "0.30"]
    short = [row(1, 3e-4, agents=20), row(2, 4e-4, agents=20, exchange_seconds=6e-5)]
    grid = report.strong_grid({"rows": short})
    assert cells(grid, "speed-up") == ["1.00", "0.75"]  # too short a round to expect more
    assert cells(grid, "exchange, µs") == ["10.0", "60.0 *"]
    weak = report.weak_grid({"rows": [row(1, 1e-3), row(2, 2e-3, agents=800)]})
    assert cells(weak, "efficiency") == ["1.00", "0.50 *"]


def test_the_page_has_every_part():
    part = {"machine": "a machine", "repeats": 5, "quick": False}
    ways = [{"floats": 3, "ffi": 5.0, "callback": 60.0, "leaving": 15.0}]
    rows = [row(1, 4e-3), row(2, 2e-3)]
    parts = {"strong": part | {"rows": rows}, "weak": part | {"rows": rows}}
    cut = [{"agents": 600, "parts": 6, "messages": 3000}]
    text = report.page_text(
        parts | {"ways": part | {"rows": ways}, "crossing": part | {"rows": cut}}
    )
    assert "| 3 | 5.0 | 60.0 | 15.0 |" in text
    computing = 1e6 / 1000 * 4e-3 / 400  # eq. (1)
    exchange = 2 * report.LATENCY + 2 * 8 * 8 * 4 / report.BANDWIDTH
    assert f"| {1 / (computing + exchange):,.1f} |" in text
    assert "| power-law | 393 | 500 |" in text  # 999 (1 - exp(-500 / 999)) parts hear 500
