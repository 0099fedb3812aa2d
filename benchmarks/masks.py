"""What masks cost: runs with and without them in turns, in processor time.

Every site of a deployment makes the masks of its own pairs; here one process makes those of all
sites, so that the extra time of one site is less than what is measured.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from rich.table import Table

import starlings as st

from .tables import wide_console

WAYS = ("none", "totals")
"""The values of `privacy` that are compared."""


def problem_of(sites: int, covariates: int, rows: int) -> st.Problem:
    """A logistic regression with the same number of rows at every site."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, covariates))
    weights = random.normal(size=covariates) / covariates**0.5
    y = (random.logistic(size=rows) < X @ weights).astype(float)
    return st.models.logistic_regression(X, y, sites=np.arange(rows) % sites, intercept=False)


def runs(quick: bool) -> dict[str, dict[str, Any]]:
    """The runs that are timed, as keywords of `sample`."""
    draws = 50 if quick else 1000
    return {
        "weights": {"method": "weights", "draws": draws, "chains": 4},
        "hmc": {"method": "hmc", "draws": max(4, draws // 100), "chains": 64},
    }


def run(repeats: int = 5, quick: bool = False) -> list[dict[str, Any]]:
    """Time all runs, print a table, and return its rows."""
    sites, covariates, rows = (3, 5, 300) if quick else (10, 100, 20_000)
    problem, network = problem_of(sites, covariates, rows), st.Network.ring(sites)
    found = [_timed(problem, network, name, how, repeats) for name, how in runs(quick).items()]
    table = Table("method", "seconds of processor time", "with masks", "ratio")
    for row in found:
        cells = (f"{row['none']:.2f}", f"{row['totals']:.2f}", f"{row['ratio']:.2f}")
        table.add_row(row["method"], *cells)
    console = wide_console()
    console.print(f"{sites} sites, {covariates} parameters, {rows:,} rows; medians of {repeats}")
    console.print(table)
    return found


def _timed(
    problem: st.Problem, network: st.Network, name: str, how: dict[str, Any], repeats: int
) -> dict[str, Any]:
    """Both ways in turns, after one run of each that compiles."""
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for repeat in range(repeats + 1):
        for way in WAYS:
            began = time.process_time()
            st.sample(problem, network, **how, privacy=way, check=False, progress=False)
            if repeat > 0:
                seconds[way].append(time.process_time() - began)
    medians = {way: statistics.median(each) for way, each in seconds.items()}
    pairs = zip(seconds["none"], seconds["totals"], strict=True)
    ratio = statistics.median(masked / plain for plain, masked in pairs)
    return {"method": name, **medians, "ratio": ratio}
