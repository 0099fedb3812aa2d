"""What masks cost: runs with and without them in turns, in processor time.

Every site of a deployment makes the masks of its own pairs; here one process makes those of all
sites. So there are two figures:

    in one process    time of the masked run / time of the plain run - 1                       (1)
    at one site       time in which a single site makes its masks, masks its numbers and reads
                      the totals / (time of the plain run / number of sites)                   (2)

For (2) the sums of the masked run are made again with the keys of one site only.
"""

from __future__ import annotations

import statistics
import time
from typing import Any
from unittest import mock

import numpy as np
from rich.table import Table

import starlings as st
from starlings.privacy.fixed_point import Words, decoded
from starlings.privacy.masks import Masks

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
        "hmc": {"method": "hmc", "draws": max(4, draws // 250), "chains": 64},
        "D-ADMMS": {
            "sampler": st.DADMMS(rho=2000.0),
            "draws": draws // 5,
            "chains": 4,
            "burn_in": 0,
        },
        "D-SGLD": {"sampler": st.DSGLD(1e-4), "draws": draws // 5, "chains": 4, "burn_in": 0},
    }


def run(repeats: int = 5, quick: bool = False) -> list[dict[str, Any]]:
    """Time all runs, print a table, and return its rows."""
    sites, covariates, rows = (3, 5, 300) if quick else (10, 100, 20_000)
    problem, network = problem_of(sites, covariates, rows), st.Network.ring(sites)
    found = [_timed(problem, network, name, how, repeats) for name, how in runs(quick).items()]
    columns = ("seconds of processor time", "with masks", "extra, in one process")
    table = Table("method", *columns, "extra, at one site")
    for row in found:
        least, most = (f"{100 * part:.0f}" for part in row["range"])
        extra = [f"{100 * row[name]:.0f} %" for name in ("in one process", "at one site")]
        extra[0] += f" ({least} to {most})"
        table.add_row(row["method"], f"{row['none']:.2f}", f"{row['totals']:.2f}", *extra)
    console = wide_console()
    size = f"{sites} sites, {covariates} parameters, {rows:,} rows"
    console.print(f"{size}; medians of {repeats}, and in brackets the least and the most")
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
    extra = [masked / plain - 1 for plain, masked in pairs]  # (1)
    ranges = {"in one process": statistics.median(extra), "range": (min(extra), max(extra))}
    of_site = seconds_at_one_site(problem, network, how) / (medians["none"] / network.size)  # (2)
    return {"method": name, **medians, **ranges, "at one site": of_site}


def seconds_at_one_site(problem: st.Problem, network: st.Network, how: dict[str, Any]) -> float:
    """The numerator of eq. (2)."""
    sums: list[tuple[Masks, int]] = []
    masked = Masks.masked

    def noted(masks: Masks, parts: np.ndarray) -> np.ndarray:
        sums.append((masks, parts.shape[1]))
        return masked(masks, parts)

    with mock.patch.object(Masks, "masked", noted):
        st.sample(problem, network, **how, privacy="totals", check=False, progress=False)
    site = problem.sites[0]
    own = [(Masks(m.sites, {site: m.local[site]}), k) for m, k in sums if site in m.local]
    if not own:
        raise RuntimeError(f"the masked run made no masks for {site}: nothing can be timed.")
    total = np.zeros(4 * (1 + max(k for _, k in own)))
    began = time.process_time()
    for number, (masks, count) in enumerate(own):
        masks.masked(np.ones((1, count)))
        is_of_all = len(masks.sites) == network.size
        if is_of_all or number % len(masks.sites) == 0:  # it sends to all neighbours, and reads one
            decoded(Words.from_limbs(total[: 4 * (count + 1)].reshape(-1, 4)))
    return time.process_time() - began
