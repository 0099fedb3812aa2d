"""The rows of one site: a table of its own, whose columns may have other names than in the trial.

`--data` names a .csv or .parquet file, or a TOML file that stays at the site:

    [data]
    file = "ashby.csv"

    [columns]  # the name in the trial = the name in the file
    age = "AGE_YRS"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from starlings.errors import PrivacyError, SiteError, nearest
from starlings.study.sections import read_sections
from starlings.study.sources import Survey
from starlings.study.tables import find_rows, is_table, number_of_rows, numeric_columns, read_rows


@dataclass(frozen=True)
class SiteData:
    """The table of one site, as a `Source` of a study."""

    path: Path
    """The .csv or .parquet file."""
    site: str
    local_names: Mapping[str, str] = field(default_factory=dict)
    """By name in the trial: the name in the file, where it is another one."""

    @classmethod
    def open(cls, path: Path, site: str, columns: Sequence[str]) -> SiteData:
        """What `--data` names.

        Args:
            path: a table, or a TOML file as above.
            site: the name of the site.
            columns: the columns of the trial.
        """
        if is_table(path):
            return cls(path, site)
        if path.suffix.lower() != ".toml":
            raise SiteError(
                f"{path} is neither a table (.csv or .parquet) nor a .toml file that names one."
            )
        sections = read_sections(path, ("data", "columns"), optional=("columns",))
        names = sections["columns"].table
        for name, local in names.items():
            if name not in columns:
                raise sections["columns"].error(
                    f"{name!r} is not a column of the trial: {list(columns)}."
                    f"{nearest(name, columns)}"
                )
            if not isinstance(local, str):
                raise sections["columns"].error(f"`{name}` must be text in quotes, got {local!r}.")
        return cls(path.parent / sections["data"].text("file"), site, names)

    def survey(self) -> Survey:
        """The site and its number of rows."""
        return Survey([self.site], np.array([number_of_rows(self.path)]))

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """Columns as finite floats, under their names in the trial."""
        local = self._local(columns, sites)
        frame = numeric_columns(read_rows(self.path, local), local, self.path)
        return {self.site: frame[local].set_axis(list(columns), axis=1)}

    def tables(
        self, columns: Sequence[str], sites: Sequence[str] | None, as_text: Sequence[str] = ()
    ) -> dict[str, pd.DataFrame]:
        """Columns as they stand in the file, under their names in the trial."""
        local = self._local(columns, sites)
        frame = read_rows(self.path, local, as_text=self._local(as_text, sites))
        return {self.site: frame[local].set_axis(list(columns), axis=1)}

    def _local(self, columns: Sequence[str], sites: Sequence[str] | None) -> list[str]:
        """What this site's file calls the columns."""
        if sites is not None and list(sites) != [self.site]:
            raise SiteError(f"{self.path} has the rows of {self.site!r} only, not of {sites}.")
        return [self.local_names.get(name, name) for name in columns]

    def place(self, site: str, row: int) -> str:
        """The line and the file of a row."""
        return f"{find_rows(self.path, np.array([row])).as_text()[0]} of {self.path}"


def refused_moments(moments: Any) -> Any:
    """Refuse to tell other sites the moments of columns, which `standardise` asks for."""
    raise PrivacyError(
        "`standardise` needs the means of all sites, which would leave them: standardise the "
        "columns beforehand, with numbers that all sites may know."
    )
