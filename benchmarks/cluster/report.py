"""The results as tables and as a page, with a model of larger machines.

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
"""The targets on two processes: least speed-up, longest exchange, and least efficiency."""
SMALL_CUT = 10
"""The most links between processes for which the target of the exchange holds."""
LONG_ROUND = 1e-3
"""Seconds of a round, on one process, from which a speed-up is expected."""
LATENCY, BANDWIDTH = 5e-6, 5e9
"""An assumed cluster network: seconds, and bytes per second for each process."""
FUTURE_AGENTS, FUTURE_PROCESSES = 1_000_000, 1000
"""The agents and processes of the machine that eq. (1) is about."""

PAGE = """# On a cluster

Made by `python -m benchmarks cluster --page docs/cluster.md`. {where}

## How it works

`mpiexec -n 64 starlings sample study.toml --runtime mpi` divides the agents among the processes by
METIS, with few links between processes and like numbers of rows in each, and prints the cut and
the balance (the cut is the number of links between processes). Each process reads the rows of its
own sites only, and runs the same compiled rounds as on one machine. In every round the messages
that cross the cut are exchanged by one neighbourhood collective, called from inside the compiled
loop.

Agents do not compute while messages are exchanged. The exchange by itself takes some microseconds
of a round (below), so that computing at the same time could save no more than those. What takes
longer is waiting for a neighbouring process that is still computing.

**The draws are the same for any number of processes.** The noise of an agent has an address that
does not depend on its process. Only rounding differs: the rows of a process are padded to the
longest of its own shards, and XLA sums arrays of different lengths in a different order; sums over
neighbours are computed as a total, a matrix product or one by one, whichever suits the links of a
process. Tests check that draws after 200 rounds agree to 1e-10 of their spread, for six samplers on
rings, stars, complete and power-law graphs on 2 processes, and for some of them on 3, 4 and 8. A
run that is resumed on as many processes as before has the same draws in every bit.

Files: all processes must see the folder of the study and of its output. A checkpoint is written
every `--checkpoint-every` rounds (10,000) to the folder OUTPUT.run; `--resume` goes on from the
newest one that all processes had written, with any number of processes. The one before it is kept
too, and used where a file of the newest is damaged.

From Python, with a network whose nodes are called after the sites, and a function of your own that
makes the problem of some of the sites:

```python
from starlings.runtime.mpi.cluster import Cluster

with Cluster() as cluster:  # an error at one process ends all of them
    network = cluster.place(network, cluster.partition(network, rows_of_every_site))
    problem = problem_of(network.local_names).part_of(network.names)
    result = starlings.sample(problem, network)  # None, except at the first process
```
"""
STRONG_TEXT = f"""\
Logistic regressions with the default noise and one thread for each process. `cut` is the number of
links between processes, out of all links. `exchange` is the time inside MPI in the round where it
is shortest: the cost of the exchange itself. `waiting` is how much longer the exchange takes on
average, because a neighbouring process is not ready. `recording` is the time to gather one draw of
all agents at the first process. `bytes` is what all processes send in a round; `over least` divides
it by the least that has to be sent (every message once to each process that receives it). `arrays`
is the memory of agents and chains at the largest process, and `resident` all memory of that
process: in the smallest study it is Python, JAX and its compiler. Targets: {SPEED_UP:g} times
as fast on 2 processes where a round takes over {1e3 * LONG_ROUND:g} ms, and at most
{EXCHANGE_MICROSECONDS:g} µs for the exchange of a small cut (up to {SMALL_CUT} links) on 2
processes."""
WEAK_TEXT = f"""\
The number of agents grows with the number of processes. `efficiency` is the time of a round on one
process, divided by the time on several with as many agents each. Target: {EFFICIENCY:g} on 2
processes; with two cores, 4 processes can reach no more than half."""
WAYS_TEXT = """\
Microseconds of a round between two processes with one agent each and almost nothing to compute, for
messages of so many floats: MPI called by the compiled loop itself (`ffi`), called through
`jax.experimental.io_callback` (`callback`), or called between compiled rounds (`leaving`). The
library uses the first."""


def strong_grid(part: Part) -> Grid:
    """The table of speed-ups over one process."""
    headings = ["study", "processes", "cut", "round, ms", "speed-up", "computing, µs"]
    headings += ["exchange, µs", "waiting, µs", "recording, µs", "bytes", "over least"]
    headings += ["arrays, MB", "resident, MB"]
    cells = []
    for row in part["rows"]:
        speed_up = on_one_process(row, part["rows"])["seconds_per_round"] / row["seconds_per_round"]
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
    """The study of a row, in words."""
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


def on_one_process(row: Mapping[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of the same study on one process."""
    same = ("graph", "rows", "dim", "chains")
    return next(r for r in rows if r["processes"] == 1 and all(r[k] == row[k] for k in same))


