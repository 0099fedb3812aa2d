"""A regression whose rows have been read, and on whose columns the sites have yet to agree.

Between organisations all that a site can check alone is checked before anything is sent; the
columns of a formula (levels, knots, means) are agreed when the sites are connected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from starlings.errors import FormulaError
from starlings.formulas import Encoding, Request, SiteRows, Sums
from starlings.formulas.over_network import sums_over
from starlings.formulas.tables import NUMBERS, entries_of
from starlings.models.families import family_of
from starlings.models.formula_regression import agreed_problem, encoded_problem
from starlings.network import Network
from starlings.privacy.guard_rails import GuardRails
from starlings.problem import Problem
from starlings.problem.columns import RowError
from starlings.problem.shards import Rows
from starlings.study.formula_section import FormulaSection
from starlings.study.sources import Source
from starlings.study.tables import ColumnError


@dataclass(frozen=True)
class Draft:
    """The rows of some sites, and the regression that is asked for."""

    path: Path
    """The study, which errors name."""
    model: FormulaSection
    rows: Sequence[SiteRows]
    about: Mapping[str, Any]
    """What results record of the study."""
    request: Request

    @classmethod
    def read(
        cls,
        path: Path,
        model: FormulaSection,
        source: Source,
        sites: Sequence[str] | None,
        about: Mapping[str, Any],
    ) -> Draft:
        """Read the rows of sites.

        Args:
            path: the study.
            model: its section [model].
            source: where the rows are.
            sites: the sites whose rows are read; all if None.
            about: what results record of the study.
        """
        try:
            tables = source.tables(model.columns, sites, model.text_columns)
        except ColumnError as error:
            raise ColumnError(f"{path}: {error}") from None
        rows = [
            SiteRows.of(site, table, partial(source.place, site)) for site, table in tables.items()
        ]
        return cls(path, model, rows, about, model.request)

    @property
    def shards(self) -> dict[str, Rows]:
        """The columns of each site as they were read: numbers, and text with a fixed length."""
        return {
            each.site: {name: _as_array(each.table[name]) for name in self.request.columns}
            for each in self.rows
        }

    def checked(self, rails: GuardRails, num_sites: int, is_masked: bool) -> Draft:
        """This draft, if the rows alone keep the limits of their site.

        Args:
            rails: the limits.
            num_sites: the number of all sites.
            is_masked: whether the names of rare levels may not be told either.
        """
        shards = {}
        for each in self.rows:
            self.request.check_own_gaps(each)
            used = each.complete(self.request.columns)
            shards[used.site] = {
                name: entries_of(used.table[name]).codes for name in self.request.columns
            }
        measured = self.request.formula.outcome.value.columns
        rails.check(num_sites, len(list(self.request.formula.terms.parsed)), shards, 1, measured)
        fewest = rails.fewest_rows_in_category if is_masked else 0
        return dataclasses.replace(
            self, request=dataclasses.replace(self.request, fewest_in_level=fewest)
        )

    def problem(self, network: Network) -> Problem:
        """The problem, after the sites of a network have agreed on it; all of them call this."""
        return self.agreed(sums_over(network))

    def agreed(self, sums: Sums) -> Problem:
        """The problem, agreed by sums over all sites."""
        return self._made(partial(agreed_problem, self.request, self.rows, sums))

    def encoded(self, encoding: Encoding) -> Problem:
        """The problem with an encoding that was agreed before."""
        return self._made(partial(encoded_problem, self.request, self.rows, encoding))

    def _made(self, make: Any) -> Problem:
        try:
            family = family_of(self.model.family, **self.model.options)
            return make(family, self.model.priors).with_description(**self.about)
        except FormulaError as error:
            raise FormulaError(f"{self.path}: {error}") from None
        except RowError as error:
            raise ValueError(f"{self.path}: {error.text}.") from None


def _as_array(column: Any) -> np.ndarray:
    """A column as numbers, or else as text of a fixed length, whose bytes say what is in it."""
    entries = entries_of(column)
    is_numbers = bool((entries.kinds <= NUMBERS).all())
    return entries.numbers if is_numbers else entries.labels.astype(str)
