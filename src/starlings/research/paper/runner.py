"""From names of experiments to a folder: tables, figures, the claims, and a page of all that.

An experiment is finished when the folder has its table and a fingerprint of what made it: its name,
the source of its module, the settings, the seed and the version. Finished experiments are not
computed again, so that a run that was interrupted goes on where it was.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from starlings._version import __version__
from starlings.research.paper import page, registry
from starlings.research.paper.claims_table import claims_page
from starlings.research.paper.experiment import Experiment, Report, Settings
from starlings.research.paper.style import figure_style, save_figure
from starlings.system.progress import Report as BarReport
from starlings.system.progress import print_status, progress_bar

DIGITS = "%.9g"
"""The format of numbers in the saved tables."""


def run(
    names: Sequence[str] | None = None,
    output: Path | str = Path("output/paper"),
    *,
    quick: bool = False,
    force: bool = False,
    seed: int = 10,
    progress: bool | None = None,
) -> Path:
    """Make the figures of the paper and return the path of the page that shows them.

    Args:
        names: which experiments; all of them if None.
        output: the folder, made if it does not exist.
        quick: fewer trials and, without names, a smaller set.
        force: compute finished parts again.
        seed: of the trials; the data have their own.
        progress: bars on a terminal, lines elsewhere; by default only on a terminal.
    """
    settings, folder = Settings(quick=quick, seed=seed), Path(output)
    chosen = registry.select(names, quick)
    if quick:
        _refuse_full_run(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for experiment in chosen:
        make(experiment, settings, folder, progress, force)
    return write_summary(settings, folder)


def make(
    experiment: Experiment,
    settings: Settings,
    folder: Path,
    progress: bool | None,
    force: bool = False,
) -> None:
    """Compute an experiment's table unless it is finished, and draw what is missing."""
    if force or not is_finished(experiment, settings, folder):
        _forget(experiment, folder)
        print_status(f"{experiment.name} ...", progress)
        with pieces_bar(experiment.name, progress) as report:
            table = experiment.compute(settings, report)
        table.to_csv(_file(experiment, folder, "csv"), index=False, float_format=DIGITS)
        _file(experiment, folder, "json").write_text(_fingerprint(experiment, settings))
    draw_missing(experiment, folder)
    print_status(f"{experiment.name}: done", progress)


def draw_missing(experiment: Experiment, folder: Path) -> None:
    """Draw the figure and the film that are not there, from the saved table."""
    stem = folder / experiment.name
    there = {kind for kind in ("png", "svg", "gif") if _file(experiment, folder, kind).exists()}
    if not there >= {"png", "svg"}:
        with figure_style():
            figure = experiment.draw(read_table(experiment, folder))
        save_figure(figure, stem)
    if experiment.film is not None and "gif" not in there:
        experiment.film(read_table(experiment, folder), stem)


def is_finished(experiment: Experiment, settings: Settings, folder: Path) -> bool:
    """Whether the folder has the table that these settings would make."""
    table, path = (_file(experiment, folder, kind) for kind in ("csv", "json"))
    wanted = _fingerprint(experiment, settings)
    return table.exists() and path.exists() and path.read_text() == wanted


def read_table(experiment: Experiment, folder: Path) -> pd.DataFrame:
    """The saved table."""
    return pd.read_csv(_file(experiment, folder, "csv"), float_precision="round_trip")


def write_summary(settings: Settings, folder: Path) -> Path:
    """The claims, judged from all finished tables, and the page."""
    finished = [e for e in registry.experiments().values() if is_finished(e, settings, folder)]
    tables = {e.name: read_table(e, folder) for e in finished}
    judged = registry.judge_all(tables)
    judged.to_csv(folder / "claims.csv", index=False)
    (folder / "claims.md").write_text(claims_page(judged, settings), encoding="utf-8")
    return page.write(folder, finished, tables, judged, settings)


def _forget(experiment: Experiment, folder: Path) -> None:
    for kind in ("json", "csv", "png", "svg", "gif"):
        _file(experiment, folder, kind).unlink(missing_ok=True)


def _refuse_full_run(folder: Path) -> None:
    """A quick run would write over the tables of a full one."""
    paths = [_file(experiment, folder, "json") for experiment in registry.experiments().values()]
    if any(path.exists() and not json.loads(path.read_text())["quick"] for path in paths):
        raise ValueError(
            f"`output` {str(folder)!r} holds a full run, which a quick one would write over. "
            "Choose another folder."
        )


def _file(experiment: Experiment, folder: Path, kind: str) -> Path:
    return folder / f"{experiment.name}.{kind}"


def _source_hash(experiment: Experiment) -> str:
    compute: Any = experiment.compute
    while isinstance(compute, functools.partial):
        compute = compute.func
    source = inspect.getsource(sys.modules[compute.__module__])
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _fingerprint(experiment: Experiment, settings: Settings) -> str:
    made_by: dict[str, Any] = {
        "experiment": experiment.name,
        "quick": settings.quick,
        "trials": settings.trials,
        "seed": settings.seed,
        "version": __version__,
        "source": _source_hash(experiment),
    }
    return json.dumps(made_by, indent=2) + "\n"


@contextlib.contextmanager
def pieces_bar(name: str, wanted: bool | None) -> Iterator[Report]:
    """A context with a report for one experiment: a bar, opened when it reports how many pieces.

    An experiment of a single piece has no bar.
    """
    with contextlib.ExitStack() as opened:
        bars: dict[int, BarReport | None] = {}

        def report(done: int, total: int) -> None:
            if total > 1 and total not in bars:
                opened.close()  # a terminal shows one bar at a time
                bars[total] = opened.enter_context(progress_bar(name, total, wanted, "pieces"))
            bar = bars.get(total)
            if bar is not None:
                bar(done)

        yield report
