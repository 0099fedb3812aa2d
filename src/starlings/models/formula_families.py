"""Where a regression from a formula meets its family, its priors and what varies between sites."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlings.formulas import Encoding
from starlings.models.families import Family
from starlings.models.families.ordinal import Ordinal
from starlings.models.families.problem import regression_problem
from starlings.models.priors import Prior, regression_prior
from starlings.problem import Problem
from starlings.problem.shards import Rows


def asked_of_rows(family: Family) -> dict[str, Any]:
    """What a family asks of the columns of a formula: fields of `starlings.formulas.Request`."""
    return {
        "levels_of_outcome": family.levels_of_outcome,
        "takes_intercept": family.takes_intercept,
    }


def completed(family: Family, encoding: Encoding) -> Family:
    """The family with the levels of the outcome, if it has any, that the sites have agreed on."""
    if isinstance(family, Ordinal):
        return family.with_levels(encoding.levels[encoding.outcome.strip("`")])
    return family


def problem_of(
    encoding: Encoding,
    shards: Mapping[str, Rows],
    family: Family,
    priors: Mapping[str, str | Prior] | None,
    names: Mapping[str, str],
) -> Problem:
    """The problem of a regression, whose description says of family and priors.

    Args:
        encoding: what the sites have agreed on.
        shards: the rows of the local sites.
        family: of the outcomes.
        priors: those that are given, as texts.
        names: what messages call the columns.
    """
    if encoding.random is not None:
        raise ValueError("`random` is not there yet.")
    prior = regression_prior(family, encoding.labels, encoding, priors)
    return regression_problem(shards, encoding.labels, family, prior, names=names)
