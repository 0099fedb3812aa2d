"""`make rehearsal`: six sites of the RAND experiment as processes that are killed on the way.

The rows are those of `starlings demo`. At the end every site has the answer of all rows, as one
process finds it that has the rows of everybody.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from starlings.errors import SiteError
from starlings.models import logistic_regression
from starlings.network import Network
from starlings.research.demo.data import COVARIATES, EXTRA, PRIOR_STD, load_rows
from starlings.research.packaged_data import check_installed
from starlings.results.result import Result
from starlings.sampling import sample
from starlings.sites.rehearsal import Rehearsal, summary
from starlings.system.progress import Progress

DELAY = 0.015
"""Seconds by which every message is late, in each direction."""
KILLS = 2
"""Processes that are killed on the way."""
DRAWS = 1000
"""The argument `draws`: 4 x `draws` effective draws at every site, about."""
NAMES = [f"x{number}" for number in range(1, len(COVARIATES))]
"""Columns of the tables of the sites."""
OUTCOME = "visit"


def run(output: Path, *, kills: int = KILLS, delay: float = DELAY, quiet: bool = False) -> None:
    """Rehearse, print what it took, and compare every site's answer with that of all rows.

    Args:
        output: the folder, which is emptied first.
        kills: how many processes are killed on the way.
        delay: seconds by which every message is late, in each direction.
        quiet: whether to report no progress.
    """
    check_installed("statsmodels", "websockets", "cryptography", extra=EXTRA)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    tables, progress, console = site_tables(), Progress(not quiet), Console()
    rehearsal = Rehearsal(_trial(output, list(tables)), _written(output, tables), output, delay)
    with progress.spinner("authority, keys, kits and approvals of six sites and a coordinator"):
        rehearsal.provision()
    with progress.spinner(f"six sites and a relay, {1000 * delay:.0f} ms each way, {kills} killed"):
        results = rehearsal.run(kills)
    with progress.spinner("the same rows in one process"):
        together = _in_one_process(tables)
    console.print(_table(results, together))
    for line in _closing(rehearsal, results, together):
        console.print(line, highlight=False)
    if faults := rehearsal.faults(kills):
        raise SiteError(f"the rehearsal has failed: {' '.join(faults)}")


def site_tables() -> dict[str, pd.DataFrame]:
    """The rows of every site."""
    rows = load_rows()
    columns = {
        name: np.asarray(c.value(rows), float) - c.centre
        for name, c in zip(NAMES, COVARIATES[1:], strict=True)
    }
    table = pd.DataFrame({**columns, OUTCOME: rows["mdvis"].gt(0).astype(float)})
    return {f"site-{site:.0f}": part for site, part in table.groupby(rows["site"])}


def _written(folder: Path, tables: dict[str, pd.DataFrame]) -> dict[str, Path]:
    files = {site: folder / f"{site}.csv" for site in tables}
    for site, table in tables.items():
        table.to_csv(files[site], index=False)
    return files


def _trial(folder: Path, sites: list[str]) -> Path:
    """The trial file of the rehearsal."""
    meanings = zip(NAMES, COVARIATES[1:], strict=True)
    text = [
        "[model]",
        'kind = "logistic_regression"',
        f'outcome = "{OUTCOME}"',
        f"covariates = {NAMES}".replace("'", '"'),
        f"prior_std = {PRIOR_STD}",
        '[network]\ngraph = "ring"',
        f"[run]\ndraws = {DRAWS}",
        '[relay]\nurls = ["wss://relay.invalid"]',
        "[columns]",
        *(f'{name} = "{covariate.label}, centred"' for name, covariate in meanings),
        *(f"[sites.{site}]" for site in sites),
    ]
    path = folder / "rand.toml"
    path.write_text("\n".join(text) + "\n")
    return path


def _in_one_process(tables: dict[str, pd.DataFrame]) -> Result:
    """The answer with all rows in one process, with another seed."""
    every = pd.concat(tables.values())
    sites = [site for site, table in tables.items() for _ in range(len(table))]
    problem = logistic_regression(every[NAMES], every[OUTCOME], sites, prior_std=PRIOR_STD)
    return sample(problem, Network.ring(6), draws=DRAWS, seed=1, progress=False)


def _mean_and_sd(result: Result) -> tuple[np.ndarray, np.ndarray]:
    draws = result.posterior["beta"].values.reshape(-1, len(COVARIATES))
    return draws.mean(axis=0), draws.std(axis=0)


def _table(results: dict[str, Result], together: Result) -> Table:
    """The mean of every coefficient at every site, and of all rows in one process."""
    table = Table(title="Posterior means")
    table.add_column("coefficient")
    for name in (*results, "all rows", "sd"):
        table.add_column(name, justify="right")
    means = [_mean_and_sd(result)[0] for result in results.values()]
    for row, covariate in enumerate(COVARIATES):
        mean, sd = (values[row] for values in _mean_and_sd(together))
        values = [*(each[row] for each in means), mean, sd]
        table.add_row(covariate.label, *(f"{value:.3f}" for value in values))
    return table


def _closing(rehearsal: Rehearsal, results: dict[str, Result], together: Result) -> list[str]:
    """What it took, and what was lost."""
    wanted, sd = _mean_and_sd(together)
    means = [_mean_and_sd(result)[0] for result in results.values()]
    apart = max(float(np.max(np.abs(mean - wanted) / sd)) for mean in means)
    first = next(iter(results.values()))
    is_same = all(np.array_equal(first.posterior.beta, r.posterior.beta) for r in results.values())
    return [
        f"Largest difference from all rows in one process: {apart:.3f} sd, of which "
        "0.1 would be chance. The draws of all sites have "
        f"{'the same bits' if is_same else 'different bits'}.",
        *summary(rehearsal, results),
    ]


if __name__ == "__main__":
    run(Path("output/rehearsal"))
