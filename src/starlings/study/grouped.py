"""Rows of sites in a folder of Parquet files or in a database; only what is needed is read.

A column names the site of each row. Which sites there are, and how many rows each has, is found
from that column alone; then the needed columns of the needed sites are read, and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from starlings.problem.shards import lacks_label, site_names
from starlings.problem.tables import as_table
from starlings.study.sources import Survey
from starlings.study.tables import check_columns, numeric_columns
from starlings.system.extras import import_extra


class GroupedRows(ABC):
    """Rows that are read by site, as a `Source` of a study."""

    path: Path
    column: str
    """The column that names the site of each row."""

    @abstractmethod
    def _columns(self) -> list[str]:
        """The names of all columns."""

    @abstractmethod
    def _labels(self) -> pd.DataFrame:
        """The labels of sites, and beside each its number of rows."""

    @abstractmethod
    def _table(self, columns: Sequence[str], labels: Sequence[Any]) -> Any:
        """Columns of the rows that have one of some labels."""

    def survey(self) -> Survey:
        """The sites and their sizes."""
        return Survey(list(self._sites), np.array([rows for _, rows in self._sites.values()]))

    def tables(
        self, columns: Sequence[str], sites: Sequence[str] | None, as_text: Sequence[str] = ()
    ) -> dict[str, pd.DataFrame]:
        """Columns as they are stored, by site, which have types already."""
        check_columns(self._columns(), columns, self.path)
        wanted = list(self._sites) if sites is None else sites
        return {
            site: as_table(self._table(columns, self._sites[site][0])).reset_index(drop=True)
            for site in wanted
        }

    def read(self, columns: Sequence[str], sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """Columns as finite floats, by site."""
        tables = self.tables(columns, sites)
        return {site: numeric_columns(t, columns, self._of(site)) for site, t in tables.items()}

    def place(self, site: str, row: int) -> str:
        """The number of a row among those of its site."""
        return f"row {row} of {self._of(site)}, counted from 0"

    def _of(self, site: str) -> str:
        return f"{self.path} (site {site!r})"

    @cached_property
    def _sites(self) -> dict[str, tuple[list[Any], int]]:
        """By site, in order: the labels that name it, and its number of rows."""
        check_columns(self._columns(), [self.column], self.path)
        found = self._labels()
        if not len(found):
            raise ValueError(f"{self.path} has no rows.")
        labels, counts = found.iloc[:, 0].to_numpy(object), found.iloc[:, 1].to_numpy(int)
        if (missing := lacks_label(labels)).any():
            raise ValueError(
                f"{self.path} names no site in column {self.column!r} in {counts[missing].sum()} "
                "rows; label or drop them."
            )
        names, numbers = site_names(labels)
        return {
            name: (labels[numbers == k].tolist(), int(counts[numbers == k].sum()))
            for k, name in enumerate(names)
        }


@dataclass(frozen=True)
class ParquetFolder(GroupedRows):
    """A folder of Parquet files that are one table, such as `hospital=Ashby/part-0.parquet`.

    A folder within it that is called NAME=ENTRY is a column NAME, whose entries are text.
    """

    path: Path
    column: str

    @cached_property
    def _dataset(self) -> Any:
        if not self.path.is_dir():
            raise FileNotFoundError(f"no folder of data at {self.path}; check `folder` in [data].")
        files = sorted(self.path.rglob("*.parquet"))
        if not files:
            raise ValueError(f"{self.path} has no .parquet file, in it or in folders within it.")
        dataset = import_extra("pyarrow.dataset", f"reading {self.path}", extra="parquet")
        pyarrow = import_extra("pyarrow", f"reading {self.path}", extra="parquet")
        folders = files[0].relative_to(self.path).parts[:-1]
        keys = [part.partition("=")[0] for part in folders if "=" in part]
        schema = pyarrow.schema([(key, pyarrow.string()) for key in keys])
        try:
            return dataset.dataset(
                [str(file) for file in files],
                format="parquet",
                partitioning=dataset.partitioning(schema, flavor="hive") if keys else None,
            )
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{self.path} cannot be read as Parquet: {error}") from None

    def _columns(self) -> list[str]:
        return list(self._dataset.schema.names)

    def _labels(self) -> pd.DataFrame:
        table = self._dataset.to_table(columns=[self.column])
        return as_table(
            table.group_by(self.column, use_threads=False).aggregate([([], "count_all")])
        )

    def _table(self, columns: Sequence[str], labels: Sequence[Any]) -> Any:
        compute = import_extra("pyarrow.compute", f"reading {self.path}", extra="parquet")
        return self._dataset.to_table(
            columns=list(columns), filter=compute.field(self.column).isin(list(labels))
        )


@dataclass(frozen=True)
class Database(GroupedRows):
    """A table or a query of a DuckDB database, which is opened for reading only."""

    path: Path
    column: str
    table: str | None = None
    query: str | None = None
    """SQL, without a semicolon at its end. Its rows keep their order if it has ORDER BY."""

    def _columns(self) -> list[str]:
        return list(self._run("*", "LIMIT 0").columns)

    def _labels(self) -> pd.DataFrame:
        label = _quoted(self.column)
        return self._run(
            f"{label} AS label, count(*) AS rows", f"GROUP BY {label} ORDER BY {label}"
        )

    def _table(self, columns: Sequence[str], labels: Sequence[Any]) -> Any:
        marks = ", ".join("?" for _ in labels)
        some = f"WHERE {_quoted(self.column)} IN ({marks})"
        return self._run(", ".join(map(_quoted, columns)), some, labels)

    def _run(self, what: str, which: str, values: Sequence[Any] = ()) -> pd.DataFrame:
        duckdb = import_extra("duckdb", f"reading {self.path}", extra="duckdb")
        if not self.path.is_file():
            raise FileNotFoundError(f"no database at {self.path}; check `database` in [data].")
        rows = f"({self.query})" if self.table is None else _quoted(self.table)
        try:
            with duckdb.connect(str(self.path), read_only=True) as connection:
                found = connection.sql(f"SELECT {what} FROM {rows} {which}", params=list(values))
                return as_table(found)
        except duckdb.Error as error:
            raise ValueError(f"{self.path} cannot be read: {error}") from None


def _quoted(name: str) -> str:
    """A name of SQL, whatever its characters are."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
