"""Python files of a trial, whose text all sites read and sign: a sampler, or a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlings.errors import SiteError
from starlings.sites.documents import sha256
from starlings.study.code_model import CodeSection
from starlings.study.study import Study

LARGEST_CODE = 200_000
"""Characters of a Python file that belongs to a trial, at most."""


def code_of(study: Study) -> dict[str, str]:
    """The Python files beside the trial file that [sampler] and [model] name, if they name any."""
    named = code_files(study.sampler.name, study.model)
    return {name: _code(study.path, section, name) for section, name in named.items()}


def code_files(sampler: str | None, model: Any) -> dict[str, str]:
    """By section of a study: the name of the Python file that it names.

    Args:
        sampler: the name of its sampler.
        model: its section [model].
    """
    module, colon, _ = (sampler or "").partition(":")
    found = {"sampler": f"{module}.py"} if colon else {}
    return {**found, **({"model": model.file} if isinstance(model, CodeSection) else {})}


def _code(path: Path, section: str, name: str) -> str:
    """The text of a Python file."""
    file = path.parent / name
    if not file.is_file():
        raise SiteError(
            f"{path}: [{section}] names {file.stem!r}, and there is no {name} beside it. Put it "
            "there: its text becomes a part of what all sites sign."
        )
    text = file.read_bytes().decode("utf-8")  # with its own line ends, as its hash has them
    if len(text) > LARGEST_CODE:
        raise SiteError(f"{file} is longer than {LARGEST_CODE:,} characters; make it shorter.")
    return text


def code_hashes(code: dict[str, str]) -> dict[str, str]:
    """The SHA-256 of every file of code, by name."""
    return {name: sha256(text.encode()) for name, text in code.items()}
