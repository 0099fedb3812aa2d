"""`compare`: samplers on one problem, by exact laws where they are known, by chains elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from starlings.comparison.samplers.comparison import Comparison
from starlings.comparison.samplers.judging import CHAINS, Judge
from starlings.comparison.samplers.measures import GaussianMeasure, Measure
from starlings.comparison.samplers.named import Wanted, named_samplers
from starlings.comparison.samplers.places import Places
from starlings.comparison.samplers.records import Records
from starlings.comparison.samplers.reference import reference_measure
from starlings.comparison.samplers.settings import FAILURES, Grid, settings_of, trial_of
from starlings.errors import check_count, check_positive
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.local import refuse_local
from starlings.samplers.units import GRID
from starlings.system.progress import progress_bar

ROUNDS, SIMULATED_ROUNDS = 10_000, 1_000
"""Rounds of exact laws, and of chains, by default."""


def compare(
    problem: Problem,
    network: Network,
    samplers: Wanted = None,
    *,
    target: float = 0.05,
    rounds: int = ROUNDS,
    chains: int | None = None,
    simulated_rounds: int = SIMULATED_ROUNDS,
    reference: Any = None,
    grid: Any = None,
    tuned: bool = True,
    seed: int = 0,
    progress: bool | None = None,
) -> Comparison:
    """How far from the posterior samplers are, along rounds, messages, gradients and seconds.

    Where the potentials are quadratic and the law of a sampler is known (`starlings.theory.law`),
    its distance is computed and not simulated. Elsewhere it is that of many chains. All agents
    start from N(0, I). A class of samplers is run as published, at the best of candidates on a grid
    that is the same for all classes, and as tuned by its own rule, as far as it has these. Where
    even a Gaussian has no law of a class, every fourth candidate is run, and then those near the
    best. A sampler that cannot run is a row with the reason.

    A class that needs a hub, or all rows at one place, says so (`needs_hub`, `needs_one_place`) and
    runs there on the same posterior; the column `network` says where.

    Args:
        problem: the model and the rows of every site.
        network: who talks to whom, for samplers that need no other network.
        samplers: names, subclasses of `starlings.Sampler` or instances; or a mapping of names to
            these, and to lists of instances of one class, of which the best is taken. By default
            all samplers of this library and of installed packages.
        target: the distance to reach, of the worst agent, in posterior radii: 1 is the distance of
            the mode alone.
        rounds: up to where exact laws are followed.
        chains: chains that are run for every sampler, drawn as points over exact laws. By default
            256 for those without a law and none for the others; 0 for no simulation at all.
        simulated_rounds: rounds of these chains.
        reference: draws (draw, dim) of the posterior in unconstrained coordinates, for a posterior
            that is not Gaussian; by default a long exact run.
        grid: the numbers on which candidates are laid out, see `starlings.Units`.
        tuned: whether to run classes that tune themselves as tuned, too.
        seed: the same seed gives the same chains.
        progress: show how much is done, on stderr; by default only on a terminal.

    >>> import starlings as st
    >>> two = st.models.gaussian([[[1.0]], [[3.0]]])
    >>> found = st.compare(two, st.Network.path(2), ["dsgld", "gextra"], progress=False)
    >>> found.table[["sampler", "setting", "network"]].values.tolist()[1]
    ['dsgld', 'best', 'as given']
    """
    refuse_local(problem, "a comparison of samplers")
    check_positive(target=target)
    check_count(1, rounds=rounds, simulated_rounds=simulated_rounds)
    check_count(0, chains=0 if chains is None else chains)
    wanted, numbers = named_samplers(samplers), _checked_grid(grid)
    places = Places(problem, network)
    measure = _measure(problem, places.network, reference, seed, progress)
    judge = Judge(measure, target, rounds, chains, simulated_rounds, seed)
    jobs = [(each, how) for each in wanted for how in settings_of(each) if tuned or how != "tuned"]
    records, units = Records(judge), Grid(numbers)
    pilots = chains != 0 and not problem.is_quadratic
    with progress_bar("comparing", len(jobs), progress, "settings") as report:
        for done, (each, how) in enumerate(jobs, start=1):
            try:
                place = places.of(each.kind)
                trial = trial_of(each, how, place, units, seed, pilots)
                if trial is not None:
                    records.add(judge.outcome(trial))
            except FAILURES as error:
                records.fail(each, how, error)
            if report is not None:
                report(done)
    return Comparison(*records.tables(), _about(places, judge))


def _measure(
    problem: Problem, network: Network, reference: Any, seed: int, progress: bool | None
) -> Measure:
    """The exact posterior where it is Gaussian, and reference draws elsewhere."""
    if problem.is_quadratic:
        return GaussianMeasure.of(problem)
    return reference_measure(problem, network, reference, seed, progress)


def _checked_grid(grid: Any) -> np.ndarray:
    numbers = GRID if grid is None else np.asarray(grid, float)
    if numbers.ndim != 1 or len(numbers) == 0 or not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise ValueError("`grid` must be positive numbers, such as numpy.geomspace(2, 2e-4, 33).")
    return numbers


def _about(places: Places, judge: Judge) -> dict[str, Any]:
    """What was compared, in types that JSON has."""
    problem, network, measure = places.problem, places.network, judge.measure
    about: dict[str, Any] = {
        "agents": network.size,
        "edges": network.num_edges,
        "dim": problem.dim,
        "rows": int(problem.num_rows.sum()),
        "target": judge.target,
        "unit": measure.unit,
        "rounds": judge.rounds,
        "chains": judge.chains,
        "simulated_rounds": judge.simulated_rounds,
        "seed": judge.seed,
        "floor": judge.floor(judge.chains or CHAINS),
        "simulated_target": judge.goal(judge.chains or CHAINS),
    }
    return about | measure.about()
