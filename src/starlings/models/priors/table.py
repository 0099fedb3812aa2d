"""The priors of a regression as a small table, with what each of them means."""

from __future__ import annotations

import numpy as np

from starlings.models.families.family import Family
from starlings.models.priors.joint import INTERCEPT, RegressionPrior
from starlings.models.priors.prior import Prior

INSIDE = (0.025, 0.975)
"""The probabilities below the ends of the interval that a table has."""


def priors_as_text(prior: RegressionPrior, family: Family) -> str:
    """A table in plain text: every parameter, its prior, and where 95 % of the prior is.

    Args:
        prior: of all parameters.
        family: of the outcomes; if exp of a coefficient means something, its interval is there too.
    """
    heading = ["parameter", "prior", "95 % between"]
    pairs = zip(prior.labels, prior.beta.priors, strict=True)
    rows = [[_called(label, prior), str(own), *_intervals(label, own)] for label, own in pairs]
    rows += [[name, str(own), _interval(own), ""] for name, own in prior.others]
    if family.ratio is None:
        return _aligned([heading, *(row[:3] for row in rows)])
    return _aligned([[*heading, f"as {family.ratio}"], *rows])


def _called(label: str, prior: RegressionPrior) -> str:
    """A coefficient, with a word for an intercept whose prior is that of an average row."""
    is_centred = label == INTERCEPT and prior.means is not None
    return f"{label} (of {prior.intercept_is})" if is_centred else label


def _intervals(label: str, prior: Prior) -> list[str]:
    """Where most of a coefficient's prior is, as it is and as a ratio; an intercept is no ratio."""
    return [_interval(prior), "" if label == INTERCEPT else _interval(prior, is_exp=True)]


def _interval(prior: Prior, is_exp: bool = False) -> str:
    if not prior.is_proper:
        return "anything"
    ends = prior.quantile(INSIDE)
    with np.errstate(over="ignore"):
        low, high = np.exp(ends) if is_exp else ends
    return f"{low:.2g} and {high:.2g}"


def _aligned(rows: list[list[str]]) -> str:
    """Columns of one width each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)
