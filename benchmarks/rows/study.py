"""Whole runs of `starlings.sample` on many rows, each in a fresh process.

The process is fresh so that its memory is that of one run, and compiling is part of its time. Where
the time goes is measured from outside, by replacing two methods with ones that keep the time:

    sample = mode + candidates + draws                                                         (1)

`mode` is the search for the mode and the metric there, `candidates` the potentials at all
candidates and their sum over the network, and `draws` everything else, up to the result.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import jax

import starlings as st
from starlings.methods.weights import CandidateSums
from starlings.sampling.on_sums import SumsRun

from ..speed.run import first_device
from ..speed.timing import Settings
from .data import SITES, Table, approximated, largest_z

TITLE = "Draws of everybody's rows"
COLUMNS = {
    "rows": ("rows", ",d"),
    "problem_seconds": ("problem, s", ".1f"),
    "mode_seconds": ("mode, s", ".1f"),
    "candidates_seconds": ("candidates, s", ".1f"),
    "draws_seconds": ("draws, s", ".1f"),
    "sample_seconds": ("sample, s", ".1f"),
    "cpu_seconds": ("CPU, s", ".1f"),
    "gigabytes": ("memory, GB", ".2f"),
    "device_gigabytes": ("on the GPU, GB", ".2f"),
    "network_rounds": ("network rounds", ",d"),
    "candidates": ("candidates", ",d"),
    "effective": ("effective", ",.0f"),
    "z_of_means": ("z of means", ".1f"),
    "z_of_sds": ("z of sds", ".1f"),
}
ROWS = {"cpu": (100_000, 1_000_000), "gpu": (10_000_000,)}
QUICK_ROWS = (2000,)
"""Rows of the studies on each kind of device, and in a quick run."""
DRAWS = 4000
"""Effective draws that are asked for: the default of `sample`."""
JUDGED_ROWS, MOST_SECONDS, MOST_GIGABYTES = 1_000_000, 180.0, 3.0
"""The targets on a CPU: seconds of `sample`, and gigabytes, for so many rows."""
LARGEST_Z = 4.0
"""Largest |z| that is taken for chance; one in 16,000 is larger."""
TEXT = f"""\
`starlings.sample(problem, network)`, with no other argument, on a logistic regression with ten
covariates at {SITES} sites on a ring: {DRAWS:,} effective draws. `problem` is the time to make the
problem from arrays, `sample` all of the rest, compiling included. It is the sum of three: `mode`,
the search for the mode; `candidates`, the potentials of all rows at all candidates, and their sum
over the network; and `draws`, everything else. `CPU` is the CPU time of `sample`, of all threads
together; where the machine has other work to do, it is the better measure. Times are medians over
fresh processes with seeds 0, 1, 2 and so on. `memory` is the largest resident set of a process,
with Python, JAX and the arrays of the caller. `effective` is how many independent draws the
weighted candidates are worth.

`z of means` compares means of the draws with an approximation of the pooled posterior that NumPy
computes from all rows: the mode, and the first term of the difference between mean and mode. It is
the largest difference of all parameters and seeds, in standard errors of {DRAWS:,} independent
draws. `z of sds` is the same for standard deviations, against the Laplace approximation.
Targets: for {JUDGED_ROWS:,} rows on a CPU {MOST_SECONDS:g} s and {MOST_GIGABYTES:g} GB, and z below
{LARGEST_Z:g} everywhere."""


def measure(settings: Settings, device: str) -> list[dict[str, Any]]:
    """Measure every number of rows."""
    rows = QUICK_ROWS if settings.quick else ROWS[device]
    return [summary([launched(n, seed, device) for seed in range(settings.repeats)]) for n in rows]


def launched(rows: int, seed: int, device: str) -> dict[str, Any]:
    """One run in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.rows.study", str(rows), str(seed), device]
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}  # two share a GPU
    done = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"a fresh process failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians of times, the largest memory and the largest z of several runs, and the targets."""
    row = dict(runs[0])
    for name in row:
        values = [run[name] for run in runs]
        if name.endswith("_seconds"):
            row[name] = median(values)
        elif name in ("gigabytes", "device_gigabytes", "z_of_means", "z_of_sds"):
            row[name] = None if None in values else max(values)
    targets = {"z_of_means": [None, LARGEST_Z], "z_of_sds": [None, LARGEST_Z]}
    if row["rows"] == JUDGED_ROWS and row["device_gigabytes"] is None:
        targets["sample_seconds"] = [None, MOST_SECONDS]
        targets["gigabytes"] = [None, MOST_GIGABYTES]
    return row | {"targets": targets}


def run(rows: int, seed: int) -> dict[str, Any]:
    """One run in this process, on the default device."""
    table, kept = Table.simulated(rows), Stopwatch()
    problem = kept.timed(lambda: table.problem, "problem")()
    with (
        patch.object(SumsRun, "locate", kept.timed(SumsRun.locate, "mode")),
        patch.object(CandidateSums, "at", kept.timed(CandidateSums.at, "candidates")),
    ):
        cpu, sample = time.process_time(), kept.timed(st.sample, "sample")
        result = sample(problem, st.Network.ring(SITES), seed=seed, progress=False)
        cpu = time.process_time() - cpu
    memory = {"gigabytes": peak_gigabytes(), "device_gigabytes": peak_device_gigabytes()}
    seconds = kept.seconds
    seconds["draws"] = seconds["sample"] - seconds["mode"] - seconds["candidates"]  # (1)
    draws = result.posterior["beta"].isel(agent=0).to_numpy().reshape(DRAWS, -1)
    of_means, of_sds = largest_z(draws, *approximated(table))
    return {
        "rows": rows,
        **{f"{phase}_seconds": value for phase, value in seconds.items()},
        "cpu_seconds": cpu,
        **memory,
        "network_rounds": result.attrs["network_rounds"],
        "candidates": json.loads(result.attrs["sampler_settings"])["candidates"],
        "effective": result.attrs["effective_candidates"],
        "pareto_k": result.attrs["pareto_k"],
        "z_of_means": of_means,
        "z_of_sds": of_sds,
    }


class Stopwatch:
    """Seconds that functions take, by the name of a phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, function: Any, phase: str) -> Any:
        """The function, which adds its time to that of a phase."""

        @functools.wraps(function)
        def keeping(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            found = function(*arguments, **named)
            took = time.perf_counter() - began
            self.seconds[phase] = self.seconds.get(phase, 0.0) + took
            return found

        return keeping


def peak_gigabytes() -> float:
    """The largest resident set of this process so far."""
    return 1024e-9 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak_device_gigabytes() -> float | None:
    """The most memory that was in use on the default device; None on a CPU."""
    device = jax.config.jax_default_device or jax.devices()[0]
    statistics = device.memory_stats()
    return None if statistics is None else 1e-9 * statistics["peak_bytes_in_use"]


if __name__ == "__main__":
    with jax.default_device(first_device(sys.argv[3])):
        print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))))
