"""Eqs. (1) and (2) of `starlings.calibration`, many times over: from a simulator to ranks.

Replication k has random numbers of its own, from (seed, k). It does not matter in which thread it
runs, or whether the run was interrupted before it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from starlings.calibration.judging import Calibration
from starlings.calibration.rank_file import RankFile
from starlings.diagnostics.draws import entry_names, without_derived
from starlings.errors import DivergenceError, TuningError, check_count
from starlings.network import Network
from starlings.problem import Problem
from starlings.sampling import sample as run_sampler
from starlings.system.progress import progress_bar
from starlings.tuning import tune
from starlings.tuning.pilot import refine

MOST_THREADS = 4
UNPREDICTED_THIN = 25

Simulate = Callable[[np.random.Generator], tuple[Mapping[str, Any], Any]]
"""rng -> (true parameters by name, the problem with data drawn there)."""
Sample = Callable[[Any, Network, int, int], xr.Dataset]
"""(problem, network, draws, seed) -> that many draws, with dimensions (chain, draw, agent, ...)."""


@dataclass(frozen=True)
class NearlyIndependent:
    """Draws of one chain, thinned until what is left of their correlation does not matter.

    Args:
        sampler: as in `starlings.sample`; None has it tuned, anew in every replication, without the
            pilot run of `sample` unless nothing else says how far apart draws have to be.
        thin: rounds from one draw to the next. By default twice the rounds per effective draw that
            tuning predicts, which leaves a correlation of about exp(-4); 25 without a prediction.
        burn_in: rounds dropped before the first draw.
        precision: "float64" or "float32".
        exactness: of a tuned run, as in `starlings.sample`.
    """

    sampler: Any = None
    thin: int | None = None
    burn_in: int = 500
    precision: str = "float64"
    exactness: str = "auto"

    def __post_init__(self) -> None:
        if self.thin is not None:
            check_count(1, thin=self.thin)

    def __call__(self, problem: Problem, network: Network, draws: int, seed: int) -> xr.Dataset:
        """The draws that `starlings.sample` makes with these settings."""
        sampler, correlated = self.sampler, None
        if sampler is None:
            tuning = tune(problem, network, exactness=self.exactness)
            if math.isnan(tuning.predicted_rounds_per_draw):
                tuning = refine(problem, tuning, network, seed % 2**31)
            problem, sampler = tuning.problem(problem), tuning.sampler
            correlated = tuning.predicted_rounds_per_draw
        enough = UNPREDICTED_THIN if correlated is None else math.ceil(2 * correlated)
        return run_sampler(
            problem,
            network,
            sampler,
            draws=draws,
            chains=1,
            burn_in=self.burn_in,
            thin=self.thin or enough,
            seed=seed,
            precision=self.precision,
            progress=False,
        ).posterior


def calibrate(
    simulate: Simulate,
    network: Network,
    sample: Sample | None = None,
    *,
    replications: int = 500,
    draws: int = 99,
    seed: int = 0,
    file: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    force: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
) -> Calibration:
    """Rank true parameters among draws from the posterior, at every agent of a network.

    Args:
        simulate: `rng -> (true parameters by name, problem)`, from the prior and the likelihood.
            Problems of equal shapes, made of the same functions, are compiled only once.
        network: who talks to whom.
        sample: `(problem, network, draws, seed) -> Dataset` such as `result.posterior`. By default
            `NearlyIndependent()`: D-ADMMS, tuned anew in every replication.
        replications: how often; the band of a rank histogram narrows with the root of it.
        draws: L; ranks are whole numbers from 0 to L.
        seed: the same seed gives the same ranks.
        file: a netCDF file that keeps the ranks as they are made. If it has some already, the run
            goes on from there.
        settings: what else made the ranks, for the file; a file with others is refused.
        force: start anew, whatever the file has.
        threads: replications at a time; by default one for each core, and at most 4.
        progress: a bar on a terminal, lines elsewhere; by default only on a terminal.
    """
    check_count(1, replications=replications, draws=draws)
    check_count(0, seed=seed)
    if threads is not None:
        check_count(1, threads=threads)
    kept = RankFile.open(file, {"draws": draws, "seed": seed, **(settings or {})}, force)
    replicate = Replicate(simulate, network, sample or NearlyIndependent(), draws, seed)
    todo = range(len(kept), replications)
    shown = progress_bar("calibrating", replications, progress, "replications", done=len(kept))
    with kept, shown as report:
        for ranks in _in_threads(replicate, todo, threads or _cores()):
            kept.add(ranks)
            if report is not None:
                report(len(kept))
    return Calibration(kept.ranks[:replications], draws)


@dataclass(frozen=True)
class Replicate:
    """One replication by its number."""

    simulate: Simulate
    network: Network
    sample: Sample
    draws: int
    seed: int

    def __call__(self, index: int) -> xr.DataArray:
        """The ranks of its true parameters, (agent, parameter)."""
        rng = np.random.default_rng([self.seed, index])
        try:
            truth, problem = self.simulate(rng)
            posterior = self.sample(problem, self.network, self.draws, int(rng.integers(2**32)))
        except (DivergenceError, TuningError) as error:
            raise DivergenceError(f"replication {index} of the calibration: {error}") from error
        return rank(truth, posterior, self.draws)


def rank(truth: Mapping[str, Any], posterior: xr.Dataset, draws: int) -> xr.DataArray:
    """Eq. (2) for every agent and every entry of the parameters, (agent, parameter)."""
    posterior = without_derived(posterior, besides=truth)
    if set(truth) != set(map(str, posterior.data_vars)):
        raise ValueError(
            f"`simulate` names the parameters {sorted(truth)}, but the draws are of "
            f"{sorted(map(str, posterior.data_vars))}."
        )
    columns, labels = [], []
    for name, variable in posterior.data_vars.items():
        flat = variable.values.reshape(-1, variable.sizes["agent"], math.prod(variable.shape[3:]))
        if len(flat) != draws or not np.all(np.isfinite(flat)):
            raise ValueError(f"`sample` must make {draws} finite draws of {name!r}.")
        true = np.broadcast_to(np.asarray(truth[str(name)], float), variable.shape[3:]).ravel()
        columns.append(np.sum(flat < true, axis=0))  # (2)
        labels += entry_names(str(name), variable)
    agents = [str(agent) for agent in posterior["agent"].values]
    coordinates = {"agent": agents, "parameter": labels}
    return xr.DataArray(np.hstack(columns), coordinates, name="rank")


def _cores() -> int:
    return min(MOST_THREADS, os.cpu_count() or 1)


def _in_threads(replicate: Replicate, todo: range, threads: int) -> Iterator[xr.DataArray]:
    """The replications in order; those not yet begun are dropped when one fails."""
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(replicate, todo)
