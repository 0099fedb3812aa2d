"""The command line. Heavy imports wait inside the commands, so that `--help` is immediate.

A command is a function under `@command`: its errors then end in one line on stderr and exit code 1.
STARLINGS_DEBUG=1 shows the traceback instead.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import starlings

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from starlings.results import Result

INTERRUPTED = 130

app = typer.Typer(
    help="Decentralised Bayesian inference: every agent draws from the posterior of everybody's "
    "data, talking only to its neighbours.",
    no_args_is_help=True,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"starlings {starlings.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Options that come before a command."""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command whose errors end in one line."""

    @functools.wraps(function)
    def guarded(*arguments: Any, **options: Any) -> None:
        try:
            with _warnings_in_yellow():
                function(*arguments, **options)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            typer.secho("Interrupted.", fg="red", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if os.environ.get("STARLINGS_DEBUG"):
                raise
            typer.secho(_in_one_line(error), fg="red", err=True)
            raise typer.Exit(1) from None

    return app.command()(guarded)


def _in_one_line(error: Exception) -> str:
    from starlings.errors import DivergenceError

    text = " ".join(str(error).split())
    if isinstance(error, (ValueError, TypeError, OSError, ImportError, DivergenceError)):
        return f"Error: {text}"
    return f"Unexpected {type(error).__name__}: {text} (STARLINGS_DEBUG=1 shows where)"


@contextmanager
def _warnings_in_yellow() -> Iterator[None]:
    def show(message: Warning | str, *_: Any) -> None:
        typer.secho(f"Warning: {message}", fg="yellow", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


@command
def sample(
    study: Annotated[Path, typer.Argument(help="A TOML file; see the examples.")],
    output: Annotated[
        Path | None,
        typer.Option(
            help="The netCDF file to write.", show_default="that of the study, or STUDY.nc"
        ),
    ] = None,
    draws: Annotated[int | None, typer.Option(help="Draws kept of each chain.")] = None,
    chains: Annotated[int | None, typer.Option(help="Replicas of the whole network.")] = None,
    burn_in: Annotated[int | None, typer.Option(help="Rounds before the first draw.")] = None,
    thin: Annotated[int | None, typer.Option(help="Rounds from draw to draw.")] = None,
    seed: Annotated[int | None, typer.Option(help="Same seed, same draws.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar and no table.")] = False,
) -> None:
    """Run a study and save its draws. Options override the study."""
    from starlings.results import check_writable
    from starlings.sampling import sample as draw
    from starlings.study import Study

    plan = Study.read(study)
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    sampler = plan.make_sampler()
    target = check_writable(output if output is not None else plan.output_path())
    settings = plan.run_settings(draws=draws, chains=chains, burn_in=burn_in, thin=thin, seed=seed)
    result = draw(problem, network, sampler, **settings, progress=False if quiet else None)
    result.save(target)
    if not quiet:
        _print_table(summary_table(result))
        typer.echo(f"{run_summary(result)}\nDraws saved to {target}")


@command
def samplers() -> None:
    """List the samplers: what they exchange and how they err."""
    from rich.table import Table

    from starlings.samplers import SAMPLERS

    table = Table(show_lines=True)
    for heading in ("name", "exchanged", "floats per neighbour per round", "bias", "reference"):
        table.add_column(heading, overflow="fold")
    for name, sampler in SAMPLERS.items():
        card = sampler.card
        floats = f"{card.floats_per_parameter} per parameter"
        table.add_row(name, card.exchanged, floats, card.bias, card.reference)
    _print_table(table)


@command
def demo(
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("starlings-demo"),
) -> None:
    """Show the library at work on a small example."""
    from starlings.demo import run

    run(output)


@command
def theory(
    study: Annotated[Path, typer.Argument(help="A TOML file; see the examples.")],
    rho: Annotated[float | None, typer.Option(help="The penalty instead of the study's.")] = None,
) -> None:
    """Print what the paper's theory says of a study: constants, condition, bound and rates."""
    from rich.console import Console

    from starlings.study import Study
    from starlings.theory import convergence_report, print_report

    plan = Study.read(study)
    problem = plan.make_problem()
    penalty = rho if rho is not None else getattr(plan.make_sampler(), "rho", None)
    if penalty is None:
        raise ValueError("the study names no sampler with a `rho`; give one with --rho.")
    network = plan.make_network(problem.sites)
    print_report(convergence_report(problem, network, penalty), Console())


@command
def paper(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; all if none.")] = None,
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("output/paper"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials, a smaller set.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Compute finished parts again.")] = False,
) -> None:
    """Reproduce the D-ADMMS paper: its figures, its numbers, and what holds of them."""
    from starlings.experiments.runner import run

    page = run(names, output, quick=quick, force=force)
    typer.echo(f"The paper, beside what is true: {page}")


def _print_table(table: Table) -> None:
    from rich.console import Console

    # A label such as beta[age] is not markup.
    Console(markup=False, highlight=False).print(table)


def summary_table(result: Result) -> Table:
    """One line per parameter entry, over all agents, chains and draws."""
    import numpy as np
    from rich.table import Table

    table = Table()
    table.add_column("parameter", overflow="fold")
    for heading in ("mean", "sd", "5 %", "95 %", "agents' means apart (sd)"):
        table.add_column(heading, justify="right", overflow="fold")
    for name, draws in _entries(result):
        spread = draws.std()
        means = draws.mean(axis=(0, 1))
        apart = np.ptp(means) / spread if spread > 0 else 0.0
        numbers = (draws.mean(), spread, *np.quantile(draws, (0.05, 0.95)))
        table.add_row(name, *(f"{number:.4g}" for number in numbers), f"{apart:.2g}")
    return table


def _entries(result: Result) -> Iterator[tuple[str, np.ndarray]]:
    """Every scalar entry by name, with its draws of dimensions (chain, draw, agent)."""
    from starlings.diagnostics import entry_names

    for name, variable in result.posterior.items():
        flat = variable.values.reshape(*variable.shape[:3], -1)
        for index, entry in enumerate(entry_names(str(name), variable)):
            yield entry, flat[..., index]


def run_summary(result: Result) -> str:
    """What the run was, how far the agents are apart, and what they sent."""
    sizes, stats = result.posterior.sizes, result.sample_stats
    last = stats.isel(chain=0, draw=-1)
    return (
        f"{sizes['chain']} chains of {sizes['draw']} draws at {sizes['agent']} agents\n"
        f"Disagreement {float(stats.disagreement.mean()):.3g}, the root mean square distance of "
        "the agents from their average\n"
        f"Each agent sent {_range(last.messages_sent.values)} messages and "
        f"{_range(last.bytes_sent.values)} bytes in each chain"
    )


def _range(values: np.ndarray) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
