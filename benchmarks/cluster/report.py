"""The tables and the page, with what to expect of larger machines.

A round of A agents on p processes, each with k neighbours to which it sends m bytes, is expected to
take

    seconds = (A / p) c + k L + m / B                                                          (1)

with c the measured seconds for one agent, and a latency L and a bandwidth B of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from textwrap import fill
from typing import Any

from rich.console import Console

from ..speed.report import WIDTH, provenance
from ..speed.results import Part
from ..tables import Grid

SPEED_UP, EXCHANGE_MICROSECONDS, EFFICIENCY = 1.5, 50.0, 0.8
SMALL_CUT = 10
LONG_ROUND = 1e-3
"""Seconds from which a speed-up is expected."""
LATENCY, BANDWIDTH = 5e-6, 5e9
"""Of a cluster's network, assumed: seconds, and bytes per second for each process."""
FUTURE_AGENTS, FUTURE_PROCESSES = 1_000_000, 1000

PAGE = """# On a cluster

Made by `python -m benchmarks cluster --page docs/cluster.md`. {where}

## How it works

`mpiexec -n 64 starlings sample study.toml --runtime mpi` divides the agents among the processes by
METIS, with few links between processes and like numbers of rows in each, and prints the cut and
the balance. Each process reads the rows of its own sites and no others, and runs the same compiled
rounds as on one machine. In every round the messages that cross the cut are exchanged by one
neighbourhood collective, called from inside the compiled loop.

Computing of agents inside a part is not overlapped with the exchange, which by itself takes some
microseconds of a round (below): an overlap could save no more than those. What takes longer is
waiting for a neighbour that is still computing.

**The draws are the same for any number of processes.** The noise of an agent has an address that
does not depend on where it is held. What is left is rounding: the rows of a process are padded to
the longest of its own shards, and XLA sums arrays of other lengths in another order; sums over
neighbours are made by a total, a matrix product or one by one, as fits the links that a process
sees. Tests hold six samplers on rings, stars, complete and power-law graphs on 2 processes, and
some of them on 3, 4 and 8, to 1e-10 of the spread of the draws after 200 rounds. A run that is
resumed on as many processes as before has the same draws in every bit.

Files: all processes must see the folder of the study and of its output. A checkpoint is written
every `--checkpoint-every` rounds (10,000) to the folder OUTPUT.run; `--resume` goes on from the
newest one that all processes had written, with any number of processes.

From Python, with a network whose nodes are called after the sites, and a function of your own that
makes the problem of some of the sites:

```python
from starlings.runtime.mpi.cluster import Cluster

with Cluster() as cluster:  # an error at one process ends them all
    network = cluster.place(network, cluster.partition(network, rows_of_every_site))
    problem = problem_of(network.local_names).part_of(network.names)
    result = starlings.sample(problem, network)  # None but at the first process
```
"""
STRONG_TEXT = f"""\
Logistic regressions, default noise, one thread for each process. `exchange` is the time inside MPI
in the round where it is shortest: what it costs by itself. `waiting` is what it takes longer on
average, until the neighbours are there. `bytes` are sent by all processes in a round, over the
least that has to cross (every message once to each process that hears it). `recording` is for one
draw of all agents, to the first process. `held` are the arrays of the agents and chains at the
largest process, `resident` all its memory: that of the smallest study is Python, JAX and its
compiler. Targets: {SPEED_UP:g} times as fast on 2 processes where a round takes over
{1e3 * LONG_ROUND:g} ms, and at most {EXCHANGE_MICROSECONDS:g} µs for the exchange of a small cut
(up to {SMALL_CUT} links) on 2 processes."""
WEAK_TEXT = f"""\
`efficiency` is the time of one process over that of several with as many agents each. Target:
{EFFICIENCY:g} on 2 processes; with two cores, 4 processes can reach no more than half."""
WAYS_TEXT = """\
Microseconds of a round between two processes with one agent each and next to nothing to compute:
MPI called by the compiled loop itself (`foreign`), through `jax.experimental.io_callback`, or
between compiled rounds (`leaving`). The first is kept."""


def strong_grid(part: Part) -> Grid:
    """Speed-ups over the first row of each case."""
    headings = ["study", "processes", "cut", "round, ms", "speed-up", "computing, µs"]
    headings += ["exchange, µs", "waiting, µs", "recording, µs", "bytes", "over least"]
    headings += ["held, MB", "resident, MB"]
    cells = []
    for row in part["rows"]:
        speed_up = alone(row, part["rows"])["seconds_per_round"] / row["seconds_per_round"]
        cells.append(
            [
                study(row),
                str(row["processes"]),
                f"{row['cut']}/{row['edges']}",
                f"{1e3 * row['seconds_per_round']:.3g}",
                f"{speed_up:.2f}{_star(not is_fast(row, part['rows']))}",
                *_split(row),
                f"{row['bytes_per_round']:,.0f}",
                f"{row['bytes_per_round'] / row['least_bytes']:.2f}" if row["least_bytes"] else "",
                f"{1e-6 * row['bytes_held']:.2f}",
                f"{1e-6 * row['resident_bytes']:.0f}",
            ]
        )
    return Grid("The same study on more processes", headings, cells, words=1)


def study(row: Mapping[str, Any]) -> str:
    """What a row is about."""
    size = f"{row['agents']} agents x {row['rows']:,} rows"
    return f"{row['graph']}, {size}, d = {row['dim']}, chains: {row['chains']}"


