"""What penalties do to exact laws: only a `Ridge`, which is quadratic, has one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from starlings.errors import NoLawError
from starlings.problem.penalties import Penalty, Ridge
from starlings.theory.laws import Stacked


def precision_of(penalty: Penalty | None) -> float:
    """p of a `Ridge`, and 0 without a penalty."""
    if penalty is None:
        return 0.0
    if isinstance(penalty, Ridge):
        return float(penalty.precision)
    raise NoLawError(
        f"no exact law is known with the penalty {penalty}, which is not quadratic; there is one "
        "with `starlings.Ridge`, and without a penalty."
    )


def envelope_curvature(penalty: Penalty | None, smoothing: float) -> tuple[float, str | None]:
    """q, the largest curvature of an envelope; and if it is not the only one, why no law is known.

    Args:
        penalty: g.
        smoothing: s.
    """
    try:
        p = precision_of(penalty)
    except NoLawError as error:
        return 1 / smoothing, str(error)
    return p / (1 + smoothing * p), None


def with_ridge(s: Stacked, penalty: Penalty | None) -> Stacked:
    """The problem with an equal part of a `Ridge` in the potential of every agent."""
    p = precision_of(penalty)
    return s if p == 0 else replace(s, H=s.H + p / s.shape[0] * np.eye(len(s.b)))
