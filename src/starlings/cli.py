"""The command line. Heavy imports wait inside the commands, so that `--help` is immediate.

A command is a function under `@command`: its errors then end in one line on stderr and exit code 1.
STARLINGS_DEBUG=1 shows the traceback instead. The commands of `starlings bench` are functions under
`@bench_command` that hand their options to benchmarks/NAME/run.py of a clone.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import starlings

if TYPE_CHECKING:
    from rich.table import Table

    from starlings.results import Result

INTERRUPTED = 130

app = typer.Typer(
    help="Decentralised Bayesian inference: every agent draws from the posterior of everybody's "
    "data, talking only to its neighbours.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(
    help="Measure the library; needs a clone of the repository.", no_args_is_help=True
)
app.add_typer(bench, name="bench")


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; warnings stay.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
StudyFile = Annotated[Path, typer.Argument(dir_okay=False, help="A TOML file; see the examples.")]


def _count(least: int, meaning: str, default: str | None = None) -> Any:
    """An option that is a whole number; `default` is for people, where the code has None."""
    return typer.Option(min=least, metavar="N", help=meaning, show_default=default or True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"starlings {starlings.__version__}")
        raise typer.Exit


def run() -> None:
    """The command `starlings`, as a process of its own."""
    try:
        app(prog_name="starlings")
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            # Threads of the compiled program may still compute, and crash an interpreter that ends
            # in its own way; files and locks are closed by now.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


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


def command(function: Callable[..., None], group: typer.Typer = app) -> Callable[..., None]:
    """Make a function a command whose errors end in one line."""

    @functools.wraps(function)
    def guarded(*arguments: Any, **options: Any) -> None:
        _print_what_can_be_printed()
        try:
            with _warnings_in_yellow():
                if group is app:  # measurements decide for themselves
                    importlib.import_module("starlings.compilation_cache").turn_on()
                function(*arguments, **options)
        except (typer.Exit, typer.Abort, BrokenPipeError):  # a reader who has read enough
            raise
        except KeyboardInterrupt:
            _say("Interrupted.", "red")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if os.environ.get("STARLINGS_DEBUG"):
                raise
            from starlings.errors import in_one_line

            _say(in_one_line(error), "red")
            raise typer.Exit(1) from None

    return group.command()(guarded)


bench_command = functools.partial(command, group=bench)


def _print_what_can_be_printed() -> None:
    """A terminal or a file that lacks a letter gets a question mark for it, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _say(text: str, colour: str) -> None:
    """A line for people, on stderr; see no-color.org."""
    typer.secho(text, fg=colour, err=True, color=False if os.environ.get("NO_COLOR") else None)


@contextmanager
def _warnings_in_yellow() -> Iterator[None]:
    def show(message: Warning | str, *_: Any) -> None:
        _say(f"Warning: {message}", "yellow")

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]
        yield


@command
def sample(
    study: StudyFile,
    output: Annotated[
        Path | None,
        typer.Option(
            help="The netCDF file to write.", show_default="that of the study, or STUDY.nc"
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the output if it exists.")
    ] = False,
    draws: Annotated[int | None, _count(1, "Draws kept of each chain.", "1000")] = None,
    chains: Annotated[int | None, _count(1, "Replicas of the whole network.", "4")] = None,
    burn_in: Annotated[int | None, _count(0, "Rounds before the first draw.", "500")] = None,
    thin: Annotated[int | None, _count(1, "Rounds from draw to draw.", "1, or as tuned")] = None,
    seed: Annotated[int | None, _count(0, "Same seed, same draws.", "0")] = None,
    runtime: Annotated[
        str, typer.Option(help="vectorised, or mpi for all processes of an MPI job.")
    ] = "vectorised",
    checkpoint_every: Annotated[
        int | None, _count(1, "Rounds between checkpoints, which are in OUTPUT.run.", "10000")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was interrupted.")
    ] = False,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress and no table; warnings stay.")
    ] = False,
) -> None:
    """Run a study and save its draws.

    Options override the study; the defaults are for what both leave open.
    """
    from starlings.errors import check_choice
    from starlings.outputs import check_output
    from starlings.study import Study
    from starlings.study_run import run_alone, run_on

    check_choice(("vectorised", "mpi"), runtime=runtime)
    cluster = None
    if runtime == "mpi":
        from starlings.runtimes.mpi import Cluster

        cluster = Cluster()
    with cluster or nullcontext():
        plan = Study.read(study)
        target = output if output is not None else plan.output_path()
        if cluster is None or cluster.is_first:
            check_output(target, overwrite, resume, inputs=plan.inputs())
        lengths = {"draws": draws, "chains": chains, "burn_in": burn_in, "thin": thin, "seed": seed}
        settings = plan.run_settings(**lengths, checkpoint_every=checkpoint_every)
        settings |= {"output": target, "overwrite": overwrite, "resume": resume}
        run = run_alone if cluster is None else functools.partial(run_on, cluster)
        result = run(plan, settings, quiet)
    if result is not None and (as_json or not quiet):
        _print_summary(result, target, as_json, quiet)
    if result is not None and result.interrupted is not None:
        raise typer.Exit(INTERRUPTED)


