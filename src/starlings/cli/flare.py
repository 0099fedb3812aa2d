"""The commands for NVIDIA FLARE: a study as a job of an engine that organisations have already."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from starlings.cli.application import Quiet, StudyFile, command, command_group
from starlings.cli.sites import PANEL, Yes

if TYPE_CHECKING:
    from starlings.engines.job import Job

flare_group = command_group("flare", PANEL, "Run a study as a job of NVIDIA FLARE.")

JobFolder = Annotated[
    Path, typer.Argument(exists=True, file_okay=False, help="The folder of the job, such as job/.")
]
Workspace = Annotated[
    Path,
    typer.Option(
        exists=True, file_okay=False, help="The folder that FLARE has for this site or the server."
    ),
]


@command(PANEL, "starlings flare export rand.toml --output job/", flare_group)
def export(
    study: StudyFile,
    output: Annotated[Path, typer.Option(file_okay=False, help="A new folder for the job.")],
    patience: Annotated[
        float, typer.Option(min=1.0, help="Seconds for which a site may be out of reach.")
    ] = 60.0,
) -> None:
    """Write the folder of a job, for `nvflare job submit`.

    The job has no rows and no path: where the rows of a site are, that site
    says in a file of its own. Messages are masked unless the study says
    `privacy = "none"` in its section [run].
    """
    from starlings.engines.flare.export import export
    from starlings.engines.job import Job

    job = Job.of_study(study)
    export(job, output, patience)
    _print_job(job)
    typer.echo(f"\nThe job is in {output}. Send it to every site; each of them reads it and runs\n")
    typer.echo(f"    starlings flare accept {output} --workspace ... --data ... --results ...")


@command(PANEL, "starlings flare accept job/ --workspace Ashby/ --data ashby.csv", flare_group)
def accept(
    job: JobFolder,
    workspace: Workspace,
    data: Annotated[
        Path,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The rows of this site: a table, or a .toml file that names one.",
        ),
    ],
    results: Annotated[
        Path, typer.Option(file_okay=False, help="The folder for the draws of this site.")
    ] = Path("results"),
    yes: Yes = False,
) -> None:
    """Let a site take part in a job, after showing what it does.

    This writes `local/starlings.toml` in the workspace of the site, and adds our
    class to those that FLARE allows there. A job that is changed afterwards is refused.
    """
    from starlings.engines.flare.export import read_job
    from starlings.engines.flare.workspace import add_settings, allow

    found = read_job(job)
    _print_job(found)
    if not yes:
        typer.confirm("\nShall this site take part?", abort=True)
    file = add_settings(workspace, found, data, results)
    typer.echo(f"\n{file}: rows in {data}, draws to {results}")
    typer.echo(f"{workspace / 'local' / 'resources.json'}: jobs may name {allow(workspace)}")


@command(PANEL, "starlings flare allow --workspace server/", flare_group)
def allow(workspace: Workspace) -> None:
    """Let jobs name our class at the server, or at a site: FLARE refuses what is not listed."""
    from starlings.engines.flare import workspace as workspaces

    name = workspaces.allow(workspace)
    typer.echo(f"{workspace / 'local' / 'resources.json'}: jobs may name {name}")


@command(PANEL, "starlings flare simulate rand.toml --output simulation/", flare_group)
def simulate(
    study: StudyFile,
    output: Annotated[
        Path, typer.Option(file_okay=False, help="A new folder for keys, logs and results.")
    ] = Path("simulation"),
    quiet: Quiet = False,
) -> None:
    """Run a study as a job of FLARE, with a server and all its sites on this machine.

    They are processes of their own, with certificates and mutual TLS, and listen
    on this machine only.
    """
    from starlings.engines.flare.simulation import simulate
    from starlings.system.progress import Progress

    found = simulate(study, output, Progress(not quiet))
    for site, file in found.results.items():
        typer.echo(f"{site:12} {file}")
    typer.echo(
        f"After the submission of the job: {found.seconds_to_results:.1f} s to the results, "
        f"{found.seconds_to_end:.1f} s to its end."
    )


def _print_job(job: Job) -> None:
    from starlings.engines.job import in_words

    for name, text in in_words(job):
        lines = textwrap.wrap(text, 86) or [""]
        typer.echo("\n".join(f"{name if k == 0 else '':10}{one}" for k, one in enumerate(lines)))
