"""A job: what all sites run, as one TOML file that a reviewer can read.

    [job]       name; the names of all sites, in the order in which the hub adds
    [versions]  of what computes: each site has to have the same
    [code]      the SHA-256 of each Python file that the study names, where it names one
    ...         the sections of the study: model, network, sampler, run

It has no rows, no path, and nothing that a site decides for itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from starlings.errors import SiteError
from starlings.sites.manifest import versions
from starlings.sites.site_names import check_site_names
from starlings.sites.trial import check_method
from starlings.sites.trial_code import code_hashes, code_of
from starlings.sites.trial_text import as_toml
from starlings.study.schema import NAMES, OPTIONAL, checked_sections
from starlings.study.sections import Section, Table, read_sections
from starlings.study.sources import Source
from starlings.study.study import Study

NAME = re.compile("[A-Za-z0-9_-]+", re.ASCII)
"""Names of jobs, which are names of files, of sections and of folders."""
OF_JOBS = ("job", "versions", "code")
"""The sections that only a job has."""
STUDY_NAMES = tuple(name for name in NAMES if name != "data")
"""The sections of a study that belong into a job."""
COMPUTING = ("starlings", "JAX", "NumPy")
"""What has to have the same version at all sites."""


@dataclass(frozen=True)
class Job:
    """A job, whose keys and types have been checked."""

    text: str
    """The file."""
    code: Mapping[str, str]
    """The text of Python files that the study names, by file name."""

    @classmethod
    def of_study(cls, path: Path) -> Job:
        """The job of a study file; where the rows are in that file stays out of it.

        The sites are those of its sections [sites.NAME], or else those of the rows. Messages are
        masked unless [run] says `privacy = "none"`.
        """
        if not NAME.fullmatch(path.stem):
            raise SiteError(
                f"{path.name}: a job is called like its file, and that may have letters without "
                "accents, digits, - and _. Give the file another name."
            )
        optional = (*OPTIONAL, "data", "sites")
        sections = read_sections(path, (*NAMES, "sites"), optional)
        tables = {name: dict(sections[name].table) for name in STUDY_NAMES}
        tables["run"].pop("output", None)  # each site has a place of its own
        tables["run"].setdefault("privacy", "totals")
        sections["run"] = Section(path, "run", tables["run"])
        has_data = bool(sections["data"].table)
        study = Study(path, *checked_sections(sections, has_data))
        sites = _sites(sections["sites"], study, has_data)
        study.make_network(sites)
        check_method(study, str(tables["run"]["privacy"]))
        code = code_of(study)
        found = {name: version for name, version in versions().items() if name in COMPUTING}
        head: dict[str, Table] = {
            "job": {"name": path.stem, "sites": sites},
            "versions": found,
            "code": code_hashes(code),
        }
        shown = {name: table for name, table in {**head, **tables}.items() if table}
        return cls(as_toml(shown), code)

    @classmethod
    def read(cls, file: Path, code_folder: Path) -> Job:
        """The job in a file, whose Python files, in another folder, are those that it names."""
        job = cls(file.read_text(encoding="utf-8"), {})
        _check_code(job, file, code_folder)
        code = {name: _text_of(code_folder / name) for name in job.tables.get("code", {})}
        if code_hashes(code) != job.tables.get("code", {}):
            raise SiteError(f"{file}: the code in {code_folder} is not that of the job.")
        return cls(job.text, code)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """Its sections."""
        sections = read_sections(
            Path("job.toml"), (*STUDY_NAMES, *OF_JOBS), (*OPTIONAL, "code"), text=self.text
        )
        return {name: dict(section.table) for name, section in sections.items()}

    @property
    def name(self) -> str:
        """What it is called: the name of the study file."""
        return str(self.tables["job"]["name"])

    @property
    def sites(self) -> list[str]:
        """All sites, in the order in which the hub adds."""
        return list(self.tables["job"]["sites"])

    @property
    def hash(self) -> str:
        """The SHA-256 of the file, which has those of its code."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def privacy(self) -> str:
        """ "totals" or "none"."""
        return str(self.tables["run"]["privacy"])

    @property
    def columns(self) -> list[str]:
        """The columns that each site needs."""
        return self.study(Path("job.toml")).model.columns

    def study(self, place: Path, own_rows: Source | None = None) -> Study:
        """The study, with the rows of one site.

        Args:
            place: the file that errors name; the job's Python files are beside it.
            own_rows: the rows of the site.
        """
        text = as_toml({name: self.tables[name] for name in STUDY_NAMES})
        sections = read_sections(place, NAMES, (*OPTIONAL, "data"), text=text)
        parts = checked_sections(sections, has_data=False)
        approved = dict(self.tables["code"])
        return Study(place, *parts, own_source=own_rows, approved=approved)

    def check_versions(self) -> None:
        """Refuse to run with other versions than those of the job."""
        wanted, here = self.tables["versions"], versions()
        different = [f"{k} {here.get(k)} instead of {v}" for k, v in wanted.items() if here[k] != v]
        if different:
            raise SiteError(
                f"this site has {', '.join(different)}. All sites need the same: install those of "
                "the job, or export it again."
            )


