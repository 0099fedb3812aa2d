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

from starlings.errors import check_choice, check_count
from starlings.network import Network
from starlings.problem import Problem
from starlings.results import Result
from starlings.rounds import Round, chain_keys
from starlings.runtimes import vectorised
from starlings.runtimes.recording import Schedule
from starlings.samplers import SAMPLERS
from starlings.tuning import tune


class InterruptedWarning(UserWarning):
    """A run was ended by Ctrl-C and returns the draws that it had."""


def sample(
    problem: Problem,
    network: Network,
    sampler: Any = None,
    *,
    draws: int = 1000,
    chains: int = 4,
    burn_in: int = 500,
    thin: int = 1,
    seed: int = 0,
    initial: Any = None,
    precision: str = "float64",
    progress: bool | None = None,
) -> Result:
    """Draw from the posterior of everybody's data, at every agent of a network.

    Args:
        problem: the model and the rows of every site.
        network: who talks to whom; nodes are matched to sites by name, or by position where they
            are numbered 0..N-1.
        sampler: `DADMMS(rho=...)` or one of its sisters. By default D-ADMMS, tuned to the problem
            by the agents themselves: see `starlings.tuning`.
        draws: draws kept of each chain.
        chains: independent replicas of the whole network.
        burn_in: rounds dropped before the first draw.
        thin: rounds from one draw to the next.
        seed: the same seed gives the same draws.
        initial: where to start: named values, or an array of unconstrained positions that
            broadcasts to (chain, agent, dim). By default every agent draws its own from N(0, I).
        precision: "float64" or "float32".
        progress: a progress bar; by default where there is a terminal.

    Ctrl-C ends the run early and returns the draws so far.
    """
    schedule = Schedule(draws=draws, burn_in=burn_in, thin=thin)
    check_count(1, chains=chains)
    check_count(0, seed=seed)
    if seed >= 2**63:
        raise ValueError(f"`seed` must be below 2**63, got {seed}.")
    check_choice(("float64", "float32"), precision=precision)
    network = _matched(problem, network)
    tuning = tune(problem, network) if sampler is None else None
    if tuning is not None:
        problem, sampler = tuning.problem(problem), tuning.sampler()
        if initial is not None and not isinstance(initial, Mapping):
            initial = tuning.coordinates(initial)
        if _is_shown(progress):
            print(tuning.summary(), file=sys.stderr)
    check_sampler(problem, network, sampler)
    with jax.enable_x64(precision == "float64"):
        agents = problem.agents(network, np.dtype(precision))
        positions = start_positions(problem, initial, chains, seed, np.dtype(precision))
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
    return result


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


def start_positions(
    problem: Problem, initial: Any, chains: int, seed: int, dtype: Any
) -> jax.Array:
    """The positions of round 0, (chain, agent, dim), in unconstrained coordinates."""
    shape = (chains, problem.num_agents, problem.dim)
    if initial is None:
        like = jax.ShapeDtypeStruct((problem.dim,), dtype)
        keys = chain_keys(seed, chains, problem.num_agents)
        draw = jax.vmap(lambda a, n: Round(0, a, n).private_noise(like), in_axes=(0, None))
        return jax.vmap(draw)(*keys)
    if isinstance(initial, Mapping):
        initial = problem.parameters.unconstrain(initial)
    try:
        start = np.broadcast_to(np.asarray(initial, float), shape)
    except (TypeError, ValueError):
        raise ValueError(
            f"`initial` must be named values or an array that broadcasts to (chains, agents, dim) "
            f"= {shape}, got {_shape_or_type(initial)}."
        ) from None
    if not np.all(np.isfinite(start)):
        raise ValueError("`initial` must be finite.")
    return jnp.asarray(start, dtype)


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
