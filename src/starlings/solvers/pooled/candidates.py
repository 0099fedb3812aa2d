"""The points among which the search for the mode chooses, all known after one sum.

From a point x with Newton step p and damped steps q (see `directions`), the candidates are

    x + t p   for t in `MULTIPLES`,   and   x + q                                           (1)

and the next point is the candidate of least F among those that pass two tests. F falls by a part
of what the slope promises (Armijo's test), and from t = 1 upwards it falls from each multiple to
the next (2): a long step does not jump over a ridge to another mode. Where all is going well, a
few of the candidates are enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from starlings.solvers.newton import SUFFICIENT_DECREASE
from starlings.solvers.pooled.directions import Descent
from starlings.solvers.pooled.potential import Derivatives

MULTIPLES = (1.0, 4.0, 1 / 4, 16.0, 8.0, 1 / 2, 1 / 16, 64.0, 2.0, 2.0**-6, 2.0**-11, 2.0**-14)
"""The multiples t of eq. (1), the most useful first. Far from the mode exponential functions make
a whole step too short, by a factor of many, and heavy tails too long."""
FIRST_DAMPED = 4
"""Number of multiples in the list of candidates before the first damped step."""
FEW = 2
"""Number of candidates while whole steps do what they promise."""
ESCAPES = np.array([1.0, -1.0, 4.0, -4.0, 0.25, -0.25, 16.0, -16.0])
"""Multiples of a direction along which F curves downwards, at a point where F has no slope."""
POTENTIAL_ROUNDING = 1e-12
"""Relative error of a computed value of F."""


class Candidates(NamedTuple):
    """Steps from a point, (step, dim)."""

    steps: np.ndarray
    multiples: np.ndarray
    """t of eq. (1) for each step; 0 for a step that is no multiple of p."""

    @classmethod
    def of(cls, descent: Descent, most: int) -> Candidates:
        """The first `most` steps of eq. (1)."""
        multiples, damped = np.array(MULTIPLES), descent.damped
        along = multiples[:, None] * descent.direction
        steps = np.concatenate([along[:FIRST_DAMPED], damped, along[FIRST_DAMPED:]])
        labels = np.insert(multiples, FIRST_DAMPED, np.zeros(len(damped)))
        return cls(steps[:most], labels[:most])  # (1)

    @classmethod
    def escaping(cls, direction: np.ndarray, most: int) -> Candidates:
        """Steps both ways along a direction in which F curves downwards."""
        steps = ESCAPES[:most, None] * direction
        return cls(steps, np.zeros(len(steps)))

    def best(self, here: Derivatives, found: Sequence[Derivatives]) -> int | None:
        """The number of the next point; None if no candidate passes the tests."""
        values = np.array([one.value for one in found])
        rounding = POTENTIAL_ROUNDING * abs(here.value)
        promised = SUFFICIENT_DECREASE * np.minimum(self.steps @ here.gradient, 0.0)
        passes = np.array([one.is_finite for one in found])
        passes &= values <= here.value + promised + rounding
        passes &= self.multiples <= self._longest(values)  # (2)
        if not passes.any():
            return None
        least = values[passes].min()
        return int(np.flatnonzero(passes & (values <= least + rounding))[0])

    def _longest(self, values: np.ndarray) -> float:
        """The multiple up to which F falls from each multiple to the next, from 1 upwards."""
        long = np.flatnonzero(self.multiples >= 1)
        ascending = long[np.argsort(self.multiples[long])]
        for before, after in itertools.pairwise(ascending):
            if not values[after] < values[before]:
                return float(self.multiples[before])
        return np.inf
