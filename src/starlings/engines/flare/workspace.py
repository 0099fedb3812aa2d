"""What a site, or the server, sets in its own FLARE workspace so that jobs of starlings may run.

Two files in the folder `local`:

    resources.json    FLARE's own; our class is added to those that jobs may name
    starlings.toml    at a site: its rows, its guard rails and the place of its results
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from starlings.engines.flare import CONTROLLER, EXECUTOR
from starlings.engines.job import Job
from starlings.engines.settings import FILE
from starlings.errors import SiteError
from starlings.sites.trial_text import as_toml

ALLOWED = "class_allow_list"
"""The key of FLARE's list of classes that jobs may name."""


def allow(workspace: Path) -> str:
    """Allow a class of starlings in a workspace, and return its name; other settings stay."""
    name = CONTROLLER if (workspace / "startup" / "fed_server.json").is_file() else EXECUTOR
    resources = read_resources(workspace)
    allowed = resources.setdefault(ALLOWED, [])
    if name not in allowed:
        allowed.append(name)
        write_resources(workspace, resources)
    return name


def read_resources(workspace: Path) -> dict[str, Any]:
    """What FLARE reads from a workspace: resources.json, or what it has by default."""
    for name in ("resources.json", "resources.json.default"):
        file = workspace / "local" / name
        if file.is_file():
            return json.loads(file.read_text(encoding="utf-8"))
    raise SiteError(
        f"{workspace} is no workspace of FLARE: it has no file local/resources.json.default. Name "
        "the folder that `nvflare provision` made for this site or for the server."
    )


def write_resources(workspace: Path, resources: dict[str, Any]) -> None:
    """Write resources.json."""
    file = workspace / "local" / "resources.json"
    file.write_text(json.dumps(resources, indent=2) + "\n", encoding="utf-8")


def settings_text(job: Job, data: Path, results: Path) -> str:
    """The settings of a site that takes part in one job, and in no changed one."""
    own = {"data": str(data.absolute()), "results": str(results.absolute()), "hash": job.hash}
    return as_toml({f"jobs.{job.name}": own})


def add_settings(workspace: Path, job: Job, data: Path, results: Path) -> Path:
    """Let a site take part in a job; what its settings say already stays."""
    file = workspace / "local" / FILE
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    if f"[jobs.{job.name}]" in before:
        raise SiteError(f"{file} has a section [jobs.{job.name}] already: change it there.")
    file.write_text(before + settings_text(job, data, results), encoding="utf-8")
    return file
