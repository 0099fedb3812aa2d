"""Every case, division and method against the reference draws: the benchmark `posteriors`."""

from __future__ import annotations

import itertools
import time
from dataclasses import asdict
from pathlib import Path

import jax

from starlings.system.files import check_writable
from starlings.system.progress import print_status

from ..choosing import chosen
from ..tables import wide_console
from .cases import BUILDERS, DIVISIONS, load
from .methods import FAILURES, METHODS
from .page import page_text
from .report import console_tables
from .results import ResultsFile, Row
from .runs import Setting
from .score import score


def run(
    folder: Path,
    output: Path,
    *,
    cases: str | None = None,
    divisions: str | None = None,
    methods: str | None = None,
    effective_draws: int = 4_000,
    chains: int = 64,
    seed: int = 0,
    minutes: float = 20.0,
    force: bool = False,
    page: Path | None = None,
    progress: bool | None = None,
) -> Path:
    """Fill the results file, print the tables, and write the page if one is asked for.

    Args:
        folder: has NAME.json and NAME.reference.json for each case.
        output: the folder of the results file, made if it does not exist.
        cases: names separated by commas, as in `divisions` and `methods`; all of them if None.
        divisions: "random", "sorted" or both.
        methods: columns of the table.
        effective_draws: how many are wanted of every agent and parameter.
        chains: replicas of the network, for methods that do not choose their number.
        seed: the same seed gives the same draws.
        minutes: for the search of the best settings of a method, and again for its full run.
        force: compute rows again that are in the results file.
        page: a Markdown file to write.
        progress: whether to print lines on stderr; None for only on a terminal.
    """
    names = chosen("cases", cases, BUILDERS)
    splits, columns = chosen("divisions", divisions, DIVISIONS), chosen("methods", methods, METHODS)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder of posteriors at {folder}; name one that exists.")
    output.mkdir(parents=True, exist_ok=True)
    if page is not None:
        check_writable(page)
    console, results = wide_console(), ResultsFile(output / "posteriors.json")
    for name, division in itertools.product(names, splits):
        setting = Setting(load(folder, name, division), effective_draws, chains, seed, minutes)
        for method in columns:
            if force or not results.has(name, division, method, effective_draws):
                row = make_row(setting, method)
                results.put(row)
                print_status(_progress(row), progress)
        jax.clear_caches()
    console_tables(results.rows, console)
    if page is not None:
        page.write_text(page_text(results.rows), encoding="utf-8")
    return results.path


def make_row(setting: Setting, method: str) -> Row:
    """One row of the results: figures, or the error that ended the run."""
    case = setting.case
    row: Row = {"case": case.name, "division": case.division, "method": method}
    row |= {"agents": case.problem.num_agents, "dim": case.problem.dim, "wanted": setting.wanted}
    began = time.perf_counter()
    try:
        outcome = METHODS[method](setting)
        row |= asdict(score(case, outcome.draws)) | {"notes": outcome.notes}
    except FAILURES as error:
        row["error"] = " ".join(str(error).split())
    return row | {"seed": setting.seed, "wall_seconds": time.perf_counter() - began}


def _progress(row: Row) -> str:
    what = row.get("error") or (
        f"{row['network_rounds'] or 0:,} network rounds, W2 {row['w2']:.3f}, "
        f"{row['effective_draws']:.0f} effective draws"
    )
    return (
        f"{row['case']}, {row['division']}, {row['method']}: {what} ({row['wall_seconds']:.0f} s)"
    )
