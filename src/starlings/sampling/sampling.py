"""`sample`: check what is asked for, tune, run, and name the draws."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np

from starlings.diagnostics.stein_network import check_stein_identities
from starlings.errors import DivergenceError, InterruptedWarning
from starlings.network import Network
from starlings.problem import Problem
from starlings.results.gather import Run
from starlings.results.outputs import RunFiles
from starlings.results.result import Result
from starlings.runtime import loop
from starlings.runtime.checkpoint import Checkpoint
from starlings.samplers import Sampler
from starlings.sampling.choice import sampler_choice
from starlings.sampling.destination import CHECKPOINT_EVERY, Destination
from starlings.sampling.request import Request, RequestedSchedule, Setup, matched
from starlings.sampling.starts import start_positions
from starlings.system.progress import Progress

EXAMINED_DRAWS = 1000
"""Draws of each agent, of all chains together, that are tested by Stein's identities."""


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
        draws: draws recorded in each chain.
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
        check: diagnose the draws afterwards, and warn if they should not be trusted: not
            converged, too few, agents that disagree, or draws from another distribution.
            Convergence is not judged below 100 draws in each chain.
        output: a netCDF file to write; the result that is returned reads the draws from there, so
            that the memory which the run needs does not grow with the number of draws.
        overwrite: replace the output file if it exists. Anything that is not a plain file (a
            folder, a device, a symbolic link) is never replaced.
        checkpoint: a folder for the state and the draws of the run, so that it can be resumed if
            it is interrupted; by default OUTPUT.run, if `output` is given.
        checkpoint_every: rounds from one checkpoint to the next.
        resume: continue the run that is in that folder, if there is one; needs `checkpoint` or
            `output`. More draws may be asked for than before. The folder is removed once all its
            draws are in `output`. The incomplete file that this run left there when it was
            interrupted is replaced.

    Ctrl-C ends the run early and returns the draws so far, with an attribute `interrupted` that
    says how many. No two runs may have the same output or checkpoint at once.

    On a network that is distributed over several processes (see `starlings.runtime.mpi`) all of
    them must call this, each with the problem of its local sites; process 0 gets the result, and
    all other processes None.
    """
    network = matched(problem, network)
    choice = sampler_choice(sampler, exactness)
    schedule = RequestedSchedule(draws, burn_in, thin)
    request = Request(problem, network, choice, schedule, chains, seed, initial, precision)
    files = RunFiles(output, overwrite, checkpoint, resume)
    destination, shown = Destination(files, checkpoint_every), Progress(progress)
    with destination.reserved(request, shown) as store:
        shown.print_status(request.announcement())
        setup = choice.setup(request, store, shown)
        run = _run(request, setup, store, shown)
        _annotate(run, setup, check)
        result = destination.collected(run, store)
    if run.interrupted is not None:
        warnings.warn(_interruption(run), InterruptedWarning, stacklevel=2)
    if check and result is not None:
        run.warn_if_untrustworthy(result, stacklevel=3)
    return result  # type: ignore[return-value]


def _run(request: Request, setup: Setup, checkpoint: Checkpoint | None, progress: Progress) -> Run:
    """All rounds of the local agents, and their draws."""
    problem, sampler, network = setup.problem, setup.sampler, request.network
    chains, seed, precision = request.chains, request.seed, request.precision
    dtype, schedule = np.dtype(precision), request.schedule.completed(sampler, setup.tuning)
    with (
        jax.enable_x64(precision == "float64"),
        progress.progress_bar("sampling", schedule.num_rounds) as report,
    ):
        agents = problem.agents(network, dtype)
        positions = start_positions(problem, sampler, setup.initial, chains, seed, dtype)
        try:
            recording = loop.run(
                sampler, agents, network, positions, seed, schedule, report, checkpoint=checkpoint
            )
        except DivergenceError as error:
            raise _with_remedy(error, setup) from None
    folder = None if checkpoint is None else checkpoint.folder
    return Run(problem, network, sampler, schedule, seed, precision, recording, chains, folder)


def _with_remedy(error: DivergenceError, setup: Setup) -> DivergenceError:
    """The error of a run that diverged; a tuned run has a safer alternative."""
    if setup.tuning is None or setup.tuning.is_exact:
        return error
    hint = "This run was tuned: exactness='metropolis' is slower and cannot diverge."
    return DivergenceError(f"{error} {hint}")


def _annotate(run: Run, setup: Setup, check: bool) -> None:
    """Attach to a run what its result reports besides draws, such as Stein's identities."""
    run.add_attributes(problem=setup.problem, tuning=setup.tuning)
    if setup.tuning is not None and check:
        draws = np.moveaxis(run.recording.thinned(EXAMINED_DRAWS), 0, 1)
        run.attributes["stein"] = check_stein_identities(setup.problem, run.network, draws).record()


def _interruption(run: Run) -> str:
    """The warning about a run that Ctrl-C ended early."""
    resumable = (
        "" if run.folder is None else f" It is saved in {run.folder}: `resume=True` continues it."
    )
    return f"interrupted {run.interrupted}; returning those.{resumable}"
