"""What a site decides for itself, in a TOML file that never leaves it.

    [jobs.NAME]              one for each job that the site takes part in
    data = "ashby.csv"       its rows: a table, or a .toml file as for `starlings join`
    results = "results"      a folder for its draws
    hash = "3fa9..."         the SHA-256 of the job, and no other is run; may be left out if the
                             job has no Python file

    [guard_rails]            limits of this site, see `starlings.privacy.guard_rails`

Paths are relative to the folder of the file. A job that has no section is refused.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlings.engines.job import Job
from starlings.errors import SiteError, nearest
from starlings.privacy.guard_rails import GuardRails

FILE = "starlings.toml"
"""What the file is called."""
KEYS = ("data", "results", "hash")
"""The keys of a job."""


@dataclass(frozen=True)
class SiteSettings:
    """The settings of one site for one job."""

    data: Path
    results: Path
    rails: GuardRails

    @classmethod
    def read(cls, file: Path, job: Job) -> SiteSettings:
        """The settings in a file; a job that the site does not take part in is refused."""
        try:
            tables = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise SiteError(f"the settings of this site cannot be read: {error}.") from None
        _check_keys(file, "", tables, ("jobs", "guard_rails"))
        if job.name not in tables.get("jobs", {}):
            raise SiteError(
                f"{file} has no section [jobs.{job.name}]: this site does not take part in that "
                "job. Write one, with `data` and `results`, if it should."
            )
        own = tables["jobs"][job.name]
        _check_keys(file, f"[jobs.{job.name}] ", own, KEYS)
        for key in ("data", "results"):
            if not isinstance(own.get(key), str):
                raise SiteError(f"{file}: [jobs.{job.name}] needs `{key}`, a path in quotes.")
        if job.tables["code"] and "hash" not in own:
            raise SiteError(
                f"{file}: [jobs.{job.name}] needs `hash`, since the job brings Python files, which "
                "can do anything that the user of this machine may do. Read them, and then write "
                f'hash = "{job.hash}".'
            )
        if own.get("hash", job.hash) != job.hash:
            raise SiteError(
                f"{file} allows the job {own['hash']}, and this one is {job.hash}: it was changed. "
                "Read it again, and allow it or not."
            )
        rails = GuardRails.of_table(file, tables.get("guard_rails", {}))
        return cls(file.parent / own["data"], file.parent / own["results"], rails)


def _check_keys(file: Path, where: str, table: dict[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            hint = nearest(key, known)
            raise SiteError(f"{file}: {where}unknown key `{key}`; expected {list(known)}.{hint}")
