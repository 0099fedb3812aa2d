"""The command line of the benchmarks: `python -m benchmarks NAME`, in a clone of the repository.

Everything heavy is imported inside the commands: `--help` is immediate, and the number of threads
is set before the libraries that read it are loaded. Unlike the command line `starlings`, no
benchmark turns the compilation cache on, since some of them measure compilation.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from starlings.cli.application import Quiet, count_option, ends_in_one_line, run
from starlings.system.extras import check_installed

app = typer.Typer(
    help="Measure how fast starlings is, and how right.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Quick = Annotated[bool, typer.Option("--quick", help="Small sizes, to try the benchmark itself.")]
Page = Annotated[
    Path | None, typer.Option(help="A Markdown file for the results.", show_default="no page")
]


def output_option(kind: str = "results") -> typer.models.OptionInfo:
    """The option that names the folder to write to."""
    return typer.Option(help=f"The folder for the {kind}, made if it does not exist.")


def names_option(names: str) -> typer.models.OptionInfo:
    """An option that is a list of names, separated by commas."""
    return typer.Option(help=f"{names}, separated by commas.", show_default="all")


@app.command(epilog="Example: python -m benchmarks speed --quick")
@ends_in_one_line
def speed(
    output: Annotated[Path, output_option("results and the figure")] = Path("output/speed"),
    parts: Annotated[
        str | None,
        names_option("`none`, to show earlier results, or reference, limit, growth, pooled, start"),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, or gpu for the part that needs one.")] = "cpu",
    repeats: Annotated[int, count_option(1, "Repeats of every measurement.")] = 7,
    quick: Quick = False,
    page: Page = None,
    quiet: Quiet = False,
) -> None:
    """Time a round against CVXPY, NumPy, a lower limit and NUTS, and as everything grows."""
    _require("bench", "arviz", "blackjax", "clarabel", "cvxpy", "matplotlib")
    _use_one_thread("OPENBLAS_NUM_THREADS")
    from benchmarks.speed.run import run

    size = {"repeats": repeats, "quick": quick}
    results = run(output, parts=parts, device=device, **size, page=page, progress=not quiet)
    typer.echo(f"Results: {results}")


@app.command(epilog="Example: python -m benchmarks rows --quick")
@ends_in_one_line
def rows(
    output: Annotated[Path, output_option()] = Path("output/rows"),
    parts: Annotated[
        str | None, names_option("`none`, to show earlier results, or study, product")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or gpu.")] = "cpu",
    repeats: Annotated[int, count_option(1, "Repeats of every measurement.")] = 3,
    quick: Quick = False,
    page: Page = None,
    quiet: Quiet = False,
) -> None:
    """Time the draws of a logistic regression with a million rows, and measure their memory."""
    from benchmarks.rows.run import run

    size = {"repeats": repeats, "quick": quick}
    results = run(output, parts=parts, device=device, **size, page=page, progress=not quiet)
    typer.echo(f"Results: {results}")


@app.command(epilog="Example: python -m benchmarks masks --quick")
@ends_in_one_line
def masks(
    repeats: Annotated[int, count_option(1, "Repeats of every measurement.")] = 5,
    quick: Quick = False,
) -> None:
    """Time runs with masked and unmasked messages in turns: 10 sites, 100 parameters."""
    _require("privacy", "cryptography")
    from benchmarks.masks import run

    run(repeats, quick)


@app.command(epilog="Example: python -m benchmarks sites --parts speed,model")
@ends_in_one_line
def sites(
    parts: Annotated[str | None, names_option("Any of speed, chains, kills and model")] = None,
    kills: Annotated[int, count_option(1, "Runs in which processes are killed.")] = 200,
    quick: Quick = False,
) -> None:
    """Time sites that are processes with a relay, kill them, and model a thousand."""
    _require("peers", "websockets", "cryptography")
    from benchmarks.sites.run import run

    run(parts, kills, quick, typer.echo)


@app.command(epilog="Example: python -m benchmarks lossy --quick")
@ends_in_one_line
def lossy(quick: Quick = False) -> None:
    """Compare going on without lost messages with waiting for them: law, and steps in a time."""
    from benchmarks.lossy import run

    run(quick)


@app.command(epilog="Example: python -m benchmarks cluster --quick")
@ends_in_one_line
def cluster(
    output: Annotated[Path, output_option()] = Path("output/cluster"),
    quick: Quick = False,
    page: Page = None,
    quiet: Quiet = False,
) -> None:
    """Time a round on 1, 2 and 4 MPI processes of this machine, and three ways to exchange."""
    _require("mpi", "mpi4py", "pymetis")
    from benchmarks.cluster.run import run

    results = run(output, quick=quick, page=page, progress=not quiet)
    typer.echo(f"Results: {results}")


@app.command(epilog="Example: python -m benchmarks posteriors FOLDER --methods auto,nuts")
@ends_in_one_line
def posteriors(
    folder: Annotated[
        Path, typer.Argument(help="A folder with NAME.json and NAME.reference.json of every case.")
    ],
    output: Annotated[Path, output_option()] = Path("output/posteriors"),
    cases: Annotated[str | None, names_option("Names of posteriors")] = None,
    divisions: Annotated[str | None, names_option("random or sorted")] = None,
    methods: Annotated[
        str | None,
        names_option("Any of auto, hmc, dadmms, paper, dsgld, dsghmc, consensus and nuts"),
    ] = None,
    effective_draws: Annotated[int, count_option(1, "Effective draws of every agent.")] = 4_000,
    chains: Annotated[
        int, count_option(2, "Chains of the methods that do not choose their number.")
    ] = 64,
    seed: Annotated[int, count_option(0, "The same seed gives the same draws.")] = 0,
    minutes: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="X",
            help="Minutes for the search of a method's best settings, and again for its full run.",
        ),
    ] = 20.0,
    force: Annotated[bool, typer.Option("--force", help="Compute finished rows again.")] = False,
    page: Page = None,
    quiet: Quiet = False,
) -> None:
    """Compare the draws of real posteriors with reference draws: starlings, other methods, NUTS."""
    _require("bench", "arviz", "blackjax")
    # XLA on two cores can wait for ever in batches of small factorisations, and OpenBLAS is slower
    # there with several threads.
    _use_one_thread("NPROC", "OPENBLAS_NUM_THREADS")
    from benchmarks.posteriors.run import run

    choices = {"cases": cases, "divisions": divisions, "methods": methods}
    size = {"effective_draws": effective_draws, "chains": chains, "minutes": minutes}
    how = {"seed": seed, "force": force, "page": page, "progress": not quiet}
    typer.echo(f"Results: {run(folder, output, **choices, **size, **how)}")


@app.command(epilog="Example: python -m benchmarks ladder --cases linear")
@ends_in_one_line
def ladder(
    output: Annotated[Path, output_option()] = Path("output/ladder"),
    cases: Annotated[str | None, names_option("Any of linear, logistic and skewed")] = None,
    effective_draws: Annotated[
        int, count_option(1, "Effective draws of every row of the table, approximately.")
    ] = 20_000,
) -> None:
    """Measure what every value of `exactness` costs, and the error of its draws."""
    _require("arviz", "arviz")
    from benchmarks.ladder import run

    typer.echo(f"Results: {run(output, cases=cases, effective_draws=effective_draws)}")


@app.command(epilog="Example: python -m benchmarks versions ../starlings-0.1")
@ends_in_one_line
def versions(
    other: Annotated[Path, typer.Argument(help="A clone of the repository at another version.")],
    cases: Annotated[str | None, names_option("Names of cases")] = None,
    turns: Annotated[int, count_option(1, "Pairs of measurements of every case.")] = 5,
    quiet: Quiet = False,
) -> None:
    """Time a round of this version against a round of another one, in turns."""
    from benchmarks.versions.run import run

    run(other, cases=cases, turns=turns, progress=not quiet)


@app.command(epilog="Example: python -m benchmarks flare --output output/flare")
@ends_in_one_line
def flare(
    output: Annotated[Path, output_option("keys, logs and results")] = Path("output/flare"),
    quiet: Quiet = False,
) -> None:
    """Time studies on NVIDIA FLARE, on the runtime of sites, and in one process."""
    _require("flare", "nvflare", "websockets", "statsmodels")
    from benchmarks.flare import run

    run(output, quiet)


@app.command(epilog="Example: python -m benchmarks field --quick")
@ends_in_one_line
def field(quick: Quick = False) -> None:
    """Time the comparison of all samplers by exact laws, on four graphs."""
    _use_one_thread("OPENBLAS_NUM_THREADS")
    from benchmarks.field import run

    run(quick)


def _require(extra: str, *packages: str) -> None:
    """Raise where one of the packages that an extra installs is missing."""
    check_installed(*packages, purpose="this benchmark", extra=extra)


def _use_one_thread(*variables: str) -> None:
    """Let libraries use one thread each, unless the environment says otherwise."""
    for variable in variables:
        os.environ.setdefault(variable, "1")


if __name__ == "__main__":
    run(app, "python -m benchmarks")
