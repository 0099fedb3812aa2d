"""The commands that check a study, or compare several: `theory`, `calibrate`, `compare`, and
`compare-models`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from starlings.cli.application import Json, Quiet, StudyFile, command, count_option

PANEL = "Checking"
"""The heading of these commands in `starlings --help`."""


@command(PANEL, "starlings theory meters.toml --rho 5")
def theory(
    study: StudyFile,
    rho: Annotated[
        float | None,
        typer.Option(
            help="The penalty of D-ADMMS, a positive number.", show_default="`rho` of the study"
        ),
    ] = None,
) -> None:
    """Print what the theory of D-ADMMS says of a study: constants, conditions, bound and rates."""
    from rich.console import Console

    from starlings.study.study import Study
    from starlings.theory import convergence_report, print_report

    plan = Study.read(study)
    problem = plan.make_problem()
    penalty = rho if rho is not None else plan.sampler.options.get("rho")
    if penalty is None:
        raise ValueError(
            f"{study}: [sampler] has no key `rho`, which the theory needs; give one with --rho."
        )
    network = plan.make_network(problem.sites)
    print_report(convergence_report(problem, network, penalty), Console())


@command(PANEL, "starlings calibrate meters.toml --replications 100")
def calibrate(
    study: StudyFile,
    replications: Annotated[int, count_option(1, "Number of simulated data sets.")] = 500,
    draws: Annotated[int, count_option(1, "Draws among which a true value is ranked.")] = 99,
    thin: Annotated[
        int | None,
        count_option(
            1,
            "Rounds from one draw to the next.",
            "twice the rounds per effective draw that tuning predicts, or 25 without tuning",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="The folder to write to.", show_default="STUDY-calibration"),
    ] = None,
    seed: Annotated[int, count_option(0, "The same seed gives the same ranks.")] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Start again, and delete the ranks of an earlier run.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the verdict.")] = False,
) -> None:
    """Check the sampler of a study on data that are simulated from its prior.

    This is simulation-based calibration: the ranks of true values among
    the draws of every agent have to be uniformly distributed.
    """
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


@command(PANEL, "starlings compare meters.toml --samplers dadmms,dsgld --output comparison.pdf")
def compare(
    study: StudyFile,
    samplers: Annotated[
        str | None,
        typer.Option(
            help="Names that `starlings samplers` lists, or package.module:Class, separated by "
            "commas.",
            show_default="all, and that of the study",
        ),
    ] = None,
    rounds: Annotated[int, count_option(1, "Rounds of exact laws.")] = 10_000,
    chains: Annotated[
        int | None,
        count_option(
            0,
            "Chains that are simulated for every sampler; 0 for none.",
            "256 for samplers whose law is not known",
        ),
    ] = None,
    simulated_rounds: Annotated[int, count_option(1, "Rounds of these chains.")] = 1_000,
    target: Annotated[
        float, typer.Option(help="The distance to reach, in radii of the posterior.")
    ] = 0.05,
    output: Annotated[
        Path | None,
        typer.Option(
            help="A figure (.pdf, .png or .svg), tables (.csv) or everything (.json).",
            show_default="only print",
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the output file if it exists.")
    ] = False,
    seed: Annotated[int, count_option(0, "The same seed gives the same chains.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compare samplers on a study: how far they are from its posterior, and what they cost.

    Where the posterior is Gaussian and the law of a sampler is known, nothing
    is simulated. Every sampler is run with the settings of its publication,
    with the best of a grid that is the same for all, and as tuned by itself,
    as far as it has these.
    """
    from starlings.comparison.samplers import compare as compared
    from starlings.comparison.samplers.study import check_output, samplers_of, write_output
    from starlings.study.study import Study

    plan = Study.read(study)
    if output is not None:
        check_output(output, overwrite, plan.inputs())
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    found = compared(
        problem,
        network,
        samplers_of(plan, samplers),
        rounds=rounds,
        chains=chains,
        simulated_rounds=simulated_rounds,
        target=target,
        seed=seed,
        progress=not quiet,
    )
    if output is not None:
        write_output(found, output)
    typer.echo(found.as_json() if as_json else str(found))


@command(PANEL, "starlings compare-models line.nc curve.nc")
def compare_models(
    files: Annotated[
        list[Path],
        typer.Argument(
            dir_okay=False,
            help="Two or more netCDF files that `starlings sample` wrote with the method weights, "
            "of models of the same rows.",
        ),
    ],
    as_json: Json = False,
) -> None:
    """Compare models of the same rows by their evidence, the marginal likelihood of all rows.

    Printed are log-evidence and its error, the log Bayes factor against the best
    model, and the probability of each model if all are equally probable beforehand.

    Files of other rows are refused, by checksums of the outcomes. Runs with --privacy totals record
    none: there only you know that the rows are the same.
    """
    from rich.console import Console
    from rich.table import Table

    from starlings.comparison.models import compare_models as compare
    from starlings.results.result import open_result

    if len(set(files)) < max(2, len(files)):
        listed = ", ".join(map(str, files))
        raise ValueError(f"name at least two files, each of them once, got {listed}.")
    found = compare({str(file): open_result(file) for file in files})
    if as_json:
        typer.echo(found.to_json(orient="index", indent=2, double_precision=15))
        return
    table = Table("model", *(name.replace("_", " ") for name in found.columns))
    for name, row in found.iterrows():
        table.add_row(str(name), *(f"{value:.3f}" for value in row))
    Console(markup=False, highlight=False).print(table)
