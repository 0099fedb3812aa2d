"""The commands that repeat comparisons: `demo`, `accuracy`, `paper` and `field`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from starlings.cli.application import Quiet, app, command, ends_in_one_line

PANEL = "Research"
"""The heading of these commands in `starlings --help`."""


@command(PANEL, "starlings demo --output starlings-demo")
def demo(
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("starlings-demo"),
    quiet: Quiet = False,
) -> None:
    """Show the library at work on a small example with real data."""
    from starlings.research.demo.run import run

    run(output, progress=not quiet)


@command(PANEL, "starlings accuracy --quick")
def accuracy(
    output: Annotated[
        Path | None,
        typer.Option(help="The folder for table and figure.", show_default="only print"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer draws, hence larger Monte Carlo errors.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Compare tuned agents with NUTS on the pooled rows of three real data sets."""
    from starlings.research.accuracy.run import run

    run(output, quick=quick, progress=not quiet)


@command(PANEL, "starlings paper --quick")
def paper(
    names: Annotated[
        list[str] | None, typer.Argument(help="The experiments to run.", show_default="all")
    ] = None,
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("output/paper"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer trials, and a smaller data set.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Run experiments again that are finished.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce the D-ADMMS paper: its figures, its numbers, and which of its claims hold."""
    from starlings.research.paper.runner import run

    page = run(names, output, quick=quick, force=force, progress=not quiet)
    typer.echo(f"The claims of the paper, and what was found: {page}")


@command(PANEL, "starlings field linear-ring-5")
def field(
    names: Annotated[
        list[str] | None, typer.Argument(help="The cases to compute.", show_default="all")
    ] = None,
    output: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("output/field"),
    samplers: Annotated[
        str | None,
        typer.Option(help="Names of samplers, separated by commas.", show_default="all"),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Short curves, by exact laws only.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Compute cases again that are finished.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Compare all samplers on the same nine posteriors: distance, messages and gradients."""
    from starlings.research.field.run import run

    asked = None if samplers is None else [name.strip() for name in samplers.split(",")]
    how = {"samplers": asked, "quick": quick, "force": force}
    folder = run(names, output, **how, progress=not quiet)  # type: ignore[arg-type]
    typer.echo(f"Tables and figures: {folder}")


@app.command(hidden=True, context_settings={"ignore_unknown_options": True})
@ends_in_one_line
def bench(
    arguments: Annotated[list[str] | None, typer.Argument(help="What followed `bench`.")] = None,
) -> None:
    """Say where the benchmarks of version 0.1 are now."""
    new = " ".join(["python -m benchmarks", *(arguments or ["--help"])])
    raise ValueError(
        f"`starlings bench` is now `{new}`, in a clone of the repository: benchmarks are not part "
        "of the installed package."
    )
