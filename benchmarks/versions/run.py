"""A round of this version against a round of another, in turns: `python -m benchmarks versions`.

Both run as processes of their own (see `worker`), and are never at work at the same time. One turn
times a short and a long run of the same case with each version,

    seconds of a round = (long run - short run) / (rounds of long run - rounds of short run)    (1)

so that what a run costs besides its rounds cancels. The ratio is the median over the turns.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from starlings.system.progress import print_status

from ..choosing import chosen
from ..tables import Grid, wide_console
from . import worker

LONG_SECONDS = 1.0
"""Seconds that the long run of a turn should last."""
SHORT_SHARE = 10
"""The long run has so many times the rounds of the short one."""
HERE = Path(__file__).parents[2] / "src"
"""Sources of this version."""


class Version:
    """One version of the library, in a process of its own."""

    def __init__(self, sources: Path) -> None:
        command = [sys.executable, worker.__file__, str(sources)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def seconds(self, case: str, rounds: int) -> float:
        """Wall time of a run of one case."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(f"{case}|{rounds}", file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process that times {case!r} has ended; see its error above.")
        return float(answer)

    def round_seconds(self, case: str, rounds: int) -> float:
        """Eq. (1)."""
        short = max(1, rounds // SHORT_SHARE)
        apart = self.seconds(case, rounds) - self.seconds(case, short)
        return apart / (rounds - short)  # (1)

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=60)  # closes its input, at which it ends


def run(
    other: Path, *, cases: str | None = None, turns: int = 5, progress: bool | None = None
) -> Grid:
    """Print how long a round takes in both versions, and the ratio.

    Args:
        other: a clone of the repository at another version.
        cases: names of cases, separated by commas; all if None.
        turns: pairs of measurements of every case.
        progress: lines on stderr; by default where there is a terminal.
    """
    sources = other / "src"
    if not (sources / "starlings").is_dir():
        raise FileNotFoundError(f"{other} is no clone of starlings: it has no src/starlings.")
    names = chosen("cases", cases, worker.cases())
    rows = []
    for name in names:
        rows.append(_row(name, sources, turns))
        print_status(": ".join((name, rows[-1][-1])), progress)
    headings = ["case", "other, us a round", "this, us a round", "this over other"]
    grid = Grid("A round of two versions, in turns", headings, rows)
    wide_console().print(grid.rich())
    return grid


def _row(case: str, sources: Path, turns: int) -> list[str]:
    """The cells of one case."""
    versions = [Version(sources), Version(HERE)]
    try:
        rounds = _enough_rounds(versions[1], case)
        for version in versions:
            version.round_seconds(case, rounds)  # compiles
        laps = [[v.round_seconds(case, rounds) for v in versions] for _ in range(turns)]
    finally:
        for version in versions:
            version.close()
    return [case, *_cells(laps)]


def _cells(laps: Sequence[Sequence[float]]) -> list[str]:
    """Median times in microseconds, and the median of the ratios."""
    times = [f"{1e6 * median(column):.1f}" for column in zip(*laps, strict=True)]
    return [*times, f"{median(this / other for other, this in laps):.2f}"]


def _enough_rounds(version: Version, case: str) -> int:
    """How many rounds last about `LONG_SECONDS`, from runs of more and more rounds."""
    rounds, least = 16, version.seconds(case, 1)
    while (took := version.seconds(case, rounds) - least) < LONG_SECONDS / 4:
        rounds *= 4
    return max(2 * SHORT_SHARE, round(rounds * LONG_SECONDS / took))
