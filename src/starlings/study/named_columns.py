"""The regression of a study that names its outcome and its covariates, all of them numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from starlings.errors import ConstantColumnWarning
from starlings.problem import Problem
from starlings.problem.columns import RowError
from starlings.study.schema import MODELS, ModelSection
from starlings.study.sources import Moments, Source, moments, standardisation
from starlings.study.standardising import Standardisation
from starlings.study.tables import ColumnError


@dataclass(frozen=True)
class NamedColumns:
    """A regression of one column on others, and where the rows are."""

    path: Path
    """The study, which errors name."""
    model: ModelSection
    source: Source

    def problem(
        self,
        sites: Sequence[str] | None,
        share: Callable[[Moments], Moments],
        about: Mapping[str, Any],
    ) -> Problem:
        """The problem of some sites, or of all; see `Study.make_problem`.

        Args:
            sites: the sites whose rows are read; all if None.
            share: from the moments of these sites to those of all sites.
            about: what results record of the study.
        """
        rows = self._rows(sites)
        scale = self._standardisation(rows, share)
        X = pd.concat(rows.values())[self.model.covariates]
        y = pd.concat(rows.values())[self.model.outcome]
        numbers = np.repeat(np.arange(len(rows)), [len(frame) for frame in rows.values()])
        try:
            X = X if scale is None else scale.of(X)
            problem = self._regression(X, y, numbers, has_all_rows=sites is None)
            problem = problem.renamed(list(rows)).with_description(**about)
            return self._reported(problem, scale)
        except RowError as error:
            site = list(rows)[numbers[error.row]]
            place = self.source.place(site, int(y.index[error.row]))
            raise ValueError(f"{error.text} in {place}.") from None

    def _rows(self, sites: Sequence[str] | None) -> dict[str, pd.DataFrame]:
        """The columns of the sites; an error names the study too."""
        try:
            return self.source.read(self.model.columns, sites)
        except ColumnError as error:
            raise ColumnError(f"{self.path}: {error}") from None

    def _standardisation(
        self, rows: Mapping[str, pd.DataFrame], share: Callable[[Moments], Moments]
    ) -> Standardisation | None:
        """The means and standard deviations of the covariates; None if they stay as they are."""
        covariates = self.model.covariates
        if not (self.model.standardise and covariates):
            return None
        local = {site: moments(frame[covariates]) for site, frame in rows.items()}
        scale = standardisation(covariates, share(local), self.source.path)
        return scale if self.model.intercept else scale.without_centring()

    def _regression(
        self, X: pd.DataFrame, y: pd.Series, sites: np.ndarray, has_all_rows: bool
    ) -> Problem:
        with warnings.catch_warnings():
            if not has_all_rows:  # a column that is constant here may vary at other sites
                warnings.simplefilter("ignore", ConstantColumnWarning)
            settings = {"intercept": self.model.intercept, **self.model.options}
            return MODELS[self.model.kind](X, y, sites, **settings)

    def _reported(self, problem: Problem, scale: Standardisation | None) -> Problem:
        """The problem with `beta` in the original units of columns that were standardised."""
        if scale is None:
            return problem
        problem = problem.with_report(scale.report(self.model.intercept))
        return problem.with_description(standardised=scale.record())
