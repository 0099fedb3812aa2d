"""The search for the mode of the pooled posterior, by Newton's method on sums over the agents.

With F = sum_i f_i, from sums of values, gradients and Hessians that every agent has alike,

    x <- x - t |H|^-1 sum_i grad f_i(x)                                                     (1)

where |H| has the absolute eigenvalues of sum_i Hess f_i, scaled to a unit diagonal first: far from
the mode a Hessian may be indefinite, and the scales of parameters differ by orders of magnitude.
A sum over a network takes time, however little is summed. So an iteration has one sum, of the
derivatives at several `candidates`: the best of them is the next point, and its derivatives are
known already. All agents compute from the same sums, and do not have to tell each other where they
are before the end. Where no candidate is good, values at much shorter steps are summed too. The
last step needs no sum, since nothing depends on its outcome.

Above `LARGEST_DENSE_HESSIAN` parameters only the diagonal of the Hessian is summed, and the
direction is that of L-BFGS started from it.

Automatic differentiation is wrong at the very point where a density has a kink in one of its terms,
such as max(x, 0) or |x| at x = 0, even where the kinks of all terms cancel: the derivative there is
that of one side. Round numbers are such points, so derivatives are taken a little off them, with
w ~ N(0, I) from a seed that all agents share and s_k the smaller of 1 and H_kk^-1/2,

    x_k + KINK_OFFSET s_k w_k                                                                (2)

which moves the mode by a hundred-millionth of a standard deviation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from starlings.solvers.newton import SUFFICIENT_DECREASE
from starlings.solvers.pooled import failures
from starlings.solvers.pooled import potential as potentials
from starlings.solvers.pooled.candidates import FEW, POTENTIAL_ROUNDING, Candidates
from starlings.solvers.pooled.directions import (
    Descent,
    DescentRule,
    LimitedMemoryDescent,
    NewtonDescent,
)
from starlings.solvers.pooled.potential import Derivatives, SummedPotential, most_points

SHORT_FRACTIONS = 2.0 ** -np.arange(1, 31)
"""The fractions of a direction that are tried where no candidate is good."""
RUNAWAY = 6
"""Number of iterations in a row of which the longest step is the best, after which F is taken to
fall without end: by then the search has come millions of Newton steps far."""
CLOSE = 1e-2
"""Nats above the least F from which on a search is not given up before its last iteration."""
PROGRESS = 0.1
"""Factor by which half the squared Newton decrement has to shrink within the rule's `patience`."""
STALLED = 1e-6
"""Half the squared Newton decrement, in nats, below which it may be rounding."""
KINK_OFFSET = 1e-8
"""How far points are moved off possible kinks by eq. (2), in units of s_k."""
PROBE_LENGTH = 1e-3
"""Half the distance, in posterior standard deviations along the direction, of the two points from
whose values a slope is measured."""


class Found(NamedTuple):
    """The end of a search."""

    point: np.ndarray
    hessian: np.ndarray
    iterations: int


class _Place(NamedTuple):
    """A point, the derivatives there, and how the search came there."""

    point: np.ndarray
    here: Derivatives
    multiple: float = 0.0
    """t of eq. (1); 0 for any other kind of step."""
    is_longest: bool = False
    """Whether no longer step was tried."""

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(self.point)


@dataclass
class _Past:
    """What the search remembers of the places where it was."""

    places: list[_Place] = field(default_factory=list)
    decrements: list[float] = field(default_factory=list)
    """Squared Newton decrements at these places."""

    def remember(self, place: _Place, decrement: float) -> None:
        self.places.append(place)
        self.decrements.append(decrement)

    @property
    def is_smooth(self) -> bool:
        """Whether the last step was a whole one, and halved the decrement."""
        return self.places[-1].multiple == 1 and 2 * self.decrements[-1] < self.decrements[-2]

    @property
    def has_stalled(self) -> bool:
        """Whether what remains is rounding: neither F nor a tiny decrement falls any more."""
        if len(self.places) < 2 or self.decrements[-1] / 2 > STALLED or self.is_smooth:
            return False
        before, after = (place.here.value for place in self.places[-2:])
        return before - after <= POTENTIAL_ROUNDING * abs(after)

    def runs_away(self, patience: int, is_level: bool) -> bool:
        """Whether F seems to fall without end.

        Where it is level after the longest step, it is on its way to a bound that it never reaches.
        """
        if is_level:
            return self.places[-1].is_longest
        last = self.places[-RUNAWAY:]
        if len(last) == RUNAWAY and all(place.is_longest for place in last):
            return True
        if len(self.decrements) <= patience:
            return False
        now, then = self.decrements[-1], self.decrements[-1 - patience]
        return now / 2 > CLOSE and now > PROGRESS * then


