"""The rows of sites, read from one file with a column of site names or from a folder of files.

A survey finds the sites and their numbers of rows without reading anything else, so that a process
with only some of the sites reads only their rows: from a folder only their files, from Parquet only
the row groups in which they are, and from CSV all lines, of which it stores its own.
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
"""Suffixes of compressed files, which are not read."""
MAX_FILES_DESCRIBED = 3
"""Number of faulty files whose faults an error message describes; it only names further ones."""
Moments = dict[str, np.ndarray]
"""For each site an array (5, column): the number of rows, and of each column the sum, the sum of
squares about the site's mean, the minimum and the maximum."""


class Survey(NamedTuple):
    """The names of all sites, in sorted order, and their sizes."""

    sites: list[str]
    rows: np.ndarray
    """The number of rows of each site, (site,)."""


class Source(Protocol):
    """A file or a folder from which the rows of sites are read."""

    @property
    def path(self) -> Path:
        """The file or the folder."""

    def survey(self) -> Survey:
        """The sites and their sizes."""

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """Columns as finite floats, by site, of the given sites; of all sites if None."""

    def tables(
        self, columns: Sequence[str], sites: Sequence[str] | None, as_text: Sequence[str] = ()
    ) -> dict[str, pd.DataFrame]:
        """Columns as they stand in the file, by site; those of `as_text` are not made numbers."""

    def place(self, site: str, row: int) -> str:
        """Where a row is, for error messages; `row` is its number in the file, from 0."""


@dataclass(frozen=True)
class SiteFile:
    """One file; a column of it names the site of each row."""

    path: Path
    column: str

    def survey(self) -> Survey:
        """The sites and their sizes, from a single column."""
        names, numbers = site_names(read_labels(self.path, self.column))
        return Survey(names, np.bincount(numbers, minlength=len(names)))

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """Columns by site; the index of a table has the rows' numbers in the file."""
        frame, numbers, names = self._read(columns, sites)
        frame = numeric_columns(frame, columns, self.path)
        return _by_site(frame, numbers, names, names if sites is None else sites)

    def tables(
        self, columns: Sequence[str], sites: Sequence[str] | None, as_text: Sequence[str] = ()
    ) -> dict[str, pd.DataFrame]:
        """Columns as they stand in the file, by site."""
        frame, numbers, names = self._read(columns, sites, as_text)
        return _by_site(frame, numbers, names, names if sites is None else sites)

    def _read(
        self, columns: Sequence[str], sites: Sequence[str] | None, as_text: Sequence[str] = ()
    ) -> tuple[pd.DataFrame, np.ndarray, list[str]]:
        """The rows of some sites, the place of each row's site, and the names of all sites."""
        labels = read_labels(self.path, self.column)
        names, numbers = site_names(labels)
        wanted, chosen = None, None
        if sites is not None:
            place = {site: k for k, site in enumerate(names)}
            wanted = np.isin(numbers, [place[site] for site in sites])
            chosen = Selection(self.column, pd.unique(labels[wanted]))
            numbers = numbers[wanted]
        frame = read_rows(self.path, columns, wanted, chosen, True, as_text)
        return frame, numbers, names

    def place(self, site: str, row: int) -> str:
        """The line, the file and the site of a row."""
        return (
            f"{find_rows(self.path, np.array([row])).as_text()[0]} of {self.path} (site {site!r})"
        )


@dataclass(frozen=True)
class SiteFolder:
    """A folder with one file for each site; the name of the file is that of the site."""

    path: Path

    def survey(self) -> Survey:
        """The sites and their sizes, from the names of the files and their numbers of rows."""
        files = self._files()
        return Survey(list(files), np.array([number_of_rows(file) for file in files.values()]))

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """Columns by site; only the files of those sites are opened."""
        files, found, faults = self._files(), {}, {}
        for site in files if sites is None else sites:
            file = files[site]
            try:
                found[site] = numeric_columns(read_rows(file, columns), columns, file)
            except ColumnError as error:
                faults[file.name] = str(error)
        if faults:
            raise ColumnError(_described(faults))
        return found

    def tables(
        self, columns: Sequence[str], sites: Sequence[str] | None, as_text: Sequence[str] = ()
    ) -> dict[str, pd.DataFrame]:
        """Columns as they stand in the files, by site."""
        files = self._files()
        wanted = list(files) if sites is None else sites
        return {site: read_rows(files[site], columns, as_text=as_text) for site in wanted}

    def place(self, site: str, row: int) -> str:
        """The line and the file of a row."""
        file = self._files()[site]
        return f"{find_rows(file, np.array([row])).as_text()[0]} of {file}"

    def _files(self) -> dict[str, Path]:
        if not self.path.is_dir():
            raise FileNotFoundError(f"no folder of data at {self.path}; check `folder` in [data].")
        visible = [file for file in self.path.iterdir() if file.name[0] != "."]
        packed = sorted(f.name for f in visible if f.suffix in PACKED and is_table(Path(f.stem)))
        if packed:
            raise ValueError(f"{self.path} has compressed files: {packed}; unpack them.")
        files = [file for file in visible if is_table(file)]
        if not files:
            raise ValueError(
                f"{self.path} has no .csv or .parquet file; it needs one for each site."
            )
        names = [file.stem.strip() for file in files]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"{self.path} has two files for each of the sites {twice}; remove one of them."
            )
        by_name = dict(zip(names, files, strict=True))
        return {name: by_name[name] for name in in_order(by_name)}


def _described(faults: dict[str, str]) -> str:
    """The faults of the first files, and the names of further faulty files."""
    further = list(faults)[MAX_FILES_DESCRIBED:]
    more = [f"{len(further)} more files have such faults: {further}."] if further else []
    return " ".join([*list(faults.values())[:MAX_FILES_DESCRIBED], *more])


def _by_site(
    frame: pd.DataFrame, numbers: np.ndarray, names: Sequence[str], wanted: Sequence[str]
) -> dict[str, pd.DataFrame]:
    """The rows of each wanted site; `numbers` has the place of each row's site in `names`."""
    groups = dict(iter(frame.groupby(np.asarray(names)[numbers], sort=False)))
    return {site: groups[site] for site in wanted}


def moments(frame: pd.DataFrame) -> np.ndarray:
    """The moments (5, column) of one site, which is all that it shares; see `Moments`."""
    values = frame.to_numpy(float)
    sums = values.sum(axis=0)
    squares = ((values - sums / len(values)) ** 2).sum(axis=0)
    count = np.full_like(sums, len(values))
    return np.stack([count, sums, squares, values.min(axis=0), values.max(axis=0)])


def standardisation(columns: Sequence[str], by_site: Moments, source: Path) -> Standardisation:
    """The mean and the standard deviation of every column over the rows of all sites.

    Sites are added in the order of their names, so that every process gets equal bits.
    """
    shared = np.stack([by_site[site] for site in sorted(by_site)])
    counts, sums, squares = np.moveaxis(shared[:, :3], 1, 0)
    least, most = shared[:, 3].min(axis=0), shared[:, 4].max(axis=0)
    for name in np.asarray(columns)[least == most]:
        raise ValueError(
            f"column {str(name)!r} of {source} is constant and cannot be standardised; leave it "
            "out of `covariates`."
        )
    total = counts.sum(axis=0)
    mean = sums.sum(axis=0) / total
    between = counts * (sums / counts - mean) ** 2
    return Standardisation(tuple(columns), mean, np.sqrt((squares + between).sum(axis=0) / total))
