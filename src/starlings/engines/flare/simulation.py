"""`starlings flare simulate`: a study as a job of FLARE, with all sites on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlings.engines.flare.deployment import FINISHED, Deployment
from starlings.engines.flare.export import export
from starlings.engines.flare.workspace import add_settings
from starlings.engines.job import Job
from starlings.engines.program import run_folder
from starlings.errors import SiteError
from starlings.study.study import Study
from starlings.system.progress import Progress


@dataclass(frozen=True)
class Simulation:
    """What a simulation left."""

    results: Mapping[str, Path]
    """By site, the file with its draws."""
    seconds_to_results: float
    """From the submission of the job to the last of these files."""
    seconds_to_end: float
    """From the submission of the job to its end: FLARE takes its time to stop processes."""


def simulate(study: Path, folder: Path, progress: Progress) -> Simulation:
    """Run a study with a server and all sites as processes of their own.

    Args:
        study: a study with rows.
        folder: a folder that does not exist, or is empty: for keys, logs and results.
        progress: what is being done.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SiteError(f"{folder} is not empty: name another folder, or remove it.")
    job = Job.of_study(study)
    export(job, folder / job.name)
    deployment = Deployment(folder / "flare", job.sites)
    with progress.spinner(f"a server and {len(job.sites)} sites start"):
        deployment.provision()
        results = take_part(deployment, job, rows_of(study, job, folder))
    with deployment, progress.spinner("the job runs"):
        ended = deployment.run(folder / job.name)
    if ended.status != FINISHED:
        raise SiteError(f"FLARE says {ended.status} of the job; see {deployment.folder}.")
    last = max(file.stat().st_mtime for file in results.values())
    return Simulation(results, last - ended.submitted, ended.seconds)


def rows_of(study: Path, job: Job, folder: Path) -> dict[str, Path]:
    """The rows of each site of a study in a file of its own, as at the site itself."""
    source, found = Study.read(study).source, {}
    for site in job.sites:
        found[site] = folder / f"{site}.csv"
        source.read(job.columns, [site])[site].to_csv(found[site], index=False)
    return found


def take_part(deployment: Deployment, job: Job, rows: Mapping[str, Path]) -> dict[str, Path]:
    """Write the settings of every site; return where each will have its draws."""
    found = {}
    for site, file in rows.items():
        results = deployment.folder / "results" / site
        add_settings(deployment.workspace(site), job, file, results)
        found[site] = run_folder(results, job) / f"{site}.nc"
    return found
