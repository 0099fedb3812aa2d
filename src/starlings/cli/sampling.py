"""The commands that draw: `sample`, `show` and `samplers`."""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starlings.cli.application import INTERRUPTED, Json, Quiet, StudyFile, command, count_option
from starlings.cli.pages import write_pages

if TYPE_CHECKING:
    from rich.table import Table

    from starlings.results.result import Result
    from starlings.samplers import Sampler

MASKING = {
    "sum": "possible: it reads the sum of its neighbours' messages only",
    "mix": "possible: it reads a weighted sum of its neighbours' messages only",
}
"""What the card of a sampler says of masks, in words."""
PANEL = "Sampling"
"""The heading of these commands in `starlings --help`."""
SIZE_WIDTH = 10
"""Characters in a line about the size of messages: the longest word there is "parameters"."""


@command(PANEL, "starlings sample hospitals.toml --draws 2000 --output hospitals.nc")
def sample(
    study: StudyFile,
    output: Annotated[
        Path | None,
        typer.Option(
            help="The netCDF file to write.",
            show_default="`output` of the study, or STUDY.nc in the current folder",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the output file if it exists.")
    ] = False,
    draws: Annotated[int | None, count_option(1, "Draws recorded in each chain.", "1000")] = None,
    chains: Annotated[
        int | None, count_option(1, "Independent chains.", "the method chooses, or 4")
    ] = None,
    burn_in: Annotated[
        int | None,
        count_option(
            0,
            "Rounds dropped before the first draw; the default is multiplied by the rounds that "
            "the sampler takes for one new position (1 for most).",
            "500",
        ),
    ] = None,
    thin: Annotated[
        int | None,
        count_option(
            1,
            "Rounds from one draw to the next.",
            "1, or half the rounds per effective draw if the agents tune the sampler",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="How draws are made: `weights`, `weights-metropolis`, `hmc`, "
            "`marginal-hmc` (for parameters of a site's own), a one-shot "
            "combination (`consensus`, `parametric`, `nonparametric`, `semiparametric`), "
            "`dadmms`, a rung of its ladder (`coherent`, `half-noise`, `curvature`, `midpoint`, "
            "`metropolis`, `metropolis-vote`), or `auto`: the one with the fewest network rounds.",
            show_default="`method` of the study, or auto",
        ),
    ] = None,
    exactness: Annotated[
        str | None,
        typer.Option(
            help="The older name of --method, for the rungs of the ladder.",
            show_default="`exactness` of the study, or auto",
        ),
    ] = None,
    seed: Annotated[int | None, count_option(0, "The same seed gives the same draws.", "0")] = None,
    privacy: Annotated[
        str | None,
        typer.Option(
            help="`totals` masks all messages, so that nobody learns anything but totals; `none` "
            "sends numbers as they are.",
            show_default="`privacy` of the study, or none",
        ),
    ] = None,
    runtime: Annotated[
        str,
        typer.Option(
            help="Where agents run: `vectorised`, all in this process, or `mpi`, on all processes "
            "that mpirun starts."
        ),
    ] = "vectorised",
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Write a page about the result, too, with what each site would find alone and "
            "with predictive checks (neither if messages are masked), which takes more time.",
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        count_option(1, "Rounds from one checkpoint, in OUTPUT.run, to the next.", "10000"),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted run from its checkpoint."),
    ] = False,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress and no table; warnings stay.")
    ] = False,
) -> None:
    """Run a study and save its draws.

    An option overrides the key of the same name in the study.
    docs/studies.md and `python -m pydoc starlings.study.study` explain sections and keys.
    """
    from starlings.errors import check_choice
    from starlings.results.outputs import RunFiles
    from starlings.study.run import run_locally, run_on
    from starlings.study.study import Study
    from starlings.system.files import check_replaceable

    check_choice(("vectorised", "mpi"), runtime=runtime)
    cluster = None
    if runtime == "mpi":
        from starlings.runtime.mpi.cluster import Cluster

        cluster = Cluster()
    with cluster or nullcontext():
        plan = Study.read(study)
        target = output if output is not None else plan.output_path()
        if cluster is None or cluster.is_first:
            RunFiles(target, overwrite, resume=resume).check(plan.inputs())
            if report is not None:
                check_replaceable(report, overwrite, plan.inputs())
        lengths = {"draws": draws, "chains": chains, "burn_in": burn_in, "thin": thin, "seed": seed}
        how = {"method": method, "exactness": exactness, "privacy": privacy}
        settings = plan.run_settings(**lengths, **how, checkpoint_every=checkpoint_every)
        settings |= {"output": target, "overwrite": overwrite, "resume": resume}
        run = run_locally if cluster is None else functools.partial(run_on, cluster)
        result = run(plan, settings, quiet)
    if report is not None and result is not None:
        result = write_pages(plan, result, target, report, overwrite, quiet)
    if result is not None and (as_json or not quiet):
        print_summary(result, target, as_json, quiet)
    if result is not None and result.interrupted is not None:
        raise typer.Exit(INTERRUPTED)


