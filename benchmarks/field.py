"""How long all samplers take to compare by exact laws: four graphs, the paper's linear regression.

Nothing is simulated. Both published settings and the best of the grid are found, and tuned ones,
for every sampler that has a law. Time is that of processors and that of a clock on the wall, which
includes waiting for other work on the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.table import Table

import starlings as st
from starlings.research.paper.data import linear_problem

from .tables import wide_console

GRAPHS: dict[str, tuple[Callable[[int], st.Network], int]] = {
    "ring 5": (st.Network.ring, 5),
    "ring 20": (st.Network.ring, 20),
    "complete 20": (st.Network.complete, 20),
    "star 20": (st.Network.star, 20),
}
"""The graphs by name, with their numbers of agents."""
TARGET_SECONDS = 120
"""Seconds that all graphs together may take."""
ROWS_EACH = 50
"""Rows of each agent."""


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Compare all samplers on all graphs, print a table, and return its rows."""
    names = list(GRAPHS)[:1] if quick else list(GRAPHS)
    found = [_timed(name, quick) for name in names]
    table = Table("graph", "compared", "candidates", "processor seconds", "seconds")
    for row in found:
        seconds = (f"{row[name]:.1f}" for name in ("processor", "wall"))
        table.add_row(row["graph"], str(row["compared"]), str(row["candidates"]), *seconds)
    console = wide_console()
    console.print(table)
    processor, wall = (sum(row[name] for row in found) for name in ("processor", "wall"))
    console.print(
        f"All together: {processor:.0f} s of processors, {wall:.0f} s on the wall; "
        f"the target is {TARGET_SECONDS} s."
    )
    return found


def _timed(name: str, quick: bool) -> dict[str, Any]:
    """One graph."""
    graph, agents = GRAPHS[name]
    problem, network = linear_problem(agents, ROWS_EACH), graph(agents)
    samplers = ["dsgld", "dadmms"] if quick else None
    processor, wall = time.process_time(), time.monotonic()
    found = st.compare(problem, network, samplers, chains=0, progress=False)
    return {
        "graph": name,
        "compared": int((found.table["by"] == "law").sum()),
        "candidates": len(found.candidates),
        "processor": time.process_time() - processor,
        "wall": time.monotonic() - wall,
    }