@command
def show(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="A netCDF file of draws.")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the table of a saved result again, how it was made, and whether it can be trusted."""
    from starlings.results import opened

    result = opened(file)
    with result.tree:
        _print_summary(result, file, as_json, quiet)


@command
def samplers(as_json: Json = False) -> None:
    """List the samplers: what they exchange and how they err."""
    from rich.table import Table

    from starlings.samplers import SAMPLERS

    if as_json:
        cards = [{"name": name} | asdict(sampler.card) for name, sampler in SAMPLERS.items()]
        typer.echo(json.dumps(cards, indent=2))
        return
    table = Table(show_lines=True, padding=0)
    for heading in ("name", "exchanged", "floats per neighbour per round", "bias", "reference"):
        table.add_column(heading, overflow="fold")
    for name, sampler in SAMPLERS.items():
        card = sampler.card
        table.add_row(name, card.exchanged, card.size, card.bias, card.reference)
    _print_table(table)


@command
def demo(
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("starlings-demo"),
    quiet: Quiet = False,
) -> None:
    """Show the library at work on a small example."""
    from starlings.demo import run

    run(output, progress=not quiet)


@command
def accuracy(
    output: Annotated[
        Path | None,
        typer.Option(help="The folder for table and figure.", show_default="only print"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer draws: more noise.")] = False,
    quiet: Quiet = False,
) -> None:
    """Compare every agent with pooled NUTS on three real data sets, with nothing set by hand."""
    from starlings.accuracy.run import run

    run(output, quick=quick, progress=not quiet)


@command
def theory(
    study: StudyFile,
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
def calibrate(
    study: StudyFile,
    replications: Annotated[int, _count(1, "How many simulated data sets.")] = 500,
    draws: Annotated[int, _count(1, "True values are ranked among so many.")] = 99,
    thin: Annotated[
        int | None,
        _count(
            1,
            "Rounds from draw to draw.",
            "twice the rounds per draw that tuning predicts, or else 25",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="The folder to write to.", show_default="STUDY-calibration"),
    ] = None,
    seed: Annotated[int, _count(0, "Same seed, same ranks.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Start anew, not where it was.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.")] = False,
) -> None:
    """Simulate a study from its prior and see whether its sampler finds the truth as it should."""
    from rich.console import Console

    from starlings.calibration import calibrate_study, print_report

    result, folder = calibrate_study(
        study,
        output,
        replications=replications,
        draws=draws,
        thin=thin,
        seed=seed,
        force=force,
        progress=not quiet,
    )
    if quiet:
        typer.echo(result.verdict)
        return
    print_report(result, Console(markup=False, highlight=False))
    typer.echo(f"Ranks, figure and table in {folder}")


@command
def paper(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; all if none.")] = None,
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("output/paper"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials, a smaller set.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Compute finished parts again.")] = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce the D-ADMMS paper: its figures, its numbers, and what holds of them."""
    from starlings.experiments.runner import run

    page = run(names, output, quick=quick, force=force, progress=not quiet)
    typer.echo(f"The paper, beside what is true: {page}")