@command(PANEL, "starlings show hospitals.nc")
def show(
    file: Annotated[
        Path, typer.Argument(dir_okay=False, help="A netCDF file that `starlings sample` wrote.")
    ],
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the table of saved draws, how they were made, and whether they can be trusted."""
    from starlings.results.result import open_result

    result = open_result(file)
    with result.tree:
        print_summary(result, file, as_json, quiet)


@command(PANEL, "starlings samplers dadmms")
def samplers(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A name from the list, or package.module:Class for a sampler of your own.",
            show_default="list all",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List all samplers, or describe one: its messages, its bias and its settings.

    The list has the samplers of this library and those of installed packages.
    """
    from starlings.samplers.names import all_samplers, find_sampler

    if name is None:
        found = all_samplers()
        if as_json:
            _print_json([_record(*item) for item in found.items()])
        else:
            _print_samplers(found)
        return
    sampler = find_sampler(name, folder=Path.cwd())
    if as_json:
        _print_json(_record(name, sampler))
    else:
        _print_card(name, sampler)


def _record(name: str, sampler: type[Sampler]) -> dict[str, Any]:
    """The card of a sampler, its settings and whether it can be tuned, in types that JSON has."""
    from starlings.samplers.names import is_tunable
    from starlings.study.sections import keys_of

    settings = {
        setting: {"is_required": key.is_required, "default": key.default}
        for setting, key in keys_of(sampler).items()
    }
    card = dataclasses.asdict(sampler.card)
    return {"name": name, **card, "settings": settings, "is_tunable": is_tunable(sampler)}


def _print_samplers(found: dict[str, type[Sampler]]) -> None:
    from rich.table import Table

    table = Table(show_lines=True, padding=0)
    table.add_column("name", no_wrap=True)
    table.add_column("exchanged", overflow="fold")
    table.add_column("floats per neighbour per round", overflow="fold", max_width=SIZE_WIDTH)
    for heading in ("bias", "reference"):
        table.add_column(heading, overflow="fold")
    for name, sampler in found.items():
        card = sampler.card
        table.add_row(name, card.exchanged, card.size, card.bias, card.reference)
    _print(table)


def _print_card(name: str, sampler: type[Sampler]) -> None:
    from rich.table import Table

    record, card = _record(name, sampler), sampler.card
    settings = [
        f"{setting} ({'required' if key['is_required'] else 'default ' + repr(key['default'])})"
        for setting, key in record["settings"].items()
    ]
    tuning = "the agents can choose the settings" if record["is_tunable"] else "none: give settings"
    table = Table(show_header=False, show_lines=True, padding=0)
    for heading, cell in {
        "name": name,
        "title": card.title,
        "exchanged": card.exchanged,
        "floats per neighbour per round": card.size,
        "bias": card.bias,
        "masking": MASKING.get(card.masked_as or "", f"not possible: {card.not_masked}"),
        "settings": "\n".join(settings) or "none",
        "tuning": tuning,
        "reference": card.reference,
        "public code": card.public_code or "nothing known",
    }.items():
        table.add_row(heading, cell)
    _print(table)


def _print_json(record: Any) -> None:
    typer.echo(json.dumps(record, indent=2, default=str))


def _print(table: Table) -> None:
    from rich.console import Console

    # Without markup, or a label such as beta[age] would be read as a style.
    Console(markup=False, highlight=False).print(table)


def print_summary(result: Result, file: Path, as_json: bool, quiet: bool) -> None:
    """Print a result as a table and in words, or as JSON."""
    from starlings.results.summary import Summary
    from starlings.system.progress import spinner

    summary = Summary(result, file)
    with spinner("examining the draws", not quiet):
        text = summary.as_json() if as_json else summary.as_text(shutil.get_terminal_size().columns)
    typer.echo(text)
