"""The priors of a regression as a small table, with what each of them means."""

from __future__ import annotations

import numpy as np

from starlings.formulas.encoding import INTERCEPT
from starlings.models.families import FAMILIES
from starlings.models.priors.prior import Prior
from starlings.problem import Problem

INSIDE = (0.025, 0.975)
"""The probabilities below the ends of the interval that a table has."""


def priors_of(problem: Problem) -> str:
    """A table in plain text: every parameter, its prior, and where 95 % of the prior is.

    If exp of a coefficient means something, such as an odds ratio, its interval is there too.

    Args:
        problem: a regression, with its family and priors in its description.
    """
    about = problem.description.get("regression", {})
    if "priors" not in about:
        raise ValueError(
            "`problem` has no priors in its description, as only regressions of a family have; "
            "look at the `log_prior` that it was made with."
        )
    ratio = getattr(FAMILIES.get(about["family"]), "ratio", None)  # of a family elsewhere: unknown
    labels = problem.parameters.blocks["beta"].labels or ()
    rows = [["parameter", "prior", "95 % between", f"as {ratio}"]]
    for name, text in about["priors"].items():
        prior, is_average = Prior.of(text), name in about.get("priors_of_average_row", ())
        has_ratio = name in labels and name != INTERCEPT
        called = f"{name} (of an average row)" if is_average else name
        as_ratio = _interval(prior, is_exp=True) if has_ratio else ""
        rows.append([called, str(prior), _interval(prior), as_ratio])
    return _aligned(rows if ratio is not None else [row[:3] for row in rows])


def _interval(prior: Prior, is_exp: bool = False) -> str:
    """The ends of an interval, with two digits."""
    if not prior.is_proper:
        return "anything"
    ends = prior.quantile(INSIDE)
    with np.errstate(over="ignore"):
        low, high = (f"{float(f'{end:.2g}'):g}" for end in (np.exp(ends) if is_exp else ends))
    return f"{low} and {high}"


def _aligned(rows: list[list[str]]) -> str:
    """Columns of one width each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)
