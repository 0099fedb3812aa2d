"""Central intervals: which quantiles they end at, and what the columns of a table call them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

MEDIAN = "50%"
"""The name of the column of medians."""


def interval_levels(prob: float) -> dict[str, float]:
    """Return the probabilities of the ends of a central interval and of the median, by column name.

    >>> interval_levels(0.95)
    {'2.5%': 0.025, '50%': 0.5, '97.5%': 0.975}

    Args:
        prob: the probability of the interval, above 0 and below 1.
    """
    if isinstance(prob, bool) or not isinstance(prob, int | float) or not 0 < prob < 1:
        raise ValueError(f"`prob` must be a probability above 0 and below 1, got {prob!r}.")
    lower = round((1 - prob) / 2, 12)
    return {_name(lower): lower, MEDIAN: 0.5, _name(1 - lower): 1 - lower}


def _name(level: float) -> str:
    return f"{100 * level:.6g}%"


def is_quantile(column: Any) -> bool:
    """Return whether a column has quantiles, by its name."""
    return str(column).endswith("%")


def moments_and_interval(draws: np.ndarray, prob: float) -> pd.DataFrame:
    """Return mean, sd and quantiles of draws (draw, row), one line for each row.

    Args:
        draws: the draws; infinite ones make mean and sd infinite or unknown, and no quantile wrong.
        prob: the probability of the central interval.
    """
    levels = interval_levels(prob)
    with np.errstate(all="ignore"):
        columns = [draws.mean(axis=0), draws.std(axis=0)]
        columns += list(np.quantile(draws, list(levels.values()), axis=0))
    return pd.DataFrame(dict(zip(["mean", "sd", *levels], columns, strict=True)))
