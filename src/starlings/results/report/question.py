"""What was asked: the outcome, the covariates and the model, in words and in numbers of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from starlings.results.answers.model import COEFFICIENTS, family_in, regression_of
from starlings.results.groups import model_record

RATIO_OF = {
    "odds ratio": "odds",
    "rate ratio": "rate",
    "hazard ratio": "hazard",
    "time ratio": "time",
    "ratio of means": "mean",
}
"""What a ratio is the ratio of."""
RATIO_IN_WORDS = {
    "odds ratio": "The odds of an outcome are how often it happens for every time that it does "
    "not: 1 to 4 are odds of 0.25. An odds ratio of 2 doubles them, and one of 1 means no "
    "difference.",
    "rate ratio": "A rate ratio of 2 means twice as many events in the same time, and one of 1 "
    "means no difference.",
    "hazard ratio": "The hazard is how often the event happens, per unit of time, among those that "
    "it has not happened to. A hazard ratio of 2 doubles it, and one of 1 means no difference.",
    "time ratio": "A time ratio of 2 means that it takes twice as long until the event, and one of "
    "1 means no difference.",
    "ratio of means": "A ratio of 2 doubles the mean, and one of 1 means no difference.",
}
"""Ratios in words, for people who have not met them."""


MOST_LETTERS = 250
"""Letters of the names of covariates in the question, at most."""


@dataclass(frozen=True)
class Site:
    """What is said of one site."""

    name: str
    rows: int | None
    """The number of rows that were used; None if nobody was told."""
    dropped: int
    """Rows that were left out for a missing entry."""
    missing: str
    """Its missing entries by column, in words."""


@dataclass(frozen=True)
class Question:
    """What was asked, of whom."""

    attrs: Mapping[str, Any]
    agents: list[str]
    posterior: xr.Dataset = field(repr=False)

    @property
    def model(self) -> dict[str, Any]:
        """What the result says of its model."""
        return model_record(self.attrs)

    @property
    def is_regression(self) -> bool:
        """Whether the model has coefficients of covariates."""
        return self.model.get("kind") == "regression" and COEFFICIENTS in self.posterior

    @property
    def outcome(self) -> str | None:
        """The outcome as its user calls it; None if it has no name."""
        if "regression" in self.model:
            return str(self.model["regression"]["encoding"]["outcome"])
        section = self.model.get("model")
        return section.get("outcome") if isinstance(section, Mapping) else None

    @property
    def covariates(self) -> list[str]:
        """The names of what the outcome depends on."""
        return regression_of(self.attrs, self.posterior).variables if self.is_regression else []

    @property
    def first_covariates(self) -> list[str]:
        """The first of them, as many as a sentence can have."""
        names = self.covariates
        lengths = np.cumsum([len(name) for name in names])
        return names[: max(1, int((lengths <= MOST_LETTERS).sum()))]

    @property
    def formula(self) -> str | None:
        """The formula as it was written."""
        return self.model.get("regression", {}).get("formula") or self.model.get("formula")

    @property
    def family(self) -> str | None:
        """The kind of regression, in words."""
        found = family_in(self.attrs) if self.is_regression else None
        return None if found is None else found.title

    @property
    def link(self) -> str | None:
        """What the parts of all covariates add up to, in words."""
        found = family_in(self.attrs) if self.is_regression else None
        return None if found is None else found.link.removeprefix("eta is ")

    @property
    def ratio(self) -> str | None:
        """What exp of a coefficient is."""
        found = family_in(self.attrs) if self.is_regression else None
        return None if found is None else found.ratio

    @property
    def levels(self) -> Mapping[str, Any]:
        """The levels of categorical columns, the reference first."""
        return self.model.get("regression", {}).get("encoding", {}).get("levels", {})

    @property
    def outcome_levels(self) -> str:
        """Which level of an outcome of categories is meant, in words; empty for a number."""
        levels = list(self.levels.get((self.outcome or "").strip("`"), ()))
        if len(levels) == 2:
            return f"The outcome “happens” where it is {levels[1]} rather than {levels[0]}"
        return f"Levels, from the lowest to the highest: {', '.join(levels)}" if levels else ""

    @property
    def priors(self) -> dict[str, str]:
        """What was assumed of every parameter before, as texts."""
        about = self.model.get("regression", {})
        average = about.get("priors_of_average_row", ())
        called = {name: f"{name} (of an average row)" for name in average}
        found = about.get("priors", {})
        return {called.get(name, str(name)): str(text) for name, text in found.items()}

    @property
    def is_in_one_place(self) -> bool:
        """Whether one process had the rows of all sites."""
        return self.attrs.get("processes") == 1 and len(self.agents) > 1

    @property
    def site_names(self) -> list[str]:
        """The sites whose data the result is about."""
        return json.loads(self.attrs.get("data_of", "null")) or self.agents

    @property
    def sites(self) -> list[Site]:
        """Rows and missing entries of every site."""
        rows, gaps = self.model.get("rows", {}), self.model.get("missing_by_site", {})
        return [
            Site(
                name,
                rows.get(name),
                int(gaps.get(name, {}).get("dropped", 0)),
                _counts(gaps.get(name, {}).get("entries", {})),
            )
            for name in self.site_names
        ]

    @property
    def has_gaps(self) -> bool:
        """Whether any row was left out."""
        return any(site.dropped for site in self.sites)

    @property
    def num_rows(self) -> int | None:
        """The rows of all sites; None if nobody was told."""
        known = [site.rows for site in self.sites]
        if None not in known and known:
            return sum(rows for rows in known if rows is not None)
        own = self.model.get("regression", {}).get("encoding", {}).get("rows")
        return own or None

    @property
    def left_out(self) -> str:
        """How many rows of all sites were left out, in words; empty if none were."""
        found = self.model.get("regression", {}).get("missing", {})
        dropped = int(found.get("dropped", 0))
        if not dropped:
            return ""
        verb = "row was" if dropped == 1 else "rows were"
        entries = _counts(found.get("entries", {}))
        return f"{dropped:,} {verb} left out because an entry is missing ({entries})"

    @property
    def title(self) -> str:
        """A title, for those who give none."""
        subject = f"{self.outcome}: an" if self.outcome else "An"
        count = len(self.site_names)
        return (
            f"{subject} analysis of {count} sites together" if count > 1 else f"{subject} analysis"
        )


def _counts(found: Mapping[str, int]) -> str:
    """Numbers by name, such as "age: 3, ward: 1"; none of them is 0."""
    return ", ".join(f"{name}: {count:,}" for name, count in found.items() if count)