def is_fast(row: Mapping[str, Any], rows: list[dict[str, Any]]) -> bool:
    """Whether a row on two processes meets its target."""
    before = on_one_process(row, rows)["seconds_per_round"]
    if row["processes"] != 2 or before < LONG_ROUND:
        return True
    return before / row["seconds_per_round"] >= SPEED_UP


def weak_grid(part: Part) -> Grid:
    """The table of efficiencies."""
    headings = ["study", "processes", "round, ms", "efficiency", "arrays, MB"]
    cells = []
    for row in part["rows"]:
        ratio = on_one_process(row, part["rows"])["seconds_per_round"] / row["seconds_per_round"]
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
    return Grid("The same work for each process", headings, cells, words=1)


def ways_grid(part: Part) -> Grid:
    """The table of three ways to exchange, in microseconds."""
    names = ("ffi", "callback", "leaving")
    cells = [[str(r["floats"]), *(f"{r[name]:.1f}" for name in names)] for r in part["rows"]]
    return Grid("Three ways to exchange", ["floats", *names], cells, words=0)


def future_text(parts: Mapping[str, Part]) -> str:
    """The section with eq. (1) for a large machine."""
    row = next(r for r in parts["weak"]["rows"] if r["processes"] == 1)
    each = row["seconds_per_round"] / row["agents"]
    message = 8 * row["dim"] * row["chains"]
    remaining = FUTURE_PROCESSES - 1
    cut = parts["crossing"]["rows"][0]
    crossing = round(cut["messages"] / cut["parts"])
    heard_by = round(remaining * (1 - math.exp(-crossing / remaining)))
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
another. A part (the agents of one process) of a ring has two neighbours and sends two messages. A
part of a power-law graph sends {crossing:,} (METIS, {cut["parts"]} parts of
{cut["agents"] // cut["parts"]:,} agents each, two links for every new agent), and receives from
{heard_by} parts if these are spread at random."""
    headings = ("graph", "neighbours", "crossing messages", "computing, ms", "exchange, ms")
    header = " | ".join((*headings, "rounds per second"))
    table = "\n".join([f"| {header} |", "| --- |" + " ---: |" * len(headings), *lines])
    return f"## Beyond this machine\n\n{fill(text, WIDTH)}\n\n{table}\n"


GRIDS = {"strong": strong_grid, "weak": weak_grid, "ways": ways_grid}
TEXTS = {"strong": STRONG_TEXT, "weak": WEAK_TEXT, "ways": WAYS_TEXT}


def console_tables(parts: Mapping[str, Part], console: Console) -> None:
    """Print the tables of all parts that were measured."""
    for name, grid in GRIDS.items():
        if name in parts:
            console.print(grid(parts[name]).rich())


def page_text(parts: Mapping[str, Part]) -> str:
    """The page: how it works, the tables, and the model of a larger machine."""
    sections = [PAGE.format(where=provenance(parts["strong"]))]
    for name, grid in GRIDS.items():
        table = grid(parts[name]).markdown().partition("\n\n")[2]
        title = grid(parts[name]).title
        sections.append(f"## {title}\n\n{fill(TEXTS[name], WIDTH)}\n\n{table}")
    return "\n".join([*sections, future_text(parts)])


def _star(missed: bool) -> str:
    return " *" if missed else ""
