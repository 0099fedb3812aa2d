"""Calibration of a study: its covariates, sites, network and sampler, with simulated outcomes."""

from __future__ import annotations

import dataclasses
import hashlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from starlings import models
from starlings.calibration.judging import INTERVALS, Calibration
from starlings.calibration.replications import NearlyIndependent, calibrate
from starlings.network import Network
from starlings.problem import Problem
from starlings.study.study import Study
from starlings.system.extras import check_installed

if TYPE_CHECKING:
    from rich.console import Console

RUN_KEYS = ("burn_in", "precision", "exactness")
"""The keys of [run] that say how to sample, and not how much."""


def calibrate_study(
    path: str | Path,
    output: str | Path | None = None,
    *,
    replications: int = 500,
    draws: int = 99,
    thin: int | None = None,
    seed: int = 0,
    force: bool = False,
    progress: bool | None = None,
) -> tuple[Calibration, Path]:
    """Calibrate the sampler of a study; the folder has the ranks, the figure and the table.

    Of the study's [run] only `burn_in`, `precision` and `exactness` matter here. A folder with
    some of the ranks goes on from there, if nothing has changed that would change them.

    Args:
        path: the TOML file of the study.
        output: the folder; by default STUDY-calibration in the current one.
        replications: how often.
        draws: ranks are among that many.
        thin: rounds from one draw to the next; see `NearlyIndependent`.
        seed: the same seed gives the same ranks.
        force: start anew.
        progress: a bar on a terminal, lines elsewhere; by default only on a terminal.
    """
    _check_plots()
    plan = Study.read(path)
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    kept = {name: plan.run.options[name] for name in RUN_KEYS if name in plan.run.options}
    sample = NearlyIndependent(plan.make_sampler(), thin, **kept)
    folder = Path(f"{plan.path.stem}-calibration") if output is None else Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    calibration = calibrate(
        partial(models.simulate, problem),
        network,
        sample,
        replications=replications,
        draws=draws,
        seed=seed,
        file=folder / "ranks.nc",
        settings=_settings(plan, problem, network, sample),
        force=force,
        progress=progress,
    )
    _write(calibration, folder)
    return calibration, folder


def print_report(calibration: Calibration, console: Console) -> None:
    """The table of a calibration, and its verdict."""
    from rich.table import Table

    table = Table(caption="of the agent that is worst in each column")
    table.add_column("parameter", overflow="fold")
    headings = [f"{100 * level:g} % intervals cover" for level in INTERVALS]
    for heading in ("p-value", "at", *headings):
        table.add_column(heading, justify="right", overflow="fold")
    for name, row in calibration.table().iterrows():
        shares = [(row[f"coverage_{level:.0%}"], row[f"error_{level:.0%}"]) for level in INTERVALS]
        cells = [f"{100 * share:.1f} ± {100 * error:.1f} %" for share, error in shares]
        table.add_row(str(name), f"{row['p_value']:.2g}", str(row["agent"]), *cells)
    console.print(table)
    console.print(calibration.verdict)


def _check_plots() -> None:
    """Better before the replications than after them."""
    check_installed("matplotlib", purpose="the figure of a calibration", extra="plots")


def _settings(
    plan: Study, problem: Problem, network: Network, sample: NearlyIndependent
) -> dict[str, Any]:
    """All that the ranks of a study depend on, for comparison with a later run."""
    return {
        "model": dataclasses.asdict(plan.model),
        "data": _hash_of_covariates(problem),
        "network": [list(map(str, edge)) for edge in network.graph.edges],
        **{name: str(value) for name, value in vars(sample).items()},
    }


def _hash_of_covariates(problem: Problem) -> str:
    digest = hashlib.sha256()
    for site, rows in problem.shards.items():
        digest.update(f"{site} {rows['x'].shape}".encode())
        digest.update(np.ascontiguousarray(rows["x"]).tobytes())
    return digest.hexdigest()[:16]


def _write(calibration: Calibration, folder: Path) -> None:
    from starlings.calibration.figure import draw
    from starlings.results.plots import save_figure

    save_figure(draw(calibration), folder / "calibration")
    calibration.table().to_csv(folder / "calibration.csv", float_format="%.6g")
