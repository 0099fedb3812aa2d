"""The commands that show how a site is doing: `status` and `dashboard`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from starlings.cli.application import command

PANEL = "Several organisations"
"""The heading of these commands in `starlings --help`."""

SiteFolder = Annotated[
    Path,
    typer.Argument(file_okay=False, help="The folder of the site, such as Ashby-site."),
]


@command(PANEL, "starlings status Ashby-site --watch")
def status(
    folder: SiteFolder,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it until the run is done, or Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Show whether the run of a site advances, who is waited for, and how its links are.

    A site that has stopped ends this command with exit code 1.
    """
    from rich.console import Console

    from starlings.sites import status_lines
    from starlings.sites.status_view import snapshot

    if watch and as_json:
        raise ValueError("choose one of --watch and --json.")
    if watch:
        status_lines.watch(folder, Console(highlight=False))
        return
    found = snapshot(folder)
    lines = [json.dumps(found, indent=2)] if as_json else status_lines.status_lines(found)
    typer.echo("\n".join(lines))
    if found["view"]["level"] == "stopped":
        raise typer.Exit(1)


@command(PANEL, "starlings dashboard Ashby-site --port 8600")
def dashboard(
    folder: SiteFolder,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, metavar="N", help="The port.", show_default="one that is free"
        ),
    ] = 0,
) -> None:
    """Show how a site is doing on a page for a browser on this machine, until Ctrl-C.

    The page can be opened on this machine only, by every user of it. Nothing can
    be done by it: a site is not controlled from elsewhere.
    """
    from starlings.sites.dashboard import serve

    serve(folder, port, lambda url: typer.echo(f"Open {url} on this machine; Ctrl-C ends it."))
