"""`sample`: check what is asked for, run it, and name the draws."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from starlings.errors import InterruptedWarning
from starlings.network import Network
from starlings.problem import Problem
from starlings.results.gather import Run
from starlings.results.outputs import RunFiles
from starlings.results.result import Result
from starlings.runtime.checkpoint import Checkpoint
from starlings.samplers import Sampler
from starlings.sampling.choice import choice_of
from starlings.sampling.destination import CHECKPOINT_EVERY, Destination
from starlings.sampling.private import private_network
from starlings.sampling.request import Request, RequestedSchedule, matched
from starlings.system.progress import Progress


def sample(
    problem: Problem,
    network: Network,
    sampler: Sampler | type[Sampler] | None = None,
    *,
    method: str = "auto",
    exactness: str = "auto",
    draws: int = 1000,
    chains: int | None = None,
    burn_in: int | None = None,
    thin: int | None = None,
    seed: int = 0,
    initial: Any = None,
    precision: str = "float64",
    progress: bool | None = None,
    check: bool = True,
    privacy: str = "none",
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
        sampler: `DADMMS(rho=...)` or another instance of `Sampler`, to run it as it is; a class
            instead of an instance is tuned by its own rule `tuned`. By default `method` decides.
        method: how draws are made. "auto" takes the method that is predicted to need the fewest
            network rounds, and says which. "weights" weighs candidates that all sites share, for
            posteriors near a Gaussian; "weights-metropolis" makes an exact chain of them. "hmc" is
            Hamiltonian Monte Carlo on sums, exact for any posterior; "marginal-hmc" makes it for
            the shared parameters alone, where each site has one to three parameters of its own,
            which it integrates out and then draws by itself. "consensus", "parametric",
            "nonparametric" and "semiparametric" combine draws that every site makes by itself, in
            one exchange: they are for comparisons, and biased unless the posterior of every site
            alone is Gaussian. "dadmms" is D-ADMMS, tuned by
            the agents (see `starlings.tune`); "coherent", "half-noise", "curvature", "midpoint",
            "metropolis" and "metropolis-vote" name a rung of its ladder of exactness.
        exactness: the older name of `method`, for the rungs.
        draws: draws recorded in each chain.
        chains: independent chains. By default the method chooses them so that the run has few
            rounds, and their draws are together worth 4 x `draws` independent ones, about.
        burn_in: rounds dropped before the first draw, for samplers; by default 500, times the
            rounds that the sampler needs for one new position (for Metropolis: for one candidate),
            or five autocorrelation times for many short chains.
        thin: rounds from one draw to the next, for samplers; by default 1, or about half of what an
            effective draw needs where the run is tuned. A sampler may have a new position only
            once in several rounds, its `cycle`: any other `thin` than a multiple of that records
            positions twice, or on their way.
        seed: the same seed gives the same draws.
        initial: where to start: named values, or an array of unconstrained positions that
            broadcasts to (chain, agent, dim). Weights, HMC and "auto" take one point, from which
            the search for the mode begins; HMC starts around it if there is no mode. Samplers also
            take a point for each chain or agent; by default they draw them from N(0, I).
        precision: "float64" or "float32".
        progress: show what is being done, on stderr: a bar on a terminal, and otherwise a line
            every ten seconds. By default only on a terminal.
        check: diagnose the draws afterwards, and warn if they should not be trusted: not
            converged, too few, agents that disagree, or draws from another distribution.
            Convergence is not judged below 100 draws in each chain, unless the run has many short
            chains in groups that start at one point each, which nested R-hat judges.
        privacy: "totals" masks all messages, so that nobody learns anything but totals over all
            sites (or, for samplers that run in rounds, over the neighbours of a site), and obeys
            the guard rails of the sites; draws change by rounding only. "none" sends numbers as
            they are. `result.disclosed()` says what left each site.
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
    says how many. Before the first draw it raises KeyboardInterrupt, which says whether the run can
    be resumed. No two runs may have the same output or checkpoint at once.

    On a network that is distributed over several processes (see `starlings.runtime.mpi`) all of
    them must call this, each with the problem of its local sites; process 0 gets the result, and
    all other processes None.
    """
    network = private_network(problem, matched(problem, network), privacy)
    schedule = RequestedSchedule(draws, burn_in, thin)
    choice = choice_of(sampler, method, exactness, schedule.has_rounds)
    request = Request(problem, network, choice, schedule, chains, seed, initial, precision, check)
    files = RunFiles(output, overwrite, checkpoint, resume)
    destination, shown = Destination(files, checkpoint_every), Progress(progress)
    with destination.reserved(request, shown) as store:
        shown.print_status(request.announcement())
        try:
            run = choice.run(request, store, shown)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_how_to_go_on(store)) from None
        result = destination.collected(run, store)
    if run.interrupted is not None:
        warnings.warn(_interruption(run), InterruptedWarning, stacklevel=2)
    if check and result is not None:
        run.warn_if_untrustworthy(result, stacklevel=3)
    return result  # type: ignore[return-value]


def _how_to_go_on(store: Checkpoint | None) -> str:
    """What an interrupt before the first draw says."""
    begun = "interrupted before the first draw"
    if store is None:
        return f"{begun}; nothing is saved. A run with `output` or `checkpoint` can be resumed."
    if not store.files.has_run():
        return f"{begun}, and before anything was saved in {store.folder}; begin again."
    return (
        f"{begun}. What was done is saved in {store.folder}: go on with the same command and "
        "`--resume` (in Python `resume=True`)."
    )


def _interruption(run: Run) -> str:
    """The warning about a run that Ctrl-C ended early."""
    resumable = (
        "" if run.folder is None else f" It is saved in {run.folder}: `resume=True` continues it."
    )
    return f"interrupted {run.interrupted}; returning those.{resumable}"
