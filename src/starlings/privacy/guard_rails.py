"""Limits that a site sets for itself, checked before anything is sent.

Masks hide all but totals; a total over very few rows, or of very many numbers, says something about
single rows all the same. Guard rails refuse what is known to be dangerous. They are no guarantee.

They belong to the site: they come from its own file, never from a study, and a study cannot loosen
them. The file is guard-rails.toml in the user's folder for settings of starlings, or what the
environment variable STARLINGS_GUARD_RAILS names; its keys are the fields of `GuardRails`.

Limits in a file hold for all runs, masked or not. Without a file the defaults hold for masked runs.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from starlings.errors import PrivacyError, nearest

VARIABLE = "STARLINGS_GUARD_RAILS"
"""The environment variable that names the file."""
MOST_CATEGORIES = 10
"""Number of different values up to which a column counts as one of categories. One with more, such
as of codes of diagnoses, is not recognised, even if most of its values occur once."""
MEASURED_CATEGORIES = 2
"""The same number for columns that are known to be counts or measurements, if not truth values."""


@dataclass(frozen=True)
class GuardRails:
    """The limits of one site."""

    fewest_sites: int = 3
    """Sites that have to take part, and processes where there are several: of two, each knows the
    other's part of a total."""
    fewest_rows: int = 11
    """Rows that the site has to have."""
    most_parameters_per_row: float = 1 / 3
    """Parameters of the model for each row of the site, at most."""
    fewest_neighbours: int = 2
    """Neighbours of every site, for samplers that add up the messages of neighbours: the sum of a
    single one is that one's message."""
    fewest_rows_in_category: int = 3
    """Rows of the site in each category of a column that has at most `MOST_CATEGORIES` values. The
    outcome of one of our regressions is a count or a measurement if it has more than two values."""
    most_rounds: int = 1_000_000
    """Network rounds of one run, at most."""
    needs_masks: bool = False
    """Whether this site takes part in masked runs only."""

    @classmethod
    def of_this_machine(cls) -> GuardRails:
        """Those of the site's file; the defaults if there is none."""
        return cls.of_file() or cls()

    @classmethod
    def of_file(cls) -> GuardRails | None:
        """Those of the site's file; None if there is none."""
        default = platformdirs.user_config_path("starlings", appauthor=False) / "guard-rails.toml"
        named = os.environ.get(VARIABLE)
        if named is None and not default.is_file():
            return None
        return cls.read(Path(named or default))

    @classmethod
    def read(cls, path: Path) -> GuardRails:
        """The limits in a TOML file; unknown keys and wrong types are refused."""
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise PrivacyError(f"the guard rails in {path} cannot be read: {error}.") from None
        return cls.of_table(path, table)

    @classmethod
    def of_table(cls, path: Path, table: Mapping[str, Any]) -> GuardRails:
        """The limits in a table that was read from a file; see `read`."""
        known = {field.name: type(field.default) for field in fields(cls)}
        for name, value in table.items():
            if name not in known:
                raise PrivacyError(
                    f"{path}: unknown guard rail `{name}`; expected one of {list(known)}."
                    f"{nearest(name, known)}"
                )
            _check_type(path, name, value, known[name])
        return cls(**table)

    def check_masks(self) -> None:
        """Refuse a run without masks, if this site takes part in masked ones only."""
        if self.needs_masks:
            raise PrivacyError(
                "guard rail needs_masks: this site takes part in masked runs only. Ask for them by "
                'privacy="totals".'
            )

    def check(
        self,
        num_sites: int,
        dim: int,
        shards: Mapping[str, Mapping[str, Any]],
        processes: int = 1,
        measured: Collection[str] = (),
    ) -> None:
        """Refuse a run that breaks a limit at a local site.

        Args:
            num_sites: the number of all sites.
            dim: the number of parameters.
            shards: the columns of every local site, each with one entry per row.
            processes: the number of processes, each of which knows all of its own sites.
            measured: the names of columns that are counts or measurements, even if few values
                occur.
        """
        if num_sites < self.fewest_sites:
            raise PrivacyError(
                f"guard rail fewest_sites: {self.fewest_sites} sites are needed, got {num_sites}: "
                "a total over fewer tells one site what the others have. Find more sites."
            )
        if 1 < processes < self.fewest_sites:
            raise PrivacyError(
                f"guard rail fewest_sites: {self.fewest_sites} processes are needed, got "
                f"{processes}: whoever runs one knows what its sites have, and so the total of the "
                "others. Run every site, or every owner of sites, in a process of its own."
            )
        for site, columns in shards.items():
            self._check_site(site, dim, columns)
            for name, column in columns.items():
                most = MEASURED_CATEGORIES if name in measured else MOST_CATEGORIES
                self._check_categories(site, name, np.asarray(column), most)

    def _check_site(self, site: str, dim: int, columns: Mapping[str, Any]) -> None:
        rows = len(next(iter(columns.values())))
        if rows < self.fewest_rows:
            raise PrivacyError(
                f"guard rail fewest_rows: site {site!r} has {rows} rows and needs "
                f"{self.fewest_rows}. Leave this site out, or add its rows to another one's."
            )
        if dim > self.most_parameters_per_row * rows:
            raise PrivacyError(
                f"guard rail most_parameters_per_row: site {site!r} has {rows} rows, enough for "
                f"{int(self.most_parameters_per_row * rows)} parameters, and the model has {dim}. "
                "Take fewer covariates."
            )

    def _check_categories(self, site: str, name: str, column: np.ndarray, most: int) -> None:
        columns = column.reshape(len(column), -1)
        for number, each in enumerate(columns.T):
            values, counts = np.unique(each, return_counts=True)
            if len(values) > most or counts.min() >= self.fewest_rows_in_category:
                continue
            where = name if columns.shape[1] == 1 else f"{name}[{number}]"
            raise PrivacyError(
                f"guard rail fewest_rows_in_category: at site {site!r} the column {where} has a "
                f"value that occurs in {counts.min()} rows, and {self.fewest_rows_in_category} "
                "are needed. Merge rare categories, or leave the column out."
            )


def _check_type(path: Path, name: str, value: Any, kind: type) -> None:
    """Refuse a value in a file that is not of the type of the guard rail."""
    if kind is bool:
        if not isinstance(value, bool):
            raise PrivacyError(f"{path}: `{name}` must be true or false, got {value!r}.")
        return
    allowed = (int, float) if kind is float else (int,)
    if isinstance(value, bool) or not isinstance(value, allowed) or value < 0:
        raise PrivacyError(f"{path}: `{name}` must be a number from 0, got {value!r}.")
