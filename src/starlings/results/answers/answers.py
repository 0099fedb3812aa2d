"""What a result answers: its table, predictions, contrasts and effects, and their exports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import xarray as xr

from starlings.results.answers.ratios import summary_table
from starlings.results.parameter_table import ParameterTable
from starlings.results.tables import AnswerTable


class Answers(ABC):
    """The answers of a result, all from its draws and its attributes; see `Result`."""

    @property
    @abstractmethod
    def attrs(self) -> dict[str, Any]:
        """How the draws were made, and of which model."""

    @abstractmethod
    def _few(self) -> xr.Dataset:
        """The draws, of a subset of the agents if they are too many."""

    def summary(
        self,
        exp: bool = False,
        prob: float = 0.9,
        parameters: str | Sequence[str] | None = None,
    ) -> ParameterTable:
        """Summarise every parameter in one row for each of its entries, such as `beta[age]`.

        Columns, pooled over chains, draws and agents: `mean`, `sd`, and the quantiles `5%`, `50%`
        and `95%`. Columns for the worst agent: `mcse`, the Monte Carlo standard error of its mean;
        `rhat`, which is nested R-hat where the run has recorded superchains; and `ess_bulk` and
        `ess_tail`, effective sample sizes. `mean_range` is the largest difference between the means
        of two agents, in sd.

        Printed, it is the table of `starlings show`; its numbers are not rounded. `to_csv` and
        `to_json` of the table write them with all digits, `to_latex` and `to_markdown` as printed.

        Draws beyond 1 GiB are summarised by a subset of the agents. With more than 2000 pairs of an
        agent and an entry, the worst agent is looked for among those whose half-chains differ most.

        Args:
            exp: summarise exp(coefficient) instead, from the exponentiated draws: odds ratios of a
                logistic regression, rate ratios of counts, hazard ratios. That of the intercept is
                the odds, or rate, where all covariates are 0.
            prob: the probability of the central interval, whose ends are the columns; with 0.95
                they are `2.5%` and `97.5%`.
            parameters: names of parameters, such as "beta", or of entries, such as "beta[age]"; by
                default all, or with `exp` the coefficients of the regression.
        """
        return summary_table(self._few(), self.attrs, exp, prob, parameters)

    def to_csv(self, path: str | Path | None = None, **which: Any) -> str | None:
        """Write `summary(**which)` as CSV with all digits, or return it as text."""
        return self.summary(**which).to_csv(path)

    def to_json(self, path: str | Path | None = None, **which: Any) -> str:
        """Return `summary(**which)` as JSON, a list with an object for each row; write it, too."""
        return self.summary(**which).to_json(path)

    def to_latex(
        self, path: str | Path | None = None, caption: str = "", label: str = "", **which: Any
    ) -> str:
        """Return `summary(**which)` as a LaTeX table with the rules of booktabs; write it, too."""
        return self.summary(**which).to_latex(path, caption, label)

    def to_markdown(self, path: str | Path | None = None, **which: Any) -> str:
        """Return `summary(**which)` as a Markdown table; write it, too."""
        return self.summary(**which).to_markdown(path)

    def predict(
        self,
        new_rows: Any,
        kind: str = "mean",
        prob: float = 0.9,
        site: str | None = None,
        draws: int | None = None,
        seed: int = 0,
    ) -> AnswerTable:
        """Predict the outcome of new rows: mean, sd and the ends of an interval for each of them.

        It needs this result only, and no row of the data: levels of categories and knots of splines
        are in it. Categories that no site had are refused.

        Args:
            new_rows: a table, or a mapping of column names to values, with the covariates.
            kind: "mean" for the expected outcome, such as a probability or a rate, whose interval
                says how well it is known; "outcome" for single outcomes, whose interval has their
                scatter, too. Of an ordinal outcome both are in numbers of levels, from 0.
            prob: the probability of the interval.
            site: for a model with effects of sites, the site that the rows are of; by default a new
                site like those of the study, whose effect is drawn from their distribution.
            draws: how many draws to use; by default all, up to 4000.
            seed: the same seed gives the same outcomes.
        """
        from starlings.results.answers.prediction import predicted  # families import JAX

        return predicted(self.attrs, self._few(), new_rows, kind, prob, site, draws, seed)

    def contrasts(
        self,
        rows: Any,
        settings: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
        ratio: bool = False,
        prob: float = 0.9,
        site: str | None = None,
    ) -> AnswerTable:
        """Compare expected outcomes between settings of covariates, each with the first one.

        All rows get a setting, and their expected outcomes are averaged: with a table of patients,
        `result.contrasts(patients, {"smoker": [0, 1]})` is by how much the probability of the
        outcome would be higher, on average, were all of them smokers rather than none. It says what
        the model says, which is an effect of smoking only if nothing that matters is left out.

        Args:
            rows: a table, or a mapping of column names to values for one row.
            settings: the values of a column that are compared, `{"ward": ["A", "B", "C"]}`, or
                settings of several columns, `[{"age": 40, "smoker": 0}, {"age": 60, "smoker": 1}]`.
            ratio: compare by ratios instead of differences.
            prob: the probability of the interval.
            site: as in `predict`.
        """
        from starlings.results.answers.contrasts import contrasted  # families import JAX
        from starlings.results.answers.prediction import Predictor

        predictor = Predictor.of(self.attrs, self._few(), site)
        return contrasted(predictor, rows, settings, ratio, prob)

    def effects(
        self,
        rows: Any,
        variables: Sequence[str] | None = None,
        prob: float = 0.9,
        site: str | None = None,
    ) -> AnswerTable:
        """Average marginal effects on the expected outcome, in its unit, over some rows.

        Of a number, the slope: the change of the expected outcome for one unit of the covariate, at
        the rows as they are. Of a category, the change from the reference level to each other one;
        of a truth value, that from False to True.

        Args:
            rows: a table of rows to average over, or a mapping of column names to values for a
                single row of reference.
            variables: the covariates; by default all.
            prob: the probability of the interval.
            site: as in `predict`.
        """
        from starlings.results.answers.contrasts import effects  # families import JAX
        from starlings.results.answers.prediction import Predictor

        return effects(Predictor.of(self.attrs, self._few(), site), rows, variables, prob)
