"""The best of several settings.

Best is what reaches the target in the fewest rounds; among equals, and where none reaches it, what
is nearest to the posterior in the end. The worst agent counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from starlings.comparison.samplers.measures import WORST
from starlings.samplers import Sampler


class Judged(NamedTuple):
    """One setting, and how it did."""

    sampler: Sampler
    limit: np.ndarray
    """The distances that remain, in the order of `MEASURES`; infinite if it explodes."""
    reached: float
    """Rounds to the target; nan if it is never reached."""
    relaxation: float
    """Rounds in which the slowest mode shrinks by a factor e; nan if unknown."""
    reason: str = ""
    """Why it has no distances; empty if it has."""

    @property
    def rank(self) -> tuple[float, float]:
        """The smaller the better."""
        return (np.inf if np.isnan(self.reached) else self.reached, float(self.limit[WORST]))


@dataclass(frozen=True)
class Choice:
    """The best setting, and all that were tried."""

    best: Judged
    tried: list[Judged]

    @classmethod
    def among(cls, judged: Sequence[Judged]) -> Choice:
        """The best of some; the reason of the first one if none could be judged."""
        tried = list(judged)
        able = [each for each in tried if not each.reason]
        if not able:
            also = f" (and {len(tried) - 1} more)" if len(tried) > 1 else ""
            raise ValueError(f"{tried[0].reason}{also}")
        return cls(min(able, key=lambda each: each.rank), tried)
