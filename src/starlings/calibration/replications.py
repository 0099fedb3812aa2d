"""Replications of eqs. (1) and (2) of `starlings.calibration`: from a simulator to ranks.

The random numbers of replication k come from (seed, k). Ranks therefore depend neither on the
number of threads nor on whether a run was interrupted.
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
from starlings.errors import (
    CandidateError,
    DivergenceError,
    SubposteriorError,
    TuningError,
    check_count,
)
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.local import refuse_local
from starlings.sampling import sample as run_sampler
from starlings.system.progress import progress_bar
from starlings.tuning import tune
from starlings.tuning.pilot import refine

MOST_THREADS = 4
"""Number of replications that run at a time at most, if the user does not say how many."""
DEFAULT_THIN = 25
"""Rounds from one draw to the next for a sampler whose autocorrelation is not predicted."""
FEWEST_DRAWS = 1000
"""Draws that a method on sums is asked for at least. Four times as many are made, effectively, so
that those that are kept of them are nearly independent."""

Simulate = Callable[[np.random.Generator], tuple[Mapping[str, Any], Any]]
"""Takes a generator of random numbers; returns parameters by name, drawn from the prior, and the
problem whose data were drawn with them."""
Sample = Callable[[Any, Network, int, int], xr.Dataset]
"""Takes a problem, a network, the number of draws and a seed, and returns that many draws with the
dimensions (chain, draw, agent, ...)."""


@dataclass(frozen=True)
class BySums:
    """Draws as `starlings.sample` makes them without a sampler, thinned to nearly independent ones.

    Args:
        method: "auto" or one without rounds, such as "weights" or "hmc"; see `starlings.sample`.
        precision: "float64" or "float32".
    """

    method: str = "auto"
    precision: str = "float64"

    def __call__(self, problem: Problem, network: Network, draws: int, seed: int) -> xr.Dataset:
        """Draws that are evenly spaced among all chains and draws of a usual run."""
        how: Any = {"method": self.method, "precision": self.precision, "seed": seed}
        how["draws"] = max(FEWEST_DRAWS, draws)
        posterior = run_sampler(problem, network, **how, progress=False, check=False).posterior
        single = posterior.stack(all=("draw", "chain")).drop_vars(("all", "draw", "chain"))
        places = np.linspace(0, single.sizes["all"] - 1, draws).round().astype(int)
        thinned = single.isel(all=places).rename(all="draw").expand_dims("chain")
        return thinned.transpose("chain", "draw", "agent", ...)


@dataclass(frozen=True)
class NearlyIndependent:
    """Draws of one chain, thinned until their remaining correlation is negligible.

    Args:
        sampler: as in `starlings.sample`; None to tune one in every replication. Tuning has a
            pilot run only if theory does not predict the autocorrelation.
        thin: rounds from one draw to the next. By default twice the rounds per effective draw that
            tuning predicts, which leaves a correlation of about exp(-4); 25 without a prediction.
        burn_in: rounds before the first draw, which are not recorded.
        precision: "float64" or "float32".
        exactness: the rung of the ladder for a tuned sampler, as in `starlings.tune`.
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
        enough = DEFAULT_THIN if correlated is None else math.ceil(2 * correlated)
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
            `BySums()`: as `starlings.sample` draws, by a method chosen in every replication.
        replications: the number of data sets that are simulated; the relative width of the band
            of a rank histogram falls with the square root of it.
        draws: L, the draws per data set; ranks are whole numbers from 0 to L.
        seed: the same seed gives the same ranks.
        file: a netCDF file to which the ranks are written during the run. If it has some already,
            the run continues with the next replication.
        settings: what else the ranks depend on, saved in the file; a file with other settings is
            refused.
        force: begin at the first replication, even if the file has ranks.
        threads: replications at a time; by default one for each core, and at most 4.
        progress: a bar on a terminal, lines elsewhere; by default only on a terminal.
    """
    check_count(1, replications=replications, draws=draws)
    check_count(0, seed=seed)
    if threads is not None:
        check_count(1, threads=threads)
    ranks = RankFile.open(file, {"draws": draws, "seed": seed, **(settings or {})}, force)
    replicate = Replicate(simulate, network, sample or BySums(), draws, seed)
    todo = range(len(ranks), replications)
    shown = progress_bar("calibrating", replications, progress, "replications", done=len(ranks))
    with ranks, shown as report:
        for found in _in_threads(replicate, todo, threads or _default_threads()):
            ranks.add(found)
            if report is not None:
                report(len(ranks))
    return Calibration(ranks.ranks[:replications], draws)


@dataclass(frozen=True)
class Replicate:
    """Everything that a replication needs except its number; see `calibrate` for the fields."""

    simulate: Simulate
    network: Network
    sample: Sample
    draws: int
    seed: int

    def __call__(self, index: int) -> xr.DataArray:
        """Simulate, sample and rank in one replication: ranks (agent, parameter)."""
        rng = np.random.default_rng([self.seed, index])
        try:
            truth, problem = self.simulate(rng)
            if isinstance(problem, Problem):  # data of a sampler of the user's own need not be
                refuse_local(problem, "calibration, whose true values all agents have in common,")
            posterior = self.sample(problem, self.network, self.draws, int(rng.integers(2**32)))
        except (DivergenceError, TuningError, CandidateError, SubposteriorError) as error:
            raise DivergenceError(f"replication {index} of the calibration: {error}") from error
        return rank(truth, posterior, self.draws)


def rank(truth: Mapping[str, Any], posterior: xr.Dataset, draws: int) -> xr.DataArray:
    """The rank, eq. (2), of every entry of the parameters at every agent, (agent, parameter).

    Args:
        truth: true parameters by name.
        posterior: draws with the dimensions (chain, draw, agent, ...).
        draws: the number of draws that there have to be, over all chains.
    """
    posterior = without_derived(posterior, besides=truth)
    if set(truth) != set(map(str, posterior.data_vars)):
        raise ValueError(
            f"`simulate` names the parameters {sorted(truth)}, but the draws are of "
            f"{sorted(map(str, posterior.data_vars))}; give them the same names."
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


def _default_threads() -> int:
    """One thread for each core, up to `MOST_THREADS`."""
    return min(MOST_THREADS, os.cpu_count() or 1)


def _in_threads(replicate: Replicate, todo: range, threads: int) -> Iterator[xr.DataArray]:
    """The ranks of replications in order; once one fails, no further one is started."""
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(replicate, todo)
