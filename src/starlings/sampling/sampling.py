"""`sample`: check everything, tune, run, and give the draws their names back."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from starlings.diagnostics.examine import examine
from starlings.errors import DivergenceError, InterruptedWarning, check_count
from starlings.network import Network
from starlings.problem import Problem
from starlings.results.gather import Run
from starlings.results.outputs import Places
from starlings.results.result import Result
from starlings.runtime import loop
from starlings.runtime.checkpoint import Checkpoint
from starlings.samplers import Sampler
from starlings.sampling.request import Request, matched
from starlings.sampling.starts import mean_position, start_positions
from starlings.system.interrupts import Interrupts
from starlings.system.progress import counted, say, stage
from starlings.tuning import Tuning, tune
from starlings.tuning.ladder import EXACT_RUNGS
from starlings.tuning.pilot import warm_up

CHECKPOINT_EVERY = 10_000
"""Rounds from one checkpoint to the next, by default."""
EXAMINED_DRAWS = 1000
"""Draws of an agent that are held against Stein's identities."""


def sample(
    problem: Problem,
    network: Network,
    sampler: Sampler | type[Sampler] | None = None,
    *,
    exactness: str = "auto",
    draws: int = 1000,
    chains: int = 4,
    burn_in: int | None = None,
    thin: int | None = None,
    seed: int = 0,
    initial: Any = None,
    precision: str = "float64",
    progress: bool | None = None,
    check: bool = True,
    output: str | Path | None = None,
    overwrite: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = CHECKPOINT_EVERY,
    resume: bool = False,
) -> Result:
    """Draw from the posterior of everybody's data, at every agent of a network.

    Args:
        problem: the model and the rows of every site.
        network: who talks to whom; nodes are matched to sites by name, or by position where they
            are numbered 0..N-1.
        sampler: `DADMMS(rho=...)` or another instance of `Sampler`. By default D-ADMMS, tuned to
            the problem by the agents themselves (see `starlings.tune`); a class instead of an
            instance is tuned by its own rule `tuned`.
        exactness: for a tuned run, the rung of the ladder: "coherent", "half-noise", "curvature",
            "midpoint", "metropolis", "metropolis-vote" or "auto".
        draws: draws kept of each chain.
        chains: independent replicas of the whole network.
        burn_in: rounds dropped before the first draw; by default 500, times the rounds that the
            sampler needs for one new position (for Metropolis: for one candidate).
        thin: rounds from one draw to the next; by default 1, or about half of what an effective
            draw needs where the run is tuned.
        seed: the same seed gives the same draws.
        initial: where to start: named values, or an array of unconstrained positions that
            broadcasts to (chain, agent, dim). By default every agent draws its own from N(0, I).
        precision: "float64" or "float32".
        progress: show what is being done, on stderr: a bar on a terminal, and otherwise a line
            every ten seconds. By default only on a terminal.
        check: look at the draws afterwards, and warn if they should not be trusted: not converged,
            too few, agents apart, or of another law. Convergence is not judged below 100 draws a
            chain.
        output: a netCDF file to write; the result that is returned reads the draws from there, and
            the run needs no more memory for more draws.
        overwrite: replace a plain file that is there. Anything else (a folder, a device, a symbolic
            link) is never replaced.
        checkpoint: a folder that keeps the run, so that it can be resumed if it is interrupted; by
            default OUTPUT.run, where there is an `output`.
        checkpoint_every: rounds from one checkpoint to the next.
        resume: go on with the run that is in that folder, if there is one; more draws may be asked
            for than before. The folder is removed once all its draws are in `output`. The short
            file that this run left there when it was interrupted is replaced.

    Ctrl-C ends the run early and returns the draws so far, with an attribute `interrupted` that
    says how many. No two runs may have the same output or checkpoint at once.

    On a network that is distributed over several processes (see `starlings.runtime.mpi`) all of
    them must call this, with the problem of the sites that they hold; process 0 gets the result,
    and the others None.
    """
    network = matched(problem, network)
    lengths = (draws, chains, burn_in, thin)
    request = Request(problem, network, sampler, exactness, *lengths, seed, initial, precision)
    check_count(1, checkpoint_every=checkpoint_every)
    places = Places(output, overwrite, checkpoint, resume)
    with places.claimed(is_first=network.communicator.rank == 0):
        if network.communicator.rank == 0:
            places.check_room(request.size())
        store = _store(request, places, checkpoint_every)
        say(request.announcement(), progress)
        setup = _setup(request, store, progress)
        run = _run(request, setup, store, places.folder, progress)
        run.note(problem=setup.problem, tuning=setup.tuning)
        if setup.tuning is not None and check:
            some = np.moveaxis(run.recording.thinned(EXAMINED_DRAWS), 0, 1)
            run.notes["stein"] = examine(setup.problem, network, some).record()
        if run.interrupted is not None:
            warnings.warn(_farewell(run), InterruptedWarning, stacklevel=2)
        result = (
            run.result() if places.output is None else run.saved(Path(places.output), places.check)
        )
        if store is not None and places.output is not None and run.is_complete(store.num_draws):
            store.remove()
    if check and result is not None:
        run.warn_of(result, stacklevel=3)
    return result  # type: ignore[return-value]


