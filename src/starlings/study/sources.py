"""The rows of sites, read from one file with a column of site names or from a folder of files.

A survey finds the sites and how many rows each has without reading anything else, so that a process
that is to hold some of the sites reads the rows of those alone: from a folder only their files,
from Parquet only the parts of the file in which they are, and from CSV all lines, of which it keeps
its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from starlings.problem.shards import in_order, site_names
from starlings.study.standardising import Standardisation
from starlings.study.tables import (
    ColumnError,
    Selection,
    find_rows,
    is_table,
    number_of_rows,
    numeric_columns,
    read_labels,
    read_rows,
)

PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")
"""How names of compressed files end."""
FILES_TOLD = 3
"""Files at fault whose faults are told."""
Moments = dict[str, np.ndarray]
"""Of every site and column: rows, sum, sum of squares about the site's mean, least and most."""


class Survey(NamedTuple):
    """All sites, in order."""

    sites: list[str]
    rows: np.ndarray
    """The number of rows of each."""


class Source(Protocol):
    """Where rows come from."""

    @property
    def path(self) -> Path:
        """The file or the folder."""

    def survey(self) -> Survey:
        """The sites and their sizes."""

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """The columns of the rows of some sites, or of all, by site, as finite floats."""

    def place(self, site: str, row: int) -> str:
        """Where a row of a site is, for people; `row` is its number in the file, from 0."""


@dataclass(frozen=True)
class SiteFile:
    """One file; a column of it names the site of each row."""

    path: Path
    column: str

    def survey(self) -> Survey:
        """From that column alone."""
        names, numbers = site_names(read_labels(self.path, self.column))
        return Survey(names, np.bincount(numbers, minlength=len(names)))

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """Rows keep their numbers in the file as their index."""
        labels = read_labels(self.path, self.column)
        names, numbers = site_names(labels)
        wanted, chosen = None, None
        if sites is not None:
            place = {site: k for k, site in enumerate(names)}
            wanted = np.isin(numbers, [place[site] for site in sites])
            chosen = Selection(self.column, pd.unique(labels[wanted]))
            numbers = numbers[wanted]
        frame = read_rows(self.path, columns, wanted, chosen, is_checked=True)
        frame = numeric_columns(frame, columns, self.path)
        return _by_site(frame, numbers, names, names if sites is None else sites)

    def place(self, site: str, row: int) -> str:
        """The line and the file."""
        return (
            f"{find_rows(self.path, np.array([row])).described()[0]} of {self.path} (site {site!r})"
        )


@dataclass(frozen=True)
class SiteFolder:
    """A folder with one file for each site, which is called after it."""

    path: Path

    def survey(self) -> Survey:
        """From the names of the files and their numbers of rows."""
        files = self._files()
        return Survey(list(files), np.array([number_of_rows(file) for file in files.values()]))

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """Only the files of those sites are opened."""
        files, found, faults = self._files(), {}, {}
        for site in files if sites is None else sites:
            file = files[site]
            try:
                found[site] = numeric_columns(read_rows(file, columns), columns, file)
            except ColumnError as error:
                faults[file.name] = str(error)
        if faults:
            raise ColumnError(_told(faults))
        return found

    def place(self, site: str, row: int) -> str:
        """The line and the file, which is called after the site."""
        file = self._files()[site]
        return f"{find_rows(file, np.array([row])).described()[0]} of {file}"

    def _files(self) -> dict[str, Path]:
        if not self.path.is_dir():
            raise FileNotFoundError(f"no folder of data at {self.path}.")
        visible = [file for file in self.path.iterdir() if file.name[0] != "."]
        packed = sorted(f.name for f in visible if f.suffix in PACKED and is_table(Path(f.stem)))
        if packed:
            raise ValueError(f"{self.path} has compressed files: {packed}; unpack them.")
        files = [file for file in visible if is_table(file)]
        if not files:
            raise ValueError(f"{self.path} has no .csv or .parquet file: one for each site.")
        names = [file.stem.strip() for file in files]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{self.path} has two files for each of the sites {twice}.")
        by_name = dict(zip(names, files, strict=True))
        return {name: by_name[name] for name in in_order(by_name)}


def _told(faults: dict[str, str]) -> str:
    """The faults of the first files, and the names of the others."""
    others = list(faults)[FILES_TOLD:]
    more = [f"{len(others)} more files have such faults: {others}."] if others else []
    return " ".join([*list(faults.values())[:FILES_TOLD], *more])


def _by_site(
    frame: pd.DataFrame, numbers: np.ndarray, names: Sequence[str], wanted: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """The rows of each wanted site; `numbers` has the place of each row's site in `names`."""
    groups = dict(iter(frame.groupby(np.asarray(names)[numbers], sort=False)))
    return {site: groups[site] for site in wanted}


def moments(frame: pd.DataFrame) -> np.ndarray:
    """What a site shares of its columns, (5, column)."""
    values = frame.to_numpy(float)
    sums = values.sum(axis=0)
    squares = ((values - sums / len(values)) ** 2).sum(axis=0)
    count = np.full_like(sums, len(values))
    return np.stack([count, sums, squares, values.min(axis=0), values.max(axis=0)])


def standardisation(columns: Sequence[str], by_site: Moments, source: Path) -> Standardisation:
    """The mean and the standard deviation of every column over all sites.

    Sites are added up in the order of their names, whoever holds them: the same bits everywhere.
    """
    shared = np.stack([by_site[site] for site in sorted(by_site)])
    counts, sums, squares = np.moveaxis(shared[:, :3], 1, 0)
    least, most = shared[:, 3].min(axis=0), shared[:, 4].max(axis=0)
    for name in np.asarray(columns)[least == most]:
        raise ValueError(
            f"column {str(name)!r} of {source} is constant and cannot be standardised."
        )
    total = counts.sum(axis=0)
    mean = sums.sum(axis=0) / total
    apart = counts * (sums / counts - mean) ** 2
    return Standardisation(tuple(columns), mean, np.sqrt((squares + apart).sum(axis=0) / total))
