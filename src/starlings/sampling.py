"""`sample`: check everything, run, and give the draws their names back."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.errors import DivergenceError, check_choice, check_count
from starlings.network import Network
from starlings.outputs import Size, check_output, check_room, check_rounds, claiming, folder_of
from starlings.problem import Problem
from starlings.progress import counted, number_of, say, stage
from starlings.results import Result
from starlings.rounds import Round, chain_keys
from starlings.runs import Run
from starlings.runtimes import vectorised
from starlings.runtimes.alone import others
from starlings.runtimes.checkpoint import Checkpoint
from starlings.runtimes.interrupts import Interrupts
from starlings.runtimes.recording import Schedule
from starlings.samplers import SAMPLERS, Metropolis
from starlings.shards import digest
from starlings.stein import examine
from starlings.tuning import Tuning, tune
from starlings.tuning.warmup import warm_up

BURN_IN = 500
CHECKPOINT_EVERY = 10_000
EXAMINED_DRAWS = 1000
"""Of an agent, by Stein's identities."""


class InterruptedWarning(UserWarning):
    """A run was ended by Ctrl-C and returns the draws that it had."""


@claiming
def sample(
    problem: Problem,
    network: Network,
    sampler: Any = None,
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
        sampler: `DADMMS(rho=...)` or one of its sisters. By default D-ADMMS, tuned to the problem
            by the agents themselves: see `starlings.tuning`.
        exactness: for a tuned run, the rung of the ladder: "coherent", "half-noise", "curvature",
            "midpoint", "metropolis", "metropolis-vote" or "auto"; see `starlings.tuning.ladder`.
        draws: draws kept of each chain.
        chains: independent replicas of the whole network.
        burn_in: rounds dropped before the first draw; by default 500, times the rounds that a
            Metropolis sampler needs for one candidate.
        thin: rounds from one draw to the next; by default 1, or about half of what an effective
            draw needs where the run is tuned.
        seed: the same seed gives the same draws.
        initial: where to start: named values, or an array of unconstrained positions that
            broadcasts to (chain, agent, dim). By default every agent draws its own from N(0, I).
        precision: "float64" or "float32".
        progress: what is being done, on stderr: a bar on a terminal, and otherwise lines every ten
            seconds. By default only on a terminal.
        check: look at the draws afterwards, and warn if they should not be trusted: not converged,
            too few, agents apart, or of another law. Below 100 draws a chain convergence is not
            judged.
        output: a netCDF file to write; what is returned reads the draws from there. Neither the run
            nor what is made of its draws then needs more memory for more of them.
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

    On a network that is placed on several processes (see `starlings.runtimes.mpi`) all of them must
    call this, with the problem of the sites that they hold; the first one gets the result, and the
    others None.
    """
    check_count(1, draws=draws, chains=chains, thin=1 if thin is None else thin)
    check_count(0, seed=seed, burn_in=0 if burn_in is None else burn_in)
    if seed >= 2**63:
        raise ValueError(f"`seed` must be below 2**63, got {seed}.")
    check_choice(("float64", "float32"), precision=precision)
    network = _matched(problem, network)
    folder = folder_of(output, checkpoint)
    if resume and folder is None:
        raise ValueError(
            "`resume` needs the `checkpoint` or the `output` of the run to go on with."
        )
    check_rounds(Schedule(draws, burn_in or 0, thin or 1))
    rules = functools.partial(check_output, output, overwrite, resume, checkpoint)
    if others(network).rank == 0:
        check_room(Size.of(problem, draws, chains, precision), rules(), folder)
    if sampler is not None:
        check_sampler(problem, network, sampler)
        if exactness != "auto":
            raise ValueError(
                f"`exactness` is for tuned runs, which have no `sampler`; got {exactness!r} and "
                f"{sampler}. Leave one of them out."
            )
    kept = None
    if folder is not None:
        lengths = {"chains": chains, "burn_in": burn_in, "thin": thin}
        described = {"sampler": str(sampler), "exactness": exactness, **lengths}
        described |= {"seed": seed, "precision": precision}
        if initial is not None:
            described["initial"] = digest({"initial": _flat(problem, initial)})
        kept = _kept(problem, network, folder, checkpoint_every, described, resume)
    say(_announcement(problem, network, sampler, draws, chains), progress)
    tuning = None
    if sampler is None:
        start = None if initial is None else _flat(problem, initial)
        tuning = _tuned(problem, network, start, exactness, seed, kept, progress)
        problem, sampler = tuning.problem(problem), tuning.sampler
        initial = None if start is None else tuning.coordinates(start)
        say(tuning.summary(), progress)
    schedule = _schedule(draws, burn_in, thin, sampler, tuning)
    check_rounds(schedule)
    with jax.enable_x64(precision == "float64"):
        agents = problem.agents(network, np.dtype(precision))
        positions = start_positions(problem, sampler, initial, chains, seed, np.dtype(precision))
        with counted("sampling", schedule.num_rounds, progress) as report:
            try:
                recording = vectorised.run(
                    sampler, agents, network, positions, seed, schedule, report, checkpoint=kept
                )
            except DivergenceError as error:
                if tuning is None or isinstance(sampler, Metropolis):
                    raise
                hint = "This run was tuned: exactness='metropolis' is slower and cannot diverge."
                raise DivergenceError(f"{error} {hint}") from None
    run = Run(problem, network, sampler, schedule, seed, precision, recording, chains, folder)
    run.notes["model"] = problem.provenance()
    if (ended := run.interrupted()) is not None:
        go_on = "" if folder is None else f" It is kept in {folder}: `resume` goes on with it."
        text = f"interrupted {ended}; returning those.{go_on}"
        warnings.warn(text, InterruptedWarning, stacklevel=3)
    if tuning is not None:
        run.notes["tuning"] = tuning.record()
        if check:
            some = np.moveaxis(recording.thinned(EXAMINED_DRAWS), 0, 1)
            run.notes["stein"] = examine(problem, network, some).record()
    result = run.result() if output is None else run.saved(Path(output), rules)
    if kept is not None and output is not None and ended is None and kept.num_draws <= draws:
        kept.remove()
    if check and result is not None:
        run.warn_of(result)
    return result  # type: ignore[return-value]


def _kept(
    problem: Problem,
    network: Network,
    folder: Path,
    every: int,
    described: dict[str, Any],
    resume: bool,
) -> Checkpoint:
    """The folder in which a run is kept, if it is the same run."""
    check_count(1, checkpoint_every=every)
    points = np.random.default_rng(0).normal(scale=0.1, size=(2, problem.dim))
    rows = [digest(rows) for rows in problem.shards.values()]
    digests = np.column_stack([rows, *(problem.potentials(point) for point in points)])
    edges = sorted(sorted(map(str, edge)) for edge in network.graph.edges)
    kept = Checkpoint(folder, every, network, digests)
    kept.begin({**described, "sites": network.names, "edges": edges}, resume)
    return kept


def _tuned(
    problem: Problem,
    network: Network,
    start: np.ndarray | None,
    exactness: str,
    seed: int,
    kept: Checkpoint | None,
    progress: bool | None = None,
) -> Tuning:
    """What the agents find, or had found when the run was begun."""
    found = None if kept is None else kept.tuning()
    if found is not None:
        return Tuning.from_parts(*found)
    with Interrupts(network.exchange is None) as interrupts:
        with stage("tuning: mode and scale of the posterior", progress):
            tuning = tune(problem, network, _middle(problem, start), exactness=exactness)
        interrupts.heed()
        watch = functools.partial(counted, wanted=progress)
        tuning = warm_up(problem, tuning, network, seed, watch)
        interrupts.heed()
    if kept is not None:
        kept.save_tuning(*tuning.parts())
    return tuning


def _announcement(problem: Problem, network: Network, sampler: Any, draws: int, chains: int) -> str:
    """What is about to be run, in one line."""
    rows = "" if network.exchange is not None else f"{problem.num_rows.sum():,} rows at "
    how = "the agents tune their sampler" if sampler is None else sampler.card.title
    return (
        f"{rows}{number_of(network.size, 'site')}, {number_of(problem.dim, 'parameter')}, "
        f"{number_of(network.num_edges, 'link')}; {how}; {number_of(chains, 'chain')} of "
        f"{number_of(draws, 'draw')}"
    )


def _schedule(
    draws: int, burn_in: int | None, thin: int | None, sampler: Any, tuning: Tuning | None
) -> Schedule:
    """The rounds of a run, where the caller leaves them to us."""
    cycle = getattr(sampler, "cycle", 1)
    if burn_in is None:
        burn_in = BURN_IN * cycle
    if thin is None and tuning is not None:
        thin = max(1, round(tuning.predicted_rounds_per_draw / 2 / cycle)) * cycle
    return Schedule(draws=draws, burn_in=burn_in, thin=1 if thin is None else thin)


def _matched(problem: Problem, network: Network) -> Network:
    if not isinstance(problem, Problem):
        raise TypeError(f"`problem` must be a starlings.Problem, got {type(problem).__name__}.")
    if not isinstance(network, Network):
        raise TypeError(
            f"`network` must be a starlings.Network, got {type(network).__name__}; "
            "wrap a networkx graph with `starlings.Network(graph)`."
        )
    return network.matched_to(problem.sites)


def check_sampler(problem: Problem, network: Network, sampler: Any) -> None:
    """Refuse what is not a sampler, and a step known to be unstable on this problem."""
    if not isinstance(sampler, tuple(SAMPLERS.values())):
        raise TypeError(
            f"`sampler` must be one of {sorted(c.__name__ for c in SAMPLERS.values())}, such as "
            f"`starlings.DADMMS(rho=5.0)`, got {sampler!r}."
        )
    from starlings.theory import check_stability

    if network.exchange is None:  # else nobody has all curvatures
        check_stability(problem, network, sampler)
    if isinstance(sampler, Metropolis) and network.num_edges == 0 and network.size > 1:
        raise ValueError("Metropolis decides by votes or sums: it needs a network with edges.")
    if isinstance(sampler, Metropolis) and sampler.flood_rounds < network.diameter:
        raise ValueError(
            f"`flood_rounds` must be at least {network.diameter}, the diameter of the network, got "
            f"{sampler.flood_rounds}."
        )


def start_positions(
    problem: Problem, sampler: Any, initial: Any, chains: int, seed: int, dtype: Any
) -> jax.Array:
    """The positions of round 0, (chain, agent, dim), in unconstrained coordinates."""
    in_common = getattr(sampler, "common_start", False)
    shape = (chains, problem.num_agents, problem.dim)
    if initial is None:
        like = jax.ShapeDtypeStruct((problem.dim,), dtype)
        return _standard_normal(like, in_common, chain_keys(seed, chains, problem.held))
    start = _flat(problem, initial)
    try:
        start = np.broadcast_to(start, shape)
    except ValueError:
        raise ValueError(
            f"`initial` must be named values or an array that broadcasts to (chains, agents, dim) "
            f"= {shape}, got {_shape_or_type(initial)}."
        ) from None
    if in_common and np.any(start != start[:, :1]):
        raise ValueError(f"{type(sampler).__name__} needs one `initial` for all agents of a chain.")
    return jnp.asarray(start[:, problem.held], dtype)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _standard_normal(like: Any, in_common: bool, keys: Any) -> jax.Array:
    """Noise of round 0 for every agent of every chain."""
    noise = Round.shared_noise if in_common else Round.private_noise
    draw = jax.vmap(lambda a, n: noise(Round(0, a, n), like), in_axes=(0, None))
    return jax.vmap(draw)(*keys)


def _flat(problem: Problem, initial: Any) -> np.ndarray:
    """Named values or an array as unconstrained positions, of any leading shape."""
    if isinstance(initial, Mapping):
        return np.asarray(problem.unconstrain(initial))
    try:
        start = np.asarray(initial, float)
    except (TypeError, ValueError):
        start = np.full(0, np.nan)
    if start.shape[-1:] not in ((), (1,), (problem.dim,)):
        raise ValueError(
            "`initial` must be named values or an array that broadcasts to (chains, agents, dim), "
            f"with dim = {problem.dim}, got {_shape_or_type(initial)}."
        )
    if not np.all(np.isfinite(start)):
        raise ValueError("`initial` must be finite.")
    return start


def _middle(problem: Problem, start: np.ndarray | None) -> np.ndarray | None:
    """One place from which the search for the mode begins."""
    if start is None:
        return None
    return np.broadcast_to(start, (*start.shape[:-1], problem.dim)).reshape(-1, problem.dim).mean(0)


def _shape_or_type(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else f"shape {shape}"
