"""Time studies on NVIDIA FLARE, on the runtime of sites, and in one process, on this machine.

The first study is the RAND health insurance experiment at its six sites. The others have three
small sites, and are there for their calls: sums over all sites, or rounds with messages to
neighbours. FLARE has its mutual TLS, and the runtime of sites its own and a relay, without delay.
Everything is masked. Times have compilation in them; on FLARE they are from the submission of the
job to the last result, on the runtime of sites from the moment when the last one had joined.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from starlings.engines.flare.deployment import SERVER
from starlings.engines.flare.simulation import simulate
from starlings.research.demo.data import PRIOR_STD
from starlings.research.rehearsal import NAMES, OUTCOME, site_tables
from starlings.sites.rehearsal import Rehearsal
from starlings.sites.status_reader import read_status
from starlings.study.run import run_locally
from starlings.study.study import Study
from starlings.system.progress import Progress

TYPICAL = re.compile(r"calls now (\d+), typical ([0-9.]+) ms")
"""What the hub says of its calls."""
SAMPLER = '[sampler]\nname = "dadmms"\nrho = 20.0\n'


@dataclass(frozen=True)
class Case:
    """A study, and the rows of each site."""

    name: str
    tables: Mapping[str, pd.DataFrame]
    model: str
    """Further lines of [model]."""
    run: str
    """The last lines: [run], and before it what else there is."""

    def text(self, head: str) -> str:
        """The text of the study, with `head` in front of [model]."""
        *covariates, outcome = next(iter(self.tables.values())).columns
        return (
            f'{head}[model]\nkind = "logistic_regression"\noutcome = "{outcome}"\n'
            f"covariates = {json.dumps(covariates)}\n{self.model}\n"
            f'[network]\ngraph = "complete"\n{self.run}'
        )


def run(output: Path, quiet: bool) -> None:
    """Measure, and print a table in Markdown.

    Args:
        output: a folder that does not exist yet.
        quiet: whether to report no progress.
    """
    print("| study | where | s | calls | calls/s, compilation included | one call, typical, ms |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for case in _cases():
        for where, measure in (("FLARE", _on_flare), ("sites", _on_sites), ("one process", _here)):
            folder = output / f"{case.name}-{where.split()[0]}"
            folder.mkdir(parents=True)
            seconds, calls, typical = measure(case, folder, Progress(not quiet))
            rate = "" if calls is None else f"{calls / seconds:.1f}"
            shown = (case.name, where, f"{seconds:.1f}", calls or "", rate, typical or "")
            print(f"| {' | '.join(map(str, shown))} |", flush=True)


def _cases() -> list[Case]:
    random, small = np.random.default_rng(0), {}
    for site in ("Ashby", "Brook", "Cliff"):
        X = random.normal(size=(60, 2))
        is_one = random.random(60) < 1 / (1 + np.exp(-X @ [1.0, -0.5]))
        small[site] = pd.DataFrame({"age": X[:, 0], "stay": X[:, 1], "sick": is_one.astype(int)})
    sums, rounds = '[run]\nmethod = "hmc"\ndraws = 200\n', "[run]\ndraws = 200\nburn_in = 200\n"
    prior, rand = "prior_std = 2.5", site_tables()
    return [
        Case(
            "rand",
            {s: t[[*NAMES, OUTCOME]] for s, t in rand.items()},
            f"prior_std = {PRIOR_STD}",
            "",
        ),
        Case("sums", small, prior, sums),
        Case("rounds", small, prior, SAMPLER + rounds),
    ]


def _study(case: Case, folder: Path) -> Path:
    """The study with all rows in one file."""
    rows = pd.concat(table.assign(site=site) for site, table in case.tables.items())
    rows.to_csv(folder / "rows.csv", index=False)
    path = folder / f"{case.name}.toml"
    path.write_text(case.text('[data]\nfile = "rows.csv"\nsite = "site"\n'))
    return path


def _on_flare(case: Case, folder: Path, progress: Progress) -> tuple[float, int, float]:
    found = simulate(_study(case, folder), folder / "simulation", progress)
    log = (folder / "simulation" / "flare" / f"{SERVER}.log").read_text(errors="replace")
    calls, typical = TYPICAL.findall(log)[-1]
    return found.seconds_to_results, int(calls), float(typical)


def _on_sites(case: Case, folder: Path, progress: Progress) -> tuple[float, int, None]:
    files = {site: folder / f"{site}.csv" for site in case.tables}
    for site, table in case.tables.items():
        table.to_csv(files[site], index=False)
    sites = "".join(f"[sites.{site}]\n" for site in files)
    trial = folder / f"{case.name}.toml"
    trial.write_text(case.text(f'{sites}[relay]\nurls = ["wss://relay.invalid"]\n'))
    rehearsal = Rehearsal(trial, files, folder, delay=0.0)
    rehearsal.provision()
    with progress.spinner("sites and a relay"):
        rehearsal.run()
    status = read_status(folder / f"{next(iter(files))}-site")
    return rehearsal.seconds, int(status["calls"]), None


def _here(case: Case, folder: Path, progress: Progress) -> tuple[float, None, None]:
    plan, began = Study.read(_study(case, folder)), time.perf_counter()
    run_locally(plan, plan.run_settings(privacy="totals"), quiet=True)
    return time.perf_counter() - began, None, None
