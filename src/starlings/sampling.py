"""`sample`: check everything, run, and give the draws their names back."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.diagnostics import warn_if_untrustworthy
from starlings.errors import check_choice, check_count
from starlings.network import Network
from starlings.problem import Problem
from starlings.results import Result
from starlings.rounds import Round, chain_keys
from starlings.runtimes import vectorised
from starlings.runtimes.recording import Schedule
from starlings.samplers import CADMM, SAMPLERS, Metropolis
from starlings.stein import examine
from starlings.tuning import Tuning, tune
from starlings.tuning.warmup import warm_up

BURN_IN = 500
FEWEST_CHAINS, FEWEST_DRAWS = 4, 500
"""A shorter run of a chosen sampler is a trial, not worth a warning."""


class InterruptedWarning(UserWarning):
    """A run was ended by Ctrl-C and returns the draws that it had."""


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
        progress: a progress bar; by default where there is a terminal.
        check: look at the draws afterwards, and warn if they should not be trusted.

    Ctrl-C ends the run early and returns the draws so far.
    """
    check_count(1, draws=draws, chains=chains, thin=1 if thin is None else thin)
    check_count(0, seed=seed, burn_in=0 if burn_in is None else burn_in)
    if seed >= 2**63:
        raise ValueError(f"`seed` must be below 2**63, got {seed}.")
    check_choice(("float64", "float32"), precision=precision)
    network = _matched(problem, network)
    tuning = None
    if sampler is None:
        start = None if initial is None else _flat(problem, initial)
        tuning = tune(problem, network, _middle(problem, start), exactness=exactness)
        tuning = warm_up(problem, tuning, network, seed)
        problem, sampler = tuning.problem(problem), tuning.sampler
        initial = None if start is None else tuning.coordinates(start)
        if _is_shown(progress):
            print(tuning.summary(), file=sys.stderr)
    schedule = _schedule(draws, burn_in, thin, sampler, tuning)
    check_sampler(problem, network, sampler)
    with jax.enable_x64(precision == "float64"):
        agents = problem.agents(network, np.dtype(precision))
        positions = start_positions(problem, sampler, initial, chains, seed, np.dtype(precision))
        with progress_bar(schedule.num_rounds, progress) as report:
            recording = vectorised.run(sampler, agents, network, positions, seed, schedule, report)
    if recording.count < draws:
        warnings.warn(
            f"interrupted after {recording.count} of {draws} draws; returning those.",
            InterruptedWarning,
            stacklevel=2,
        )
    result = Result.assemble(problem, network, sampler, schedule, seed, precision, recording)
    if tuning is not None:
        result.note("tuning", tuning.record())
    if check:
        _look_at(result, problem, network, tuning, recording)
    return result


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


def _look_at(
    result: Result, problem: Problem, network: Network, tuning: Tuning | None, recording: Any
) -> None:
    """Test the law of tuned draws by Stein's identities, and warn of what is wrong."""
    sizes = result.posterior.sizes
    if tuning is not None:
        positions = np.moveaxis(recording.joined().position, 0, 1)
        result.note("stein", examine(problem, network, positions).record())
    elif sizes["chain"] < FEWEST_CHAINS or sizes["draw"] < FEWEST_DRAWS:
        return
    if result.attrs["sampler"] != CADMM.__name__:  # which draws nothing
        warn_if_untrustworthy(result, stacklevel=4)


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
        keys = chain_keys(seed, chains, problem.num_agents)
        noise = Round.shared_noise if in_common else Round.private_noise
        draw = jax.vmap(lambda a, n: noise(Round(0, a, n), like), in_axes=(0, None))
        return jax.vmap(draw)(*keys)
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
    return jnp.asarray(start, dtype)


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


def _is_shown(progress: bool | None) -> bool:
    return sys.stderr.isatty() if progress is None else progress


@contextlib.contextmanager
def progress_bar(rounds: int, wanted: bool | None) -> Iterator[vectorised.Progress | None]:
    """A bar with rounds, rounds per second and disagreement, or None."""
    if not _is_shown(wanted):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rounds, {task.fields[pace]}/s, disagreement {task.fields[apart]}"),
        Remaining(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("sampling", total=rounds, pace="-", apart="-")

        def report(done: int, apart: float) -> None:
            pace = bar.tasks[0].finished_speed or bar.tasks[0].speed or 0.0
            bar.update(task, completed=done, pace=f"{pace:,.0f}", apart=f"{apart:.3g}")

        yield report