@dataclass(frozen=True)
class Search:
    """Eq. (1) from one start."""

    potential: SummedPotential
    in_words: failures.InWords
    tolerance: float
    """The search ends when half the squared Newton decrement is below this many nats."""

    def run(self, start: np.ndarray) -> Found:
        """The mode that the search comes to from a start."""
        place, past, rule = self._first(start), _Past(), _descent_rule(len(start))
        for iteration in range(rule.max_iterations):
            descent = rule.next(place.point, place.here)
            past.remember(place, descent.decrement)
            is_level = descent.decrement / 2 < self.tolerance or past.has_stalled
            above = self._escape(place, descent) if is_level else None
            if past.runs_away(rule.patience, is_level):
                break
            if is_level and above is None:
                return self._finish(place, descent, iteration)
            place = above or self._next(place, descent, past.is_smooth)
        raise failures.no_mode(self.in_words(place.point), iteration)

    def _first(self, start: np.ndarray) -> _Place:
        point = self._off_kinks(start, np.ones_like(start))
        here = self.potential.derivatives(point[None])[0]
        if not here.is_finite:
            raise failures.not_finite(self.in_words(point))
        return _Place(point, here)

    def _next(self, place: _Place, descent: Descent, is_smooth: bool) -> _Place:
        """The best candidate: of a few while all is going well, and of all if they are no good."""
        is_quadratic, most = self.potential.agents.quadratic is not None, most_points(place.dim)
        few = 1 if is_quadratic else FEW if is_smooth else most
        for number in sorted({few, most}):
            found = self._best(place, Candidates.of(descent, number))
            if found is not None:
                return found
        return self._shortened(place, descent)

    def _escape(self, place: _Place, descent: Descent) -> _Place | None:
        """A lower point beside a saddle; None if there is none, or F does not curve downwards."""
        if descent.escape is None:
            return None
        return self._best(place, Candidates.escaping(descent.escape, most_points(place.dim)))

    def _best(self, place: _Place, candidates: Candidates) -> _Place | None:
        """The best of some candidates, by one sum; None if none is good."""
        points = self._off_kinks(place.point + candidates.steps, _widths(place.here.hessian))  # (1)
        found = self.potential.derivatives(points, may_be_far=True)
        best = candidates.best(place.here, found)
        if best is None:
            return None
        multiple = float(candidates.multiples[best])
        is_longest = multiple > 1 and multiple == candidates.multiples.max()
        here = found[best]
        if here.hessian is None:
            here = self.potential.derivatives(points[best][None])[0]
        return _Place(points[best], here, multiple, is_longest)

    def _shortened(self, place: _Place, descent: Descent) -> _Place:
        """The longest of many short steps at which F falls enough."""
        steps = SHORT_FRACTIONS[:, None] * descent.direction
        values = self.potential.values(place.point + steps)
        if not np.isfinite(values).any():
            self.potential.refuse_far()
        promised = SUFFICIENT_DECREASE * SHORT_FRACTIONS * descent.decrement
        rounding = POTENTIAL_ROUNDING * abs(place.here.value)
        good = np.flatnonzero(values <= place.here.value - promised + rounding)
        for step in steps[good[:1]]:
            point = self._off_kinks(place.point + step, _widths(place.here.hessian))
            here = self.potential.derivatives(point[None])[0]
            if here.is_finite:
                return _Place(point, here)
        raise self._stuck(place.point, descent)

    def _finish(self, place: _Place, descent: Descent, iterations: int) -> Found:
        """The last step of Newton's method, without a sum."""
        point, hessian = place.point, place.here.hessian
        if hessian.ndim == 2:
            point = self._off_kinks(point + descent.direction, _widths(hessian))  # (1)
        return Found(point, hessian, iterations)

    def _off_kinks(self, points: np.ndarray, widths: np.ndarray) -> np.ndarray:
        """Eq. (2) for points (..., dim); quadratic potentials have no kinks."""
        if self.potential.agents.quadratic is not None:
            return points
        noise = np.random.default_rng(0).standard_normal(points.shape[-1])
        return points + KINK_OFFSET * widths * noise  # (2)

    def _stuck(self, point: np.ndarray, descent: Descent) -> failures.StuckError:
        """The error; the slope is measured from values too, in case the derivatives are wrong."""
        step = PROBE_LENGTH / max(1.0, np.sqrt(descent.decrement))
        ends = point + step * np.array([[1.0], [-1.0]]) * descent.direction
        ahead, behind = self.potential.values(ends)
        measured = (ahead - behind) / (2 * step)
        return failures.stuck(self.in_words(point), -descent.decrement, measured)


def _descent_rule(dim: int) -> DescentRule:
    """Newton's directions, or those of L-BFGS if there are many parameters."""
    is_dense = dim <= potentials.LARGEST_DENSE_HESSIAN
    return NewtonDescent() if is_dense else LimitedMemoryDescent()


def _widths(hessian: np.ndarray) -> np.ndarray:
    """s of eq. (2)."""
    diagonal = hessian if hessian.ndim == 1 else np.diag(hessian)
    return 1 / np.sqrt(np.maximum(np.abs(diagonal), 1.0))
