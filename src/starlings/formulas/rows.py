"""The rows of one site: its table, which rows are complete, and where a row is, for errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from starlings.errors import FormulaError
from starlings.formulas.tables import KINDS, check_columns, entries_of
from starlings.problem.columns import RowError


@dataclass(frozen=True)
class SiteRows:
    """The rows of one site."""

    site: str
    table: pd.DataFrame
    """All columns that a formula uses, and perhaps more; rows are numbered from 0."""
    numbers: np.ndarray
    """The number of each row where the user counts it, (row,)."""
    place: Callable[[int], str] = field(default=lambda row: f"row {row}")
    """From the number of a row to where it is, in words."""

    @classmethod
    def of(
        cls, site: str, table: pd.DataFrame, place: Callable[[int], str] | None = None
    ) -> SiteRows:
        """The rows of a site, of which the index has the numbers."""
        own = {} if place is None else {"place": place}
        return cls(site, table.reset_index(drop=True), np.asarray(table.index), **own)

    def counts(self, columns: Sequence[str]) -> np.ndarray:
        """Rows, complete rows, and for each column its missing entries and those of each kind."""
        check_columns(self.table, columns, f" of site {self.site!r}")
        counts = [len(self.table), int(self.is_complete(columns).sum())]
        for name in columns:
            kinds = entries_of(self.table[name]).kinds
            counts += np.bincount(kinds + 1, minlength=1 + len(KINDS)).tolist()
        return np.array(counts, float)

    def is_complete(self, columns: Sequence[str]) -> np.ndarray:
        """Whether a row has no missing entry in these columns, (row,)."""
        complete = np.ones(len(self.table), bool)
        for name in columns:
            complete &= entries_of(self.table[name]).kinds >= 0
        return complete

    def missing(self, columns: Sequence[str]) -> dict[str, int]:
        """The number of missing entries of each column that has any."""
        found = {name: int((entries_of(self.table[name]).kinds < 0).sum()) for name in columns}
        return {name: count for name, count in found.items() if count}

    def complete(self, columns: Sequence[str]) -> SiteRows:
        """The rows without a missing entry; if there are none, that is an error."""
        kept = self.is_complete(columns)
        if not len(kept):
            raise FormulaError(f"site {self.site!r} has no rows; leave it out.")
        if not kept.any():
            raise FormulaError(
                f"site {self.site!r} has no row without a missing entry, of {len(kept)}: "
                f"{self.missing(columns)}. Leave this site out, or the columns with most of them."
            )
        table = self.table[kept].reset_index(drop=True)
        return SiteRows(self.site, table, self.numbers[kept], self.place)

    @contextmanager
    def named(self) -> Iterator[None]:
        """A context in which errors about a row, or about these rows, name the site."""
        try:
            yield
        except RowError as error:
            where = self.place(int(self.numbers[error.row]))
            note = "; rows are counted from 0" if where.startswith("row ") else ""
            site = "" if self.site in where else f" of site {self.site!r}"
            raise FormulaError(f"{error.text} in {where}{site}{note}.") from None
        except FormulaError as error:
            named = str(error) if self.site in str(error) else f"site {self.site!r}: {error}"
            raise FormulaError(named) from None
