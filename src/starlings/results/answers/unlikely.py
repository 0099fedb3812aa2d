"""Which of many tail probabilities are too small to be chance."""

from __future__ import annotations

import pandas as pd

ONE, ALL = 0.02, 0.2
"""Tail probability below which a statistic is unlikely, and mean number of false alarms of all."""


def is_unlikely(tail_probability: pd.Series) -> pd.Series:
    """Return which are small, also for so many: of good models, few tables have any.

    >>> is_unlikely(pd.Series([0.01, 0.5])).tolist()
    [True, False]
    >>> bool(is_unlikely(pd.Series([0.01] + 99 * [0.5])).any())
    False
    """
    return tail_probability < min(ONE, ALL / max(1, len(tail_probability)))
