"""The best of several settings.

Best is what reaches the target in the fewest rounds, and among equals what remains nearest to the
posterior. Where none reaches it, best is what is nearest after the last round. The worst agent
counts.

Candidates are laid out along a grid, so that neighbours do alike. Where each costs a simulation,
every `STRIDE`-th is judged, and then those between the best of these and its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from starlings.comparison.samplers.measures import WORST
from starlings.samplers import Sampler

STRIDE = 4
"""Settings from one that is judged first to the next, where each costs a simulation."""


class Judged(NamedTuple):
    """One setting, and how it did."""

    sampler: Sampler
    limit: np.ndarray
    """The distances that remain, in the order of `MEASURES`; infinite if it explodes."""
    reached: float
    """Rounds to the target; nan if it is never reached."""
    last: float
    """The distance of the worst agent after the last round."""
    relaxation: float
    """Rounds in which the slowest mode shrinks by a factor e; nan if unknown."""
    reason: str = ""
    """Why it has no distances; empty if it has."""

    @property
    def rank(self) -> tuple[float, float]:
        """The smaller the better."""
        if np.isnan(self.reached):
            return np.inf, self.last
        return self.reached, float(self.limit[WORST])


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

    @property
    def ranked(self) -> list[Judged]:
        """All that could be judged, the best one first."""
        return sorted((each for each in self.tried if not each.reason), key=lambda j: j.rank)


def judged_near_the_best(
    candidates: Sequence[Sampler], judge: Callable[[Sampler], Judged]
) -> list[Judged]:
    """Every `STRIDE`-th candidate, and those near the best of them, in their order."""
    found = {i: judge(candidates[i]) for i in range(0, len(candidates), STRIDE)}
    best = min(found, key=lambda i: (bool(found[i].reason), found[i].rank))
    for i in range(max(0, best - STRIDE + 1), min(len(candidates), best + STRIDE)):
        if i not in found:
            found[i] = judge(candidates[i])
    return [found[i] for i in sorted(found)]
