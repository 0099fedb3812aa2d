"""Run every case and division with nothing set by hand, and compare with the reference.

Usage: python -m benchmarks.posteriors.run FOLDER --cases nes_logit --output results.json
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

import starlings as st
from starlings.errors import DivergenceError, StabilityError
from starlings.tuning import TuningError, tune

from .cases import BUILDERS, DIVISIONS, Case, load
from .score import score

FAILURES = (TuningError, DivergenceError, StabilityError)

COLUMNS = {
    "mean_error": ("mean", ".3f"),
    "sd_ratio_least": ("sd min", ".3f"),
    "sd_ratio_most": ("sd max", ".3f"),
    "w2": ("W2", ".3f"),
    "mahalanobis": ("Mahal.", ".3f"),
    "eigenvalue_least": ("eig min", ".3f"),
    "eigenvalue_most": ("eig max", ".3f"),
    "effective_draws": ("ESS", ".0f"),
    "r_hat": ("R-hat", ".3f"),
    "rounds_per_effective_draw": ("rounds/ESS", ".1f"),
    "bytes_per_effective_draw": ("bytes/ESS", ".0f"),
    "predicted_w2": ("pred. W2", ".3f"),
    "step": ("step", ".3f"),
    "seconds": ("s", ".0f"),
}


def main() -> None:
    """Read the command line, run, print and write."""
    options = parse()
    rows = []
    for name in options.cases:
        for division in options.divisions:
            rows.append(run_case(options, name, division))
            options.output.write_text(json.dumps(rows, indent=1) + "\n")
    Console(width=200).print(table(rows))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="holds NAME.json and NAME.reference.json")
    parser.add_argument("--cases", type=listed(BUILDERS), default=list(BUILDERS))
    parser.add_argument("--divisions", type=listed(DIVISIONS), default=list(DIVISIONS))
    parser.add_argument("--draws", type=int, default=2500, help="per chain")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--thin", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True, help="a JSON file to write")
    return parser.parse_args()


def listed(choices: Any) -> Any:
    """A parser of names between commas."""

    def read(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in choices]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown} not among {list(choices)}")
        return names

    return read


def run_case(options: argparse.Namespace, name: str, division: str) -> dict[str, Any]:
    """One row of the table: figures, or the error that ended the run."""
    case = load(options.folder, name, division)
    row: dict[str, Any] = {"case": name, "division": division, "agents": case.problem.num_agents}
    began = time.perf_counter()
    try:
        result = draw(case, options)
        tuning = json.loads(result.attrs["tuning"])
        row |= asdict(score(case, result)) | {"predicted_w2": tuning["predicted_w2"]}
        row |= {key: tuning[key] for key in ("step", "rho", "newton_iterations", "messages")}
    except FAILURES as error:
        row["error"] = f"{type(error).__name__}: {error}"
    return row | {"seconds": time.perf_counter() - began}


def draw(case: Case, options: argparse.Namespace) -> st.Result:
    """Tuned draws on a ring, with no hyper-parameter."""
    network = st.Network.ring(case.problem.num_agents)
    schedule = {key: getattr(options, key) for key in ("draws", "chains", "thin", "seed")}
    if case.model.start is None:
        return st.sample(case.problem, network, progress=False, **schedule)
    tuning = tune(case.problem, network, start=start_of(case))
    problem = tuning.problem(case.problem)
    result = st.sample(problem, network, tuning.sampler(), progress=False, **schedule)
    result.note("tuning", tuning.record())
    return result


def start_of(case: Case) -> np.ndarray:
    """Where the search for the mode begins, as a flat unconstrained vector."""
    with jax.enable_x64(True):
        return np.asarray(case.problem.parameters.unconstrain(case.model.start))


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows for people; a failed case shows the first words of its error."""
    grid = Table("case", "division", *(title for title, _ in COLUMNS.values()))
    for row in rows:
        if "error" in row:
            grid.add_row(row["case"], row["division"], " ".join(row["error"].split()[:12]))
        else:
            cells = [_cell(row[key], form) for key, (_, form) in COLUMNS.items()]
            grid.add_row(row["case"], row["division"], *cells)
    return grid


def _cell(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


if __name__ == "__main__":
    main()
