"""The manifest: what runs, in one document that the authority and then every site signs.

It is JSON in the only spelling (`documents`), with these keys:

    kind, format     "manifest", and the number of its layout
    number           1, 2, ...; a site that has seen a number takes no lower one
    trial            the name of the trial file
    authority        the SHA-256 of the public key of the authority: which trial this is
    created          when, in UTC
    study            the study as TOML in the only spelling, and study_sha256
    model            `kind` and all other keys of [model]
    code             the text of Python files that the study names, by file name
    columns          the columns that the rows of every site need, and what they mean
    sites            by name: whom to ask
    edges            pairs of sites that exchange messages
    sampler, run     the keys of these sections
    privacy          "totals": messages are masked; "none": they are not
    seed             how the seed of the noise is found; the manifest never has it
    limits           what a run may use and disclose; see `limits.Limits`
    relay, direct    how the sites reach each other
    versions         of starlings, Python, JAX and NumPy at the coordinator
    numerics         the fingerprint of `numerics`

The SHA-256 of this table, without the signature, is the hash that names the study everywhere.
"""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jax
import numpy as np

from starlings._version import __version__
from starlings.sites.authority import Authority
from starlings.sites.documents import (
    FORMAT,
    Table,
    as_text,
    canonical,
    now_utc,
    sha256,
    verified_by_authority,
)
from starlings.sites.keys import key_hash
from starlings.sites.limits import Limits
from starlings.sites.manifest_checks import check_manifest, described
from starlings.sites.numerics import numeric_fingerprint
from starlings.sites.trial import Trial, study_from_text
from starlings.sites.trial_code import code_hashes
from starlings.study.sources import Source
from starlings.study.study import Study

KIND = "manifest"
"""What the document calls itself."""
ENDING = ".manifest"
"""The ending of its file; the beginning is the name of the trial."""
SEED = "agreed by all sites when a run starts, each adding a secret number of its own"
"""How the seed is found, in words."""


@dataclass(frozen=True)
class Manifest:
    """A manifest whose signature and types are right."""

    content: Table
    document: bytes
    """The manifest as the authority signed it."""

    @classmethod
    def make(cls, trial: Trial, authority: Authority, now: datetime | None = None) -> Manifest:
        """The manifest of a trial with the next number, or the last one if nothing has changed."""
        last = authority.register.manifest
        new = {**_content(trial, authority), "number": last.get("number", 0) + 1}
        new["created"] = as_text(now or now_utc())
        is_same = _without_number(last) == _without_number(new)
        authority.register.manifest = last if is_same else new
        signed = authority.sign(authority.register.manifest)
        return cls.parse(signed, authority.certificate, trial.path.stem + ENDING)

    @classmethod
    def parse(cls, document: bytes, authority: Any, where: str) -> Manifest:
        """A manifest that an authority signed.

        Args:
            document: the bytes of the file.
            authority: the certificate of the authority.
            where: the file, for errors.
        """
        content = verified_by_authority(document, KIND, authority, where)
        check_manifest(content, authority, where)
        return cls(content, document)

    @property
    def hash(self) -> str:
        """The SHA-256 that names the study everywhere, in hexadecimal digits."""
        return sha256(canonical(self.content))

    @property
    def number(self) -> int:
        """1, 2, ..."""
        return int(self.content["number"])

    @property
    def trial(self) -> str:
        """The name of the trial file, without its ending."""
        return str(self.content["trial"])

    @property
    def sites(self) -> list[str]:
        """The names of all sites, sorted."""
        return list(self.content["sites"])

    @property
    def limits(self) -> Limits:
        """What a run may use and disclose."""
        return Limits(**self.content["limits"])

    def neighbours(self, site: str) -> list[str]:
        """The sites with which a site exchanges messages."""
        pairs = [pair for pair in self.content["edges"] if site in pair]
        return sorted(other for pair in pairs for other in pair if other != site)

    def study(self, place: Path, own_rows: Source | None = None, has_sampler: bool = True) -> Study:
        """The study, with the rows of one site; see `study_from_text`."""
        approved = code_hashes(self.content["code"])
        return study_from_text(self.content["study"], place, own_rows, has_sampler, approved)


def _content(trial: Trial, authority: Authority) -> Table:
    """A manifest without its number and its time."""
    return {
        "kind": KIND,
        "format": FORMAT,
        "trial": trial.path.stem,
        "authority": key_hash(authority.certificate.public_key()),
        "study": trial.text,
        "study_sha256": sha256(trial.text.encode()),
        **described(trial.study, trial.text, trial.sites),
        "code": trial.code,
        "columns": trial.columns,
        "sites": trial.contacts,
        "privacy": trial.privacy,
        "seed": SEED,
        "limits": asdict(trial.limits),
        "relay": trial.relays,
        "direct": trial.direct,
        "versions": versions(),
        "numerics": numeric_fingerprint(),
    }


def versions() -> dict[str, str]:
    """The versions of what computes on this machine."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {
        "starlings": __version__,
        "Python": python,
        "JAX": jax.__version__,
        "NumPy": np.__version__,
    }


def _without_number(content: Table) -> Table:
    return {k: v for k, v in content.items() if k not in ("number", "created")}
