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
from starlings.calibration.replications import BySums, NearlyIndependent, calibrate
from starlings.network import Network
from starlings.problem import Problem
from starlings.sampling.automatic import Automatic
from starlings.sampling.by_one_shot import InOneShot
from starlings.sampling.choice import OnSums, choice_of
from starlings.sampling.request import RequestedSchedule
from starlings.sampling.tuned import TunedSampler
from starlings.study.study import Study
from starlings.system.extras import check_installed

if TYPE_CHECKING:
    from rich.console import Console

RUN_KEYS = ("burn_in", "precision", "method", "exactness")
"""The keys of the section [run] of a study that a calibration uses: how to sample, not how much."""


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
    """Calibrate the sampler of a study, and write ranks, figure and table into a folder.

    From the section [run] of the study only `burn_in`, `precision`, `method` and `exactness` are
    used. If the folder has ranks already, the calibration continues with the next replication; a
    folder whose ranks were made with other settings is refused.

    Args:
        path: the TOML file of the study.
        output: the folder; by default STUDY-calibration in the current one.
        replications: the number of data sets that are simulated.
        draws: the number of draws per data set, among which the true values are ranked.
        thin: rounds from one draw to the next; see `NearlyIndependent`.
        seed: the same seed gives the same ranks.
        force: begin at the first replication, even if the folder has ranks.
        progress: a bar on a terminal, lines elsewhere; by default only on a terminal.

    Returns:
        The ranks with their tests, and the folder.
    """
    _check_plots()
    plan = Study.read(path)
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    sample = _sampling(plan, thin)
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


def _sampling(plan: Study, thin: int | None) -> BySums | NearlyIndependent:
    """How the study draws: as its methods on sums do, or in rounds with a sampler."""
    found = plan.run.options
    options = {name: found[name] for name in RUN_KEYS if name in found}
    method, rung = options.pop("method", "auto"), options.pop("exactness", "auto")
    asked = found.get("thin") if thin is None else thin
    lengths, sampler = RequestedSchedule(1, found.get("burn_in"), asked), plan.make_sampler()
    choice = choice_of(sampler, method, rung, lengths.has_rounds)
    if isinstance(choice, OnSums | InOneShot):
        lengths.refuse_rounds(choice.method)
    if isinstance(choice, OnSums | InOneShot | Automatic):
        return BySums(method, **options)
    rung = choice.rung if isinstance(choice, TunedSampler) else "auto"
    return NearlyIndependent(sampler, thin, **options, exactness=rung)


def print_report(calibration: Calibration, console: Console) -> None:
    """Print the table of a calibration and its verdict on a console of `rich`."""
    from rich.table import Table

    table = Table(caption="Each column has the value of the agent that is worst in it.")
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
    """Refuse a calibration without Matplotlib before the replications, not hours later."""
    check_installed("matplotlib", purpose="the figure of a calibration", extra="plots")


def _settings(
    plan: Study, problem: Problem, network: Network, sample: BySums | NearlyIndependent
) -> dict[str, Any]:
    """Everything on which the ranks of a study depend, for comparison with a later run."""
    return {
        "model": dataclasses.asdict(plan.model),
        "data": _hash_of_covariates(problem),
        "network": [list(map(str, edge)) for edge in network.graph.edges],
        **{name: str(value) for name, value in vars(sample).items()},
    }


def _hash_of_covariates(problem: Problem) -> str:
    """A hash of the sites and their covariates; outcomes are simulated, and do not matter."""
    digest = hashlib.sha256()
    for site, rows in problem.shards.items():
        digest.update(f"{site} {rows['x'].shape}".encode())
        digest.update(np.ascontiguousarray(rows["x"]).tobytes())
    return digest.hexdigest()[:16]


def _write(calibration: Calibration, folder: Path) -> None:
    """Write the figure and the table of a calibration into a folder."""
    from starlings.calibration.figure import draw
    from starlings.results.plots import save_figure

    save_figure(draw(calibration), folder / "calibration")
    calibration.table().to_csv(folder / "calibration.csv", float_format="%.6g")
