"""The commands of a run between organisations: taking part, and the relay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from starlings.cli.application import command
from starlings.cli.sites import PANEL, Folder, KitFile


@command(PANEL, "starlings join kits/Ashby.zip --data ashby.csv --output ashby.nc")
def join(
    kit: KitFile,
    data: Annotated[
        Path,
        typer.Option(
            dir_okay=False,
            help="The rows of this site: a .csv or .parquet file, or a .toml file that names one.",
        ),
    ],
    output: Annotated[
        Path, typer.Option(dir_okay=False, help="The file for the draws of this site.")
    ],
    folder: Folder = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the output file if it exists.")
    ] = False,
    relay: Annotated[
        list[str] | None,
        typer.Option(
            help="The address of a relay, wss://NAME; may be repeated.",
            show_default="as in the trial",
        ),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(help="An HTTP proxy, http://NAME:PORT.", show_default="HTTPS_PROXY, or none"),
    ] = None,
    relay_authority: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Who may have signed the certificate of the relay (PEM).",
            show_default="whom this machine trusts",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            help="Where this site listens, as host:port, if sites talk directly.",
            show_default="as in the trial",
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            help="The name of a site that does not come back; may be repeated. All other sites "
            "have to say the same.",
            show_default="all take part",
        ),
    ] = None,
    delay: Annotated[
        float,
        typer.Option(min=0.0, help="Seconds by which everything is sent too late, to rehearse."),
    ] = 0.0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress and no table; warnings stay.")
    ] = False,
) -> None:
    """Take part in a run between organisations, and save the draws of this site.

    It may be stopped at any moment, in any way; the same command goes on where it
    was. Every site gets its own draws, and nobody else's.
    """
    from starlings.cli.sampling import print_summary
    from starlings.sites.joining import join
    from starlings.sites.site import Connection, address

    listens = None if listen is None else address(listen)
    connection = Connection(relay or (), proxy, relay_authority, False, listens, delay)
    result = join(
        kit,
        data,
        output,
        folder=folder,
        overwrite=overwrite,
        connection=connection,
        progress=not quiet,
        without=without or (),
    )
    if not quiet:
        print_summary(result, output, as_json=False, quiet=False)


@command(PANEL, "starlings relay --port 443 --certificate relay.pem --key relay.key")
def relay(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")],
    host: Annotated[str, typer.Option(help="The address at which it listens.")] = "0.0.0.0",
    certificate: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="The relay's own certificate (PEM), for wss://."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(dir_okay=False, help="The private key of the certificate (PEM).")
    ] = None,
) -> None:
    """Run a relay, through which sites reach each other.

    It can neither read nor alter what they say, and has no state: it may be stopped
    and started at any moment.
    """
    from starlings.runtime.peers.relay import run

    def ready(found: int) -> None:
        typer.echo(f"the relay listens on {host}:{found}")

    run(host, port, certificate, key, ready=ready)


@command(PANEL, "starlings rehearse trial.toml --data rows/ --kills 2")
def rehearse(
    trial: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The trial file.")],
    data: Annotated[
        Path,
        typer.Option(
            exists=True, file_okay=False, help="A folder with the rows of each site, as SITE.csv."
        ),
    ],
    output: Annotated[
        Path, typer.Option(file_okay=False, help="A new folder for keys, kits and results.")
    ] = Path("rehearsal"),
    kills: Annotated[
        int, typer.Option(min=0, help="Processes that are killed on the way, and start again.")
    ] = 0,
    delay: Annotated[
        float, typer.Option(min=0.0, help="Seconds by which every message is late, each way.")
    ] = 0.015,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Run all sites of a trial and a relay on this machine, as they would run apart.

    Every site is a process of its own, with a real certificate and real TLS. The
    rows may be made up: what is tried is the trial file, and what a run takes.
    """
    from starlings.sites.rehearsal import rehearsed
    from starlings.system.progress import Progress

    for line in rehearsed(trial, data, output, kills, delay, Progress(not quiet)):
        typer.echo(line)