def _split(row: Mapping[str, Any]) -> list[str]:
    inside = row["exchange_seconds"] + row["waiting_seconds"]
    exchange = 1e6 * row["exchange_seconds"]
    is_small = row["processes"] == 2 and row["cut"] <= SMALL_CUT
    slow = is_small and exchange > EXCHANGE_MICROSECONDS
    return [
        f"{1e6 * (row['seconds_per_round'] - inside):,.0f}",
        f"{exchange:,.1f}{_star(slow)}",
        f"{1e6 * row['waiting_seconds']:,.1f}",
        f"{1e6 * row['recording_seconds']:,.0f}",
    ]


def alone(row: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of the same study on one process."""
    same = ("graph", "rows", "dim", "chains")
    return next(r for r in rows if r["processes"] == 1 and all(r[k] == row[k] for k in same))


def is_fast(row: Mapping[str, Any], rows: list[dict[str, Any]]) -> bool:
    """Whether a row on two processes meets its target."""
    before = alone(row, rows)["seconds_per_round"]
    if row["processes"] != 2 or before < LONG_ROUND:
        return True
    return before / row["seconds_per_round"] >= SPEED_UP


def weak_grid(part: Part) -> Grid:
    """Efficiencies."""
    headings = ["study", "processes", "round, ms", "efficiency", "held, MB"]
    cells = []
    for row in part["rows"]:
        ratio = alone(row, part["rows"])["seconds_per_round"] / row["seconds_per_round"]
        star = _star(row["processes"] == 2 and ratio < EFFICIENCY)
        cells.append(
            [
                study(row),
                str(row["processes"]),
                f"{1e3 * row['seconds_per_round']:.3g}",
                f"{ratio:.2f}{star}",
                f"{1e-6 * row['bytes_held']:.2f}",
            ]
        )
    return Grid("As much for each process", headings, cells, words=1)


def ways_grid(part: Part) -> Grid:
    """Microseconds."""
    names = ("foreign", "callback", "leaving")
    cells = [[str(r["floats"]), *(f"{r[name]:.1f}" for name in names)] for r in part["rows"]]
    return Grid("Three ways to exchange", ["floats", *names], cells, words=0)


def future_text(parts: Mapping[str, Part]) -> str:
    """Eq. (1) for a large machine."""
    row = next(r for r in parts["weak"]["rows"] if r["processes"] == 1)
    each = row["seconds_per_round"] / row["agents"]
    message = 8 * row["dim"] * row["chains"]
    others = FUTURE_PROCESSES - 1
    cut = parts["crossing"]["rows"][0]
    crossing = round(cut["messages"] / cut["parts"])
    heard_by = round(others * (1 - math.exp(-crossing / others)))
    lines = []
    for graph, neighbours, sent in (("ring", 2, 2), ("power-law", heard_by, crossing)):
        computing = each * FUTURE_AGENTS / FUTURE_PROCESSES
        exchange = neighbours * LATENCY + sent * message / BANDWIDTH
        lines.append(
            f"| {graph} | {neighbours} | {sent:,} | {1e3 * computing:.2f} | "
            f"{1e3 * exchange:.3f} | {1 / (computing + exchange):,.1f} |"
        )
    text = f"""\
A model, not a measurement: {FUTURE_AGENTS:,} agents on {FUTURE_PROCESSES:,} processes, each agent
with {row["rows"]} rows of a logistic regression in {row["dim"]} dimensions and {row["chains"]}
chains. A round is the computing of {FUTURE_AGENTS // FUTURE_PROCESSES:,} agents at
{1e6 * each:.1f} µs each, as measured above on one process, and an exchange with some neighbouring
processes at a latency of {1e6 * LATENCY:g} µs each and {1e-9 * BANDWIDTH:g} GB/s. Assumed are that
latency and bandwidth (a common cluster network), parts of like size, and that nobody waits for
another. A part of a ring has two neighbours and sends two messages. A part of a power-law graph
sends {crossing:,} (METIS, {cut["parts"]} parts of {cut["agents"] // cut["parts"]:,} agents each,
two links for every new agent), and hears from {heard_by} others if these are spread at random."""
    headings = ("graph", "neighbours", "crossing messages", "computing, ms", "exchange, ms")
    header = " | ".join((*headings, "rounds per second"))
    table = "\n".join([f"| {header} |", "| --- |" + " ---: |" * len(headings), *lines])
    return f"## Beyond this machine\n\n{fill(text, WIDTH)}\n\n{table}\n"


GRIDS = {"strong": strong_grid, "weak": weak_grid, "ways": ways_grid}
TEXTS = {"strong": STRONG_TEXT, "weak": WEAK_TEXT, "ways": WAYS_TEXT}


def console_tables(parts: Mapping[str, Part], console: Console) -> None:
    """Print everything there is."""
    for name, grid in GRIDS.items():
        if name in parts:
            console.print(grid(parts[name]).rich())


def page_text(parts: Mapping[str, Part]) -> str:
    """All of it."""
    sections = [PAGE.format(where=provenance(parts["strong"]))]
    for name, grid in GRIDS.items():
        table = grid(parts[name]).markdown().partition("\n\n")[2]
        title = grid(parts[name]).title
        sections.append(f"## {title}\n\n{fill(TEXTS[name], WIDTH)}\n\n{table}")
    return "\n".join([*sections, future_text(parts)])


def _star(missed: bool) -> str:
    return " *" if missed else ""
