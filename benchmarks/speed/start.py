"""The start: CPU time from `import starlings` to the first draw, in a fresh process.

Cold, with an empty folder for compiled programs, and warm, with the folder that a cold start left.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from .timing import Settings

TITLE = "Start"
COLUMNS = {
    "sampler": ("sampler", "s"),
    "cache": ("cache", "s"),
    "cpu_seconds": ("CPU, s", ".2f"),
    "wall_seconds": ("wall, s", ".2f"),
}
MOST_SECONDS = {"cold": 6.0, "warm": 3.0}
"""The targets: the most seconds of CPU time."""
TEXT = f"""\
CPU and wall time from `import starlings` to the first draw of a linear regression at five agents
on a ring, in a fresh process: cold, with an empty compilation cache, and warm, with the cache
that a cold start left. The cache is the one that the command `starlings` uses. The sampler is
`given`, `DADMMS(5.0)`, or `tuned`: then nothing is set, and the agents tune themselves first. The
last rows are of all of `starlings sample examples/hospitals.toml`, until its draws are in a file.
Targets: {MOST_SECONDS["cold"]:g} s of CPU time cold, {MOST_SECONDS["warm"]:g}
s warm."""
SAMPLERS = {"given": "st.DADMMS(5.0)", "tuned": "None"}
STUDY = Path(__file__).parents[2] / "examples" / "hospitals.toml"
FIRST_DRAW = """
import time
cpu, wall = time.process_time(), time.perf_counter()
import json
import numpy as np
import starlings as st
from starlings.system import compilation_cache
compilation_cache.turn_on()
rng = np.random.default_rng(0)
X = rng.normal(size=(250, 2))
y = X @ [1.0, -2.0] + 4 * rng.normal(size=250)
problem = st.models.linear_regression(X, y, np.arange(250) % 5, noise_std=4.0, intercept=False)
how = dict(draws=1, chains=1, burn_in=0, check=False, progress=False)
st.sample(problem, st.Network.ring(5), {sampler}, **how)
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall]))
"""

WHOLE_STUDY = """
import time
cpu, wall = time.process_time(), time.perf_counter()
import json, os, sys
from starlings.cli import run
output = os.path.join(os.environ["STARLINGS_CACHE"], "draws.nc")
sys.argv = ["starlings", "sample", {study!r}, "--output", output, "--overwrite", "--quiet"]
try:
    run()
except SystemExit as ended:
    if ended.code:
        raise
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall]))
"""


def measure(settings: Settings) -> list[dict[str, Any]]:
    """Measure cold and warm starts with each sampler."""
    samplers = ["given"] if settings.quick else list(SAMPLERS)
    repeats = 1 if settings.quick else settings.repeats
    programs = {name: FIRST_DRAW.format(sampler=SAMPLERS[name]) for name in samplers}
    programs["hospitals.toml"] = WHOLE_STUDY.format(study=str(STUDY))
    return [row for name in programs for row in starts(name, programs[name], repeats)]


def starts(name: str, program: str, repeats: int) -> list[dict[str, Any]]:
    """The rows of one program: pairs of a cold start and the warm one after it."""
    pairs = [pair(program) for _ in range(repeats)]
    return [row(name, cache, [one[cache] for one in pairs]) for cache in MOST_SECONDS]


def row(name: str, cache: str, times: list[list[float]]) -> dict[str, Any]:
    """Medians of CPU and wall times."""
    cpu, wall = (median(column) for column in zip(*times, strict=True))
    cells = {"sampler": name, "cache": cache, "cpu_seconds": cpu, "wall_seconds": wall}
    return cells | {"targets": {"cpu_seconds": [None, MOST_SECONDS[cache]]}}


def pair(program: str) -> dict[str, list[float]]:
    """Seconds of CPU and of wall time of a cold start, and of a warm one with the same cache."""
    with tempfile.TemporaryDirectory() as folder:
        known = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
        environment = known | {"STARLINGS_CACHE": folder}
        return {cache: timed(program, environment) for cache in MOST_SECONDS}


def timed(program: str, environment: Mapping[str, str]) -> list[float]:
    """Run a fresh process; the last line that it prints has the seconds of CPU and wall time."""
    command = [sys.executable, "-c", program]
    child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if child.returncode:
        raise RuntimeError(f"a fresh process failed: {child.stderr.strip().splitlines()[-1]}")
    return json.loads(child.stdout.splitlines()[-1])
