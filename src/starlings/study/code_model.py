"""A Python file as the model of a study.

    [model]
    build = "mymodel.py:build"               # a file beside the study, and a function in it
    columns = ["age", "stay", "readmitted"]  # the columns that it needs
    prior_std = 2.5                          # any further keys are keywords of the function

The function gets the rows of the sites that are in its process, by site, each a pandas table of
these columns, as they stand in the file. It returns a `Problem` of these sites:

    def build(rows, prior_std=1.0):
        shards = {site: {"x": one["age"], "y": one["readmitted"]} for site, one in rows.items()}
        return starlings.Problem(log_likelihood, log_prior, {"beta": ()}, shards)

At real sites, and in MPI jobs, every process has other rows, and calls it with its own. All have to
get the same model: what is computed from rows belongs into the columns of a shard, and nothing else
may depend on them.

A Python file can do anything that its user may do. The file that runs is the one with the SHA-256
that the result has, or nothing runs: `sha256` in [model] names the hash that is expected, and
between organisations the manifest has the text, which every site reads and approves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from starlings.errors import nearest
from starlings.problem import Problem
from starlings.study.sections import Section, Table, keys_of


@dataclass(frozen=True)
class CodeSection:
    """The section [model] with a Python file; `options` are keywords of its function."""

    build: str
    columns: list[str]
    sha256: str | None = None
    options: Table = field(default_factory=dict)

    @property
    def standardise(self) -> bool:
        """Never: the function gets the columns as they are."""
        return False

    @property
    def file(self) -> str:
        """The name of the Python file."""
        return self.build.partition(":")[0]

    @property
    def function(self) -> str:
        """The name of the function."""
        return self.build.partition(":")[2]

    @property
    def title(self) -> str:
        """What is to be inferred, in a few words."""
        return f"the model of {self.build}"


def code_section(section: Section) -> CodeSection:
    """The section [model] of a study whose model is a Python file; nothing in it is run."""
    if other := sorted({"kind", "formula", "covariates", "outcome"} & set(section.table)):
        raise section.error(f"has `build`, a Python file, and {other}; leave one of them out.")
    own = keys_of(CodeSection, besides=["options"])
    known = {name: value for name, value in section.table.items() if name in own}
    options = {name: value for name, value in section.table.items() if name not in own}
    Section(section.source, section.name, known).check(own)
    found = CodeSection(**known, options=options)
    is_file = found.file.endswith(".py") and found.file[:-3].isidentifier()
    if not (is_file and found.file.isascii() and found.function.isidentifier()):
        raise section.error(
            "`build` must be a Python file beside the study and a function in it, such as "
            f'"mymodel.py:build", got {found.build!r}.'
        )
    if not found.columns or len(set(found.columns)) < len(found.columns):
        raise section.error("`columns` must name the columns of the rows, each only once.")
    return found


def code_hash(text: bytes) -> str:
    """The SHA-256 of a Python file, in hexadecimal digits."""
    return hashlib.sha256(text).hexdigest()


@dataclass(frozen=True)
class CodeModel:
    """A Python file that has been read, and not run."""

    section: CodeSection
    path: Path
    text: bytes

    @classmethod
    def read(
        cls, section: CodeSection, folder: Path, approved: Mapping[str, str] | None = None
    ) -> CodeModel:
        """Read the file; one with another hash than is expected is refused.

        Args:
            section: the section [model].
            folder: where the file is.
            approved: the hashes of all files that may run, by name; None if the study alone says.
        """
        path = folder / section.file
        if not path.is_file():
            raise FileNotFoundError(f"no Python file at {path}, which `build` in [model] names.")
        model = cls(section, path, path.read_bytes())
        expected = section.sha256 if approved is None else approved.get(section.file, "none")
        for wanted in {expected, section.sha256} - {None}:
            if model.hash != wanted:
                raise ValueError(
                    f"{path} has the SHA-256 {model.hash}, and {wanted} is approved: the file has "
                    "been changed, and is not run. Read it, and approve it anew, or restore it."
                )
        return model

    @property
    def hash(self) -> str:
        """The SHA-256 of the file."""
        return code_hash(self.text)

    def problem(self, rows: Mapping[str, pd.DataFrame]) -> Problem:
        """Run the file and its function on the rows of some sites."""
        tables = {site: table.reset_index(drop=True) for site, table in rows.items()}
        try:
            problem = self._function()(tables, **self.section.options)
        except Exception as error:
            raise ValueError(
                f"`{self.section.function}` of {self.path} fails with {type(error).__name__}: "
                f"{error}"
            ) from error
        if not isinstance(problem, Problem):
            raise TypeError(
                f"`{self.section.function}` of {self.path} must return a `starlings.Problem`, got "
                f"{type(problem).__name__}."
            )
        if set(problem.sites) != set(rows):
            raise ValueError(
                f"`{self.section.function}` of {self.path} must return a problem of the sites "
                f"{list(rows)} whose rows it was given, got {problem.sites}."
            )
        return problem.part_of(list(rows)).with_description(
            kind="code", build=self.section.build, code={self.section.file: self.hash}
        )

    def _function(self) -> Callable[..., Any]:
        """The function of the file, whose text was read and checked before: never read again."""
        names: dict[str, Any] = {"__name__": self.path.stem, "__file__": str(self.path)}
        exec(compile(self.text, str(self.path), "exec"), names)
        if self.section.function not in names:
            raise AttributeError(
                f"it has no function {self.section.function!r}."
                f"{nearest(self.section.function, names)}"
            )
        return names[self.section.function]
