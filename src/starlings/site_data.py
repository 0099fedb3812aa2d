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

from starlings.data import READERS, Selection, column_names, read_rows, site_labels
from starlings.shards import site_names

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
        """The columns of the rows of some sites, or of all, by site."""


@dataclass(frozen=True)
class SiteFile:
    """One file; a column of it names the site of each row."""

    path: Path
    column: str

    def survey(self) -> Survey:
        """From that column alone."""
        names, numbers = site_names(self._labels())
        return Survey(names, np.bincount(numbers, minlength=len(names)))

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """Rows keep their numbers in the file as their index."""
        labels = self._labels()
        names, numbers = site_names(labels)
        if sites is None:
            return _by_site(read_rows(self.path, columns), numbers, names, names)
        place = {site: k for k, site in enumerate(names)}
        wanted = np.isin(numbers, [place[site] for site in sites])
        chosen = Selection(self.column, np.unique(labels[wanted]))
        frame = read_rows(self.path, columns, wanted, chosen)
        return _by_site(frame, numbers[wanted], names, sites)

    def _labels(self) -> np.ndarray:
        return site_labels(read_rows(self.path, [self.column]), self.column, self.path)


@dataclass(frozen=True)
class SiteFolder:
    """A folder with one file for each site, which is called after it."""

    path: Path

    def survey(self) -> Survey:
        """From the names of the files and their numbers of rows."""
        files = self._files()
        counts = [len(read_rows(file, column_names(file)[:1])) for file in files.values()]
        return Survey(list(files), np.array(counts))

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """Only the files of those sites are opened."""
        files, found = self._files(), {}
        for site in files if sites is None else sites:
            found[site] = read_rows(files[site], columns)
        return found

    def _files(self) -> dict[str, Path]:
        if not self.path.is_dir():
            raise FileNotFoundError(f"no folder of data at {self.path}.")
        files = [f for f in self.path.iterdir() if f.suffix in READERS and f.name[0] != "."]
        if not files:
            raise ValueError(f"{self.path} has no .csv or .parquet file: one for each site.")
        by_name = {file.stem: file for file in files}
        if len(by_name) < len(files):
            names = [file.stem for file in files]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"{self.path} has two files for each of the sites {twice}.")
        numbered = all(name.isdecimal() for name in by_name)
        return {name: by_name[name] for name in sorted(by_name, key=int if numbered else None)}


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


def standardised(X: pd.DataFrame, by_site: Moments, source: Path) -> pd.DataFrame:
    """Columns less their mean over all sites, over their standard deviation.

    Sites are added up in the order of their names, whoever holds them: the same bits everywhere.
    """
    shared = np.stack([by_site[site] for site in sorted(by_site)])
    counts, sums, squares = np.moveaxis(shared[:, :3], 1, 0)
    least, most = shared[:, 3].min(axis=0), shared[:, 4].max(axis=0)
    for name in X.columns[least == most]:
        raise ValueError(f"column {name!r} of {source} is constant and cannot be standardised.")
    total = counts.sum(axis=0)
    mean = sums.sum(axis=0) / total
    apart = counts * (sums / counts - mean) ** 2
    return (X - mean) / np.sqrt((squares + apart).sum(axis=0) / total)