class Setup(NamedTuple):
    """What is run: a sampler with settings, and the problem in the coordinates it moves in."""

    problem: Problem
    sampler: Sampler
    initial: Any
    """Where to start in those coordinates, as `sample` takes it."""
    tuning: Tuning | None
    """What the agents found; None if the settings were given."""


def _store(request: Request, places: Places, every: int) -> Checkpoint | None:
    """The folder in which the run is kept, begun or found to hold the same run."""
    if places.folder is None:
        return None
    store = Checkpoint(places.folder, every, request.network, request.digests())
    store.begin(request.identity(), places.resume)
    return store


def _setup(request: Request, store: Checkpoint | None, progress: bool | None) -> Setup:
    """The given sampler, or what the agents choose."""
    if isinstance(request.sampler, Sampler):
        return Setup(request.problem, request.sampler, request.initial, None)
    tuning = _tuned(request, store, progress)
    say(tuning.summary(), progress)
    initial = None if request.start is None else tuning.coordinates(request.start)
    return Setup(tuning.problem(request.problem), tuning.sampler, initial, tuning)


def _tuned(request: Request, store: Checkpoint | None, progress: bool | None) -> Tuning:
    """What the agents find, or had found when the run was begun."""
    found = None if store is None else store.tuning()
    if found is not None:
        return Tuning.from_parts(*found, request.tuned_class)
    problem, network, start = request.problem, request.network, request.start
    start = None if start is None else mean_position(problem, start)
    wanted = {"exactness": request.exactness, "sampler": request.tuned_class}
    with Interrupts(not network.is_distributed) as interrupts:
        with stage("tuning: mode and scale of the posterior", progress):
            tuning = tune(problem, network, start, **wanted)  # type: ignore[arg-type]
        interrupts.heed()
        watch = functools.partial(counted, wanted=progress)
        tuning = warm_up(problem, tuning, network, request.seed, watch)
        interrupts.heed()
    if store is not None:
        store.save_tuning(*tuning.parts())
    return tuning


def _run(
    request: Request,
    setup: Setup,
    store: Checkpoint | None,
    folder: Path | None,
    progress: bool | None,
) -> Run:
    """All rounds, on this machine or on every process of a distributed network."""
    problem, sampler, initial, tuning = setup
    network, seed, chains = request.network, request.seed, request.chains
    dtype, schedule = np.dtype(request.precision), request.schedule(sampler, tuning)
    with (
        jax.enable_x64(request.precision == "float64"),
        counted("sampling", schedule.num_rounds, progress) as report,
    ):
        agents = problem.agents(network, dtype)
        positions = start_positions(problem, sampler, initial, chains, seed, dtype)
        try:
            recording = loop.run(
                sampler, agents, network, positions, seed, schedule, report, checkpoint=store
            )
        except DivergenceError as error:
            if tuning is None or tuning.rung in EXACT_RUNGS:
                raise
            hint = "This run was tuned: exactness='metropolis' is slower and cannot diverge."
            raise DivergenceError(f"{error} {hint}") from None
    settings = (schedule, seed, request.precision, recording, chains, folder)
    return Run(problem, network, sampler, *settings)


def _farewell(run: Run) -> str:
    """What is said of a run that was interrupted."""
    go_on = "" if run.folder is None else f" It is kept in {run.folder}: `resume` goes on with it."
    return f"interrupted {run.interrupted}; returning those.{go_on}"
