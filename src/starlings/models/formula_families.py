"""What a regression from a formula needs of its family, its priors and its random effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlings.errors import nearest
from starlings.formulas import Encoding
from starlings.models.families import Family
from starlings.models.families.problem import regression_problem
from starlings.models.priors import Prior, regression_prior
from starlings.models.random_effects import SD, RandomEffects, default_sd_priors
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
    return family.with_levels(encoding.levels.get(encoding.outcome.strip("`"), ()))


def problem_of(
    encoding: Encoding,
    shards: Mapping[str, Rows],
    family: Family,
    priors: Mapping[str, str | Prior] | None,
    names: Mapping[str, str],
) -> Problem:
    """The problem of a regression.

    Args:
        encoding: what the sites have agreed on.
        shards: the rows of the local sites.
        family: of the outcomes.
        priors: those that are given, as texts.
        names: what messages call the columns.
    """
    given = dict(priors or {})
    effects = _effects(encoding, family, given)
    prior = regression_prior(family, encoding.labels, encoding, given)
    return regression_problem(shards, encoding.labels, family, prior, effects=effects, names=names)


def _effects(
    encoding: Encoding, family: Family, given: dict[str, str | Prior]
) -> RandomEffects | None:
    """What varies from site to site, if anything; its priors are taken out of `given`."""
    if encoding.random is None:
        return None
    labels = encoding.random_labels
    unit = family.predictor_scale(encoding.outcome_scale)
    defaults = default_sd_priors(encoding.random_scales, unit)
    found = dict(zip((f"{SD}[{label}]" for label in labels), defaults, strict=True))
    for name in [name for name in given if name.partition("[")[0] == SD]:
        if name not in (SD, *found):
            raise ValueError(
                f"`priors` has {name!r}, but the sites differ in {list(found)}."
                f"{nearest(name, found)}"
            )
        prior = Prior.of(given.pop(name), f"priors[{name!r}]")
        prior.check_fits("positive", name)
        found |= dict.fromkeys(found, prior) if name == SD else {name: prior}
    return RandomEffects(labels, tuple(found.values()), encoding.is_correlated)
