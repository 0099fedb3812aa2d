"""The folder that `nvflare job submit` takes, made to be read by those who have to allow it.

meta.json                            who takes part: the server and all sites, none less
README.md                            what the job does, in words
app/config/job.toml                  the job: study, sites, versions, hashes of code
app/config/config_fed_server.json    one class of starlings, by name
app/config/config_fed_client.json    one class of starlings, by name
app/custom/                          the Python file that the study names, if it names one
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlings.engines.flare import CONTROLLER, EXECUTOR, JOB_FILE, TASK
from starlings.engines.job import Job, in_words
from starlings.errors import SiteError

VERSION = 2
"""The version of the format of FLARE's configuration files."""
SERVER = "server"
"""What FLARE calls the server in every job."""

SERVER_FILE = "config_fed_server.json"
"""The file for the server, in the folder `config` of the app."""
PATIENCE = 60.0
"""Seconds for which a site may be out of reach, by default."""
ABOUT = """\
A job for NVIDIA FLARE, written by `starlings flare export`. What it computes is in
`app/config/job.toml`; the other files say who takes part.
"""
"""How the text for readers of a job begins."""
ELSEWHERE = """\
Where the rows of a site are, its guard rails and the place of its results are in a file of the
site, `local/starlings.toml` in its workspace, and nowhere in this job.
"""
"""How it ends."""


def export(job: Job, folder: Path, patience: float = PATIENCE) -> None:
    """Write the folder of a job.

    Args:
        job: the job.
        folder: a folder that does not exist yet, or is empty.
        patience: seconds for which a site may be out of reach before the job ends.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SiteError(f"{folder} is not empty: name another folder, or remove it.")
    config = folder / "app" / "config"
    config.mkdir(parents=True)
    _write_json(folder / "meta.json", _meta(job))
    _write_json(config / SERVER_FILE, _server(job, patience))
    _write_json(config / "config_fed_client.json", _client())
    (config / JOB_FILE).write_text(job.text, encoding="utf-8")
    (folder / "README.md").write_text(_readme(job), encoding="utf-8")
    for name, text in job.code.items():
        custom = folder / "app" / "custom"
        custom.mkdir(exist_ok=True)
        (custom / name).write_text(text, encoding="utf-8")


def read_job(folder: Path) -> Job:
    """The job in a folder, as those who have to decide about it got it."""
    file = folder / "app" / "config" / JOB_FILE
    if not file.is_file():
        raise SiteError(
            f"{folder} is not the folder of a job that `starlings flare export` wrote: it has no "
            f"file app/config/{JOB_FILE}."
        )
    job = Job.read(file, folder / "app" / "custom")
    _check_rest(job, folder)
    return job


def _check_rest(job: Job, folder: Path) -> None:
    """Refuse a folder in which other files say something else than what is shown."""
    with TemporaryDirectory() as other:
        export(job, Path(other), _patience(folder))
        wanted, found = _files(Path(other)), _files(folder)
    if wanted != found:
        names = sorted(n for n in wanted | found if wanted.get(n) != found.get(n))
        raise SiteError(
            f"{folder} is not as `starlings flare export` writes it: {', '.join(names)} differ. "
            "Ask for a new export, or read these files and set up the site by hand."
        )


def _patience(folder: Path) -> float:
    """The patience of the hub in a folder, the one number of it that the job does not have."""
    try:
        table = json.loads((folder / "app" / "config" / SERVER_FILE).read_text(encoding="utf-8"))
        return float(table["workflows"][0]["args"]["patience"])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return PATIENCE


def _files(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def _meta(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "resource_spec": {},
        "min_clients": len(job.sites),
        "mandatory_clients": job.sites,
        "deploy_map": {"app": [SERVER, *job.sites]},
    }


def _server(job: Job, patience: float) -> dict[str, Any]:
    arguments = {"sites": job.sites, "patience": patience}
    hub = {"id": "hub", "path": CONTROLLER, "args": arguments}
    return {"format_version": VERSION, "workflows": [hub], "components": []}


def _client() -> dict[str, Any]:
    executor = {"tasks": [TASK], "executor": {"path": EXECUTOR, "args": {}}}
    return {"format_version": VERSION, "executors": [executor], "components": []}


def _write_json(file: Path, table: dict[str, Any]) -> None:
    file.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


def _readme(job: Job) -> str:
    """What the job does, for those who have to decide about it."""
    rows = "".join(f"| {name} | {text} |\n" for name, text in in_words(job))
    return f"# {job.name}\n\n{ABOUT}\n| | |\n| --- | --- |\n{rows}\n{ELSEWHERE}"