@bench_command
def posteriors(
    folder: Annotated[Path, typer.Argument(help="Holds NAME.json and NAME.reference.json.")],
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("output/bench"),
    cases: Annotated[str | None, typer.Option(help="Names between commas; all if none.")] = None,
    divisions: Annotated[str | None, typer.Option(help="random, sorted or both.")] = None,
    methods: Annotated[str | None, typer.Option(help="Columns; all if none.")] = None,
    effective_draws: Annotated[int, _count(1, "Wanted of every agent.")] = 10_000,
    chains: Annotated[int, _count(2, "Replicas of the whole network.")] = 64,
    seed: Annotated[int, _count(0, "Same seed, same draws.")] = 0,
    minutes: Annotated[
        float, typer.Option(min=0, metavar="X", help="For a search by hand, and for its full run.")
    ] = 20.0,
    force: Annotated[bool, typer.Option("--force", help="Compute finished rows again.")] = False,
    page: Annotated[Path | None, typer.Option(help="A Markdown file to write.")] = None,
    quiet: Quiet = False,
) -> None:
    """Real posteriors with reference draws: this library, others, and NUTS on pooled rows."""
    for threads in ("NPROC", "OPENBLAS_NUM_THREADS"):
        # XLA on two cores can wait for ever in batches of small factorisations, and OpenBLAS is
        # slower with threads there: one thread each, unless somebody said otherwise.
        os.environ.setdefault(threads, "1")
    choices = {"cases": cases, "divisions": divisions, "methods": methods}
    size = {"effective_draws": effective_draws, "chains": chains, "seed": seed}
    how = {"minutes": minutes, "force": force, "page": page, "progress": not quiet}
    results = _benchmark("posteriors").run(folder, output, **choices, **size, **how)
    typer.echo(f"Results: {results}")


@bench_command
def speed(
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("output/speed"),
    parts: Annotated[
        str | None,
        typer.Option(
            help="reference, limit, growth, pooled and start, between commas; or none, to show "
            "what was measured before.",
            show_default="all",
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, or gpu for the part that needs one.")] = "cpu",
    repeats: Annotated[int, _count(1, "Of every measurement.")] = 7,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a trial.")] = False,
    page: Annotated[Path | None, typer.Option(help="A Markdown file to write.")] = None,
    quiet: Quiet = False,
) -> None:
    """How fast: against CVXPY, NumPy, the limit and NUTS; how cost grows; the start; a GPU."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # with more, small batches are slower
    os.environ["STARLINGS_CACHE"] = "off"  # what is compiled here is measured
    how = {"parts": parts, "device": device, "repeats": repeats, "quick": quick, "page": page}
    how["progress"] = not quiet
    typer.echo(f"Results: {_benchmark('speed').run(output, **how)}")


@bench_command
def cluster(
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("output/cluster"),
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a trial.")] = False,
    page: Annotated[Path | None, typer.Option(help="A Markdown file to write.")] = None,
    quiet: Quiet = False,
) -> None:
    """Studies on 1, 2 and 4 MPI processes of this machine, and three ways to exchange."""
    how = {"quick": quick, "page": page, "progress": not quiet}
    typer.echo(f"Results: {_benchmark('cluster').run(output, **how)}")


def _benchmark(name: str) -> Any:
    """The module that runs benchmarks/NAME, from the current folder or around the source tree."""
    places = (Path.cwd(), Path(__file__).resolve().parents[2])
    root = next((p for p in places if (p / "benchmarks" / name / "run.py").is_file()), None)
    if root is None:
        raise FileNotFoundError(
            "the benchmarks are not part of the package; run this in a clone of the repository."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(f"benchmarks.{name}.run")


def _print_table(table: Table) -> None:
    from rich.console import Console

    # A label such as beta[age] is not markup.
    Console(markup=False, highlight=False).print(table)


def _print_summary(result: Result, file: Path, as_json: bool, quiet: bool) -> None:
    """A result as a table and in words, or as JSON."""
    from starlings.progress import stage
    from starlings.summary import Summary

    summary = Summary(result, file)
    with stage("examining the draws", not quiet):
        text = summary.as_json() if as_json else summary.as_text(shutil.get_terminal_size().columns)
    typer.echo(text)
