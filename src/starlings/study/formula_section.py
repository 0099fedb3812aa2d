"""The section [model] of a study with a formula."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from starlings.formulas import Request
from starlings.models.families import family_of, settings_of_family
from starlings.models.formula_families import asked_of_rows
from starlings.models.formula_regression import formula_of
from starlings.study.sections import Key, Section, Table


@dataclass(frozen=True)
class FormulaSection:
    """The section [model] with a formula; `options` are settings of the family."""

    formula: str
    family: str = "gaussian"
    missing: str | None = None
    random: str | None = None
    offset: str | None = None
    weights: str | None = None
    trials: str | None = None
    levels: Table = field(default_factory=dict)
    reference: Table = field(default_factory=dict)
    priors: Table = field(default_factory=dict)
    options: Table = field(default_factory=dict)

    @property
    def standardise(self) -> bool:
        """Never: a formula has `scale(...)`."""
        return False

    @property
    def columns(self) -> list[str]:
        """The columns that the rows need."""
        return self.request.columns

    @property
    def text_columns(self) -> list[str]:
        """The columns that are categories whatever their entries look like."""
        return list({**self.request.levels, **self.request.categories})

    @cached_property
    def request(self) -> Request:
        """The formula, and what the study says about it."""
        family = family_of(self.family, **self.options)
        return Request.of(
            formula_of(self.formula, family, self.random),
            self.missing,
            self.levels,
            self.reference,
            self.offset,
            self.weights,
            self.trials,
            **asked_of_rows(family),
        )

    @property
    def title(self) -> str:
        """What is to be inferred, in a few words."""
        return f"{self.family} regression, {self.formula}"


def formula_section(section: Section) -> FormulaSection:
    """The section [model] with a formula."""
    if "kind" in section.table:
        raise section.error('has `kind` and `formula`; with a formula write family = "logistic".')
    family = section.table.get("family", FormulaSection.family)
    try:
        settings = settings_of_family(family) if isinstance(family, str) else ()
    except ValueError as error:
        raise section.error(str(error)) from None
    found = section.read(FormulaSection, dict.fromkeys(settings, Key(Any, False)))
    for name in ("levels", "reference", "priors"):
        if not isinstance(getattr(found, name), dict):
            raise section.error(f"`{name}` must be a table [model.{name}].")
    try:
        found.request  # noqa: B018  an error in it names the file
    except ValueError as error:
        raise section.error(str(error)) from None
    return found