def _sites(section: Section, study: Study, has_data: bool) -> list[str]:
    if section.table:
        return check_site_names(section.table, str(section.source))
    if not has_data:
        raise SiteError(
            f"{section.source} names no sites: write a line [sites.NAME] for each of them, or a "
            "section [data] with rows that have sites."
        )
    return check_site_names(study.source.survey().sites, str(section.source))


def _check_code(job: Job, file: Path, folder: Path) -> None:
    """Refuse Python files that the job does not name, and a study whose files it does not name."""
    named, build = set(job.tables.get("code", {})), str(job.tables["model"].get("build", ""))
    modules = [
        name.partition(":")[0].removesuffix(".py")
        for name in (str(job.tables["sampler"].get("name", "")), build)
        if ":" in name
    ]
    wanted = {f"{module}.py" for module in modules}
    if not all(module.isidentifier() for module in modules) or named != wanted:
        raise SiteError(
            f"{file}: the Python files of a job are those of its sampler and its model, "
            f"{sorted(wanted)}, and [code] names {sorted(named)}. Ask for a new export."
        )
    found = {str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir()}
    if found - named:
        raise SiteError(
            f"{folder} has files that the job does not name, {sorted(found - named)}: nothing runs "
            "that was not shown. Ask for a new export."
        )


def _text_of(file: Path) -> str:
    if not file.is_file():
        raise SiteError(f"the job names the Python file {file.name}, and it is not in {file}.")
    return file.read_text(encoding="utf-8")


def in_words(job: Job) -> list[tuple[str, str]]:
    """What a job does, in words for those who have to decide about it."""
    model, run = job.tables["model"], job.tables["run"]
    is_masked = job.privacy == "totals"
    in_title = ("kind", "outcome", "covariates", "formula", "build", "columns")
    settings = {k: v for k, v in model.items() if k not in in_title}
    rows: list[tuple[str, Any]] = [
        ("job", f"{job.name}, SHA-256 {job.hash}"),
        ("sites", ", ".join(job.sites)),
        ("model", _model(model)),
        ("settings", _settings(settings)),
        ("how", _settings(run)),
        ("sampler", _settings(job.tables["sampler"])),
        ("network", _settings(job.tables["network"])),
        ("code", ", ".join(f"{k} (SHA-256 {v})" for k, v in job.tables["code"].items()) or NO_CODE),
        ("stays", "all rows, and the draws: each site keeps its own"),
        ("leaves", MASKED if is_masked else UNMASKED),
        ("versions", ", ".join(f"{k} {v}" for k, v in job.tables["versions"].items())),
    ]
    return rows


def _model(model: Mapping[str, Any]) -> str:
    if "formula" in model:
        return str(model["formula"])
    if "build" in model:
        return f"{model['build']}, a function of {', '.join(model['columns'])}: READ THE CODE"
    return f"{model['kind']} of {model['outcome']} on {', '.join(model['covariates'])}"


def _settings(table: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in table.items()) or "the defaults"


NO_CODE = "none but starlings itself, by the names of two of its classes"
"""What a job says of code, if its study names no Python file."""
MASKED = (
    "numbers computed from the rows, as parts of totals over all sites or over the neighbours of a "
    "site, each hidden by masks: neither the hub nor another site can read more than totals"
)
"""What a masked job says of what leaves a site."""
UNMASKED = (
    "numbers computed from the rows (gradients, curvatures, potentials, positions), IN THE CLEAR: "
    "whoever runs the hub can compute rows of a small site from them"
)
"""What a job without masks says of it."""
