"""Weakly informative priors on the scale of the data, where a user gives none.

With the mean m_j and the standard deviation s_j of column j over the rows of all sites, the mean o
of the offsets, and s the scale of the predictor (the standard deviation of the outcomes if eta has
their unit, or else 1),

    beta_j                            ~ normal(0, 2.5 s / s_j)                              (1)
    beta_0 + sum_j m_j beta_j + o     ~ normal(c, 2.5 s)                                    (2)

where c is what the predictor may be for an average row, as in rstanarm. Parameters that stand for
an intercept have priors like eq. (2). A column that does not vary counts as one with s_j = 1.
Whatever the units, a covariate's standard deviation then moves eta by at most 5 s, with probability
95 %: logistic coefficients are finite on separable data, and are hardly moved by the prior on
others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from starlings.formulas.encoding import INTERCEPT
from starlings.models.families.family import Family
from starlings.models.priors.joint import Average, RegressionPrior, check_priors
from starlings.models.priors.prior import Prior
from starlings.problem.parameters import Parameter

WIDTH = 2.5
"""Standard deviation of a default prior, in units of the scale of the predictor."""


class Scales(Protocol):
    """What default priors have to know of the rows of all sites."""

    @property
    def means(self) -> Sequence[float]:
        """The mean of every column of x."""

    @property
    def scales(self) -> Sequence[float]:
        """The standard deviation of every column of x; 0 for a constant one."""

    @property
    def outcome_mean(self) -> float:
        """The mean of the outcomes, in their unit."""

    @property
    def outcome_scale(self) -> float:
        """The standard deviation of the outcomes, in their unit."""

    @property
    def offset_mean(self) -> float:
        """The mean of the offsets, in units of the predictor; 0 without any."""


@dataclass(frozen=True)
class DataScale:
    """`Scales` as plain numbers."""

    means: Sequence[float]
    scales: Sequence[float]
    outcome_mean: float = 0.0
    outcome_scale: float = 1.0
    offset_mean: float = 0.0


def default_texts(family: Family, labels: Sequence[str], scale: Scales) -> dict[str, str]:
    """The texts of all default priors, by label and name of a parameter.

    Args:
        family: of the outcomes.
        labels: the names of the columns of x.
        scale: of the data.
    """
    width = WIDTH * family.predictor_scale(scale.outcome_scale)
    centre = family.predictor_centre(scale.outcome_mean)
    texts = {
        label: f"normal(0, {width / (own if own > 0 else 1.0):.3g})"  # (1)
        for label, own in zip(labels, scale.scales, strict=True)
    }
    if INTERCEPT in texts:
        texts[INTERCEPT] = f"normal({centre:.3g}, {width:.3g})"  # (2)
    return {**texts, **family.default_priors(scale.outcome_mean, scale.outcome_scale)}


def regression_prior(
    family: Family,
    labels: Sequence[str],
    scale: Scales,
    given: Mapping[str, str | Prior] | None = None,
    others: Mapping[str, tuple[Parameter, str]] | None = None,
) -> RegressionPrior:
    """The priors that are given, and default ones for all other parameters.

    Args:
        family: of the outcomes.
        labels: the names of the columns of x.
        scale: of the data.
        given: texts by the label of a coefficient, by the name of a categorical term, such as
            "C(ward)" for all its levels, or by the name of another parameter. That of an
            intercept is of the parameter itself, where all covariates are 0.
        others: parameters that neither `beta` nor the family has, such as standard deviations
            between sites, each with the text of its default prior.
    """
    own, more = _of_labels(given or {}, labels), others or {}
    parameters = {**family.parameters(), **{name: block for name, (block, _) in more.items()}}
    check_priors(own, tuple(labels), parameters)
    defaults = {
        **default_texts(family, labels, scale),
        **{k: text for k, (_, text) in more.items()},
    }
    texts = {**defaults, **own}
    average = _average(family, labels, scale, own)
    return RegressionPrior.of(texts, tuple(labels), parameters, average)


def _average(
    family: Family, labels: Sequence[str], scale: Scales, given: Mapping[str, object]
) -> Average | None:
    """The average row, for the default priors of an intercept and of what stands for it."""
    own = {INTERCEPT: 1.0} if INTERCEPT in labels else {}
    signs = {**own, **family.intercepts}
    kept = tuple((name, sign) for name, sign in signs.items() if name not in given)
    pairs = zip(labels, scale.means, strict=True)
    means = tuple(0.0 if label == INTERCEPT else float(mean) for label, mean in pairs)
    return Average(means, float(scale.offset_mean), kept) if kept else None


def _of_labels(given: Mapping[str, str | Prior], labels: Sequence[str]) -> dict[str, str | Prior]:
    """The given priors, with that of a term for each of its levels unless they have their own."""
    levels = {
        label: text
        for term, text in given.items()
        for label in labels
        if term not in labels and label.startswith(f"{term}[")
    }
    terms = {term for term in given if any(label.startswith(f"{term}[") for label in labels)}
    return {**levels, **{k: text for k, text in given.items() if k in labels or k not in terms}}
