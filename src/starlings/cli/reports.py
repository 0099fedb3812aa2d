"""The command that writes a page about a result: `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from starlings.cli.application import command
from starlings.cli.sampling import PANEL


@command(PANEL, "starlings report hospitals.nc --output report.html")
def report(
    file: Annotated[
        Path, typer.Argument(dir_okay=False, help="A netCDF file that `starlings sample` wrote.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            help="The HTML file to write.", show_default="FILE.html in the current folder"
        ),
    ] = None,
    title: Annotated[
        str | None,
        typer.Option(help="The title of the page.", show_default="the outcome and the sites"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the output file if it exists.")
    ] = False,
) -> None:
    """Write one page about a result, for people who have never heard of Markov chains.

    The page is a single HTML file that can be sent by e-mail and printed. It
    fetches nothing, and runs no script.
    """
    from starlings.results.result import open_result

    target = output if output is not None else Path(f"{file.stem}.html")
    result = open_result(file)
    with result.tree:
        result.report(target, title, overwrite)
    typer.echo(f"Report written to {target}")
