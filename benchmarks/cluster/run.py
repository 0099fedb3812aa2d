"""Time studies on 1, 2 and 4 processes of one machine: `python -m benchmarks cluster`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from starlings.network.partition import divide
from starlings.system.extras import install_command
from starlings.system.files import check_writable
from starlings.system.progress import print_status

from ..speed.results import SpeedFile
from ..speed.timing import Settings
from ..tables import wide_console
from .report import console_tables, page_text
from .worker import Case, crossing_messages

PROCESSES = (1, 2, 4)
"""The numbers of processes that are measured."""
STRONG = (
    Case("ring", agents=400, rows=200, dim=8, chains=4, rounds=20),
    Case("power-law", agents=400, rows=200, dim=8, chains=4, rounds=20),
    Case("ring", agents=20, rows=5, dim=3, chains=1, rounds=2000),
    Case("ring", agents=16, rows=100_000, dim=8, chains=1, rounds=2),
)
"""The cases that are the same for every number of processes."""
WEAK = Case("ring", agents=200, rows=200, dim=8, chains=4, rounds=20)
"""The case whose agents grow with the number of processes; these are its sizes for one process."""
PARTS, QUICK_PARTS = (60_000, 60), (600, 6)
"""Agents and parts of a graph that is divided and not run, for the model of a larger machine."""
QUICK = {"agents": 8, "rows": 5, "chains": 2, "rounds": 5, "repeats": 2}
"""The sizes of every case in a quick run."""
OPTIONS = ("--map-by", ":OVERSUBSCRIBE", "--mca", "mpi_yield_when_idle", "1")
"""Options of Open MPI: allow more processes than cores, and let waiting ones give up the core."""
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
"""Variables that let Open MPI run as root, as in a container."""
ONE_THREAD = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Variables that let every process compute with one thread."""


def run(
    output: Path,
    *,
    quick: bool = False,
    page: Path | None = None,
    progress: bool | None = None,
) -> Path:
    """Measure, print the tables, and write the page if one is asked for.

    Args:
        output: the folder of the results file, made if it does not exist.
        quick: small sizes, to try the benchmark itself.
        page: a Markdown file to write.
        progress: whether to print lines on stderr; None for only on a terminal.
    """
    output.mkdir(parents=True, exist_ok=True)
    if page is not None:
        check_writable(page)
    console, results = wide_console(), SpeedFile(output / "cluster.json")
    settings = Settings(repeats=QUICK["repeats"] if quick else WEAK.repeats, quick=quick)
    parts = {
        "strong": lambda: scaled([[case] * len(PROCESSES) for case in sized(STRONG, quick)]),
        "weak": lambda: scaled([[grown(c, n) for n in PROCESSES] for c in sized([WEAK], quick)]),
        "ways": ways,
        "crossing": lambda: crossing(*(QUICK_PARTS if quick else PARTS)),
    }
    for name, measure in parts.items():
        began = time.perf_counter()
        results.put(name, measure(), settings)
        print_status(f"{name}: measured in {time.perf_counter() - began:.0f} s", progress)
    console_tables(results.parts, console)
    if page is not None:
        page.write_text(page_text(results.parts), encoding="utf-8")
    return results.path


def sized(cases: Any, quick: bool) -> list[Case]:
    """The cases, or in a quick run small ones."""
    return [replace(case, **QUICK) if quick else case for case in cases]


def grown(case: Case, processes: int) -> Case:
    """The case with so many times as many agents."""
    return replace(case, agents=case.agents * processes)


def scaled(lines: list[list[Case]]) -> list[dict[str, Any]]:
    """Rows of every case on every number of processes; a line has one case for each number."""
    by_processes = [
        launched(n, "worker", [asdict(line[k]) for line in lines]) for k, n in enumerate(PROCESSES)
    ]
    rows = []
    for i, line in enumerate(lines):
        for case, found in zip(line, by_processes, strict=True):
            rows.append({**asdict(case), **found[i]})
    return rows


def crossing(agents: int, parts: int) -> list[dict[str, Any]]:
    """The messages that cross between the parts of a large power-law graph."""
    network = Case("power-law", agents, rows=1, dim=1, chains=1, rounds=1).network
    messages = crossing_messages(network, divide(network, parts).owner)
    return [{"agents": agents, "parts": parts, "messages": messages}]


def ways() -> list[dict[str, Any]]:
    """Measure three ways to exchange, between two processes."""
    return launched(2, "ways", None)


def launched(processes: int, module: str, cases: Any) -> Any:
    """Run a module of this folder as an MPI job, with one thread at each process.

    Returns what the job wrote. `cases` is what it is given, or None.
    """
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if mpiexec is None:
        raise FileNotFoundError(f"no mpiexec; {install_command('mpi')}.")
    with tempfile.TemporaryDirectory() as folder:
        given, answer = Path(folder) / "cases.json", Path(folder) / "rows.json"
        given.write_text(json.dumps(cases), "utf-8")
        arguments = [answer] if cases is None else [given, answer]
        command = [mpiexec, "-n", processes, *OPTIONS, sys.executable, "-m"]
        command += [f"benchmarks.cluster.{module}", *arguments]
        root = Path(__file__).resolve().parents[2]
        done = subprocess.run(
            [str(word) for word in command],
            cwd=root,
            env={**os.environ, **AS_ROOT, **ONE_THREAD},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"a job of {processes} processes failed: {done.stderr[-2000:]}")
        return json.loads(answer.read_text("utf-8"))
