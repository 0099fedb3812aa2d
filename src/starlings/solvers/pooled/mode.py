"""The mode of the pooled posterior, by Newton's method on sums over the agents.

With F = sum_i f_i, from sums of values, gradients and Hessians that every agent has alike,

    x <- x - t |H|^-1 sum_i grad f_i(x),   t = 1, 1/2, 1/4, ... until F falls               (1)

where |H| has the absolute eigenvalues of sum_i Hess f_i, scaled to a unit diagonal first: far from
the mode a Hessian may be indefinite, and the scales of parameters differ by orders of magnitude.
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np

from starlings.errors import TuningError
from starlings.problem import Problem
from starlings.solvers.newton import SUFFICIENT_DECREASE
from starlings.solvers.pooled import potential as potentials
from starlings.solvers.pooled.directions import DescentRule, LimitedMemoryDescent, NewtonDescent
from starlings.solvers.pooled.potential import Derivatives, LocalPotential, SummedPotential

MAX_NEWTON_ITERATIONS = 200
"""Number of iterations of eq. (1) after which the search is given up."""
DECREASE_TOLERANCE = 1e-9
"""The search ends by default when half the squared Newton decrement, by which F (a negative
log-density, in nats) could still fall, is below this."""
STEP_FRACTIONS = 2.0 ** -np.arange(20)
"""The fractions t of a direction that are tried, in eq. (1)."""
POTENTIAL_ROUNDING = 1e-12
"""Relative error of a computed value of F."""
KINK_OFFSET = 1e-8
"""How far points are moved off possible kinks by eq. (2), in units of s_k."""
PROBE_LENGTH = 1e-3
"""Half the distance, in posterior standard deviations along the direction, of the two points from
whose values a slope is measured."""
SLOPE_TOLERANCE = 0.1
"""Relative difference up to which a slope by values and one by derivatives count as equal."""
OTHER_STARTS = (0.1, 1.0, 1.0, 1.0, 3.0)
"""Standard deviations of the random starts that are tried after the origin, in unconstrained
coordinates."""

InWords = Callable[[np.ndarray], str]
"""Describes a point to people, for messages."""


class _StuckError(TuningError):
    """The search cannot move from where it is; from another start it may."""


class Mode(NamedTuple):
    """The point at which the summed potential is least."""

    point: np.ndarray
    """Unconstrained coordinates, (dim,)."""
    hessian: np.ndarray
    """The summed Hessian there: a matrix, or above `LARGEST_DENSE_HESSIAN` its diagonal."""
    iterations: int
    """Iterations of eq. (1) that were needed."""


def find_mode(
    potential: SummedPotential,
    starts: Sequence[np.ndarray],
    in_words: InWords = str,
    tolerance: float = DECREASE_TOLERANCE,
) -> Mode:
    """The mode by eq. (1).

    Args:
        potential: F, with sums over a network or in this process.
        starts: where to begin, unconstrained; the next one is tried where the search gets stuck.
        in_words: describes a point to people, for messages.
        tolerance: nats by which F may still be above its least value, about.
    """
    search, first_failure = _Search(potential, in_words, tolerance), None
    for start in starts:
        try:
            return search.run(start)
        except _StuckError as failure:
            first_failure = first_failure or TuningError(str(failure))
    raise first_failure or ValueError("`starts` must have at least one point, got none.")


def local_mode(problem: Problem, tolerance: float = DECREASE_TOLERANCE) -> Mode:
    """The mode of a problem whose rows are all in this process; no messages are sent.

    Args:
        problem: the model and the rows of every site.
        tolerance: nats by which F may still be above its least value, about.
    """
    with jax.enable_x64(True):
        potential, starts = LocalPotential(problem.agents()), default_starts(problem.dim)
        return find_mode(potential, starts, problem.point_as_text, tolerance)


def default_starts(dim: int) -> list[np.ndarray]:
    """The origin, and random points for a search that gets stuck there."""
    random = np.random.default_rng(0)
    return [np.zeros(dim), *(size * random.standard_normal(dim) for size in OTHER_STARTS)]


@dataclass(frozen=True)
class _Search:
    """Eq. (1) from one start."""

    potential: SummedPotential
    in_words: InWords
    tolerance: float

    def run(self, start: np.ndarray) -> Mode:
        point = self._off_kinks(start, np.ones_like(start))
        rule = _descent_rule(len(point))
        for iteration in range(MAX_NEWTON_ITERATIONS):
            here = self.potential.derivatives(point)
            if not np.isfinite(here.value):
                raise self._not_finite(point)
            direction = rule.next(point, here)
            slope = here.gradient @ direction
            if -slope / 2 < self.tolerance:
                return Mode(point, here.hessian, iteration)
            fraction = self._fraction(point, here, direction)
            if fraction is None:
                raise self._stuck(point, direction, slope)
            point = self._off_kinks(point + fraction * direction, _widths(here.hessian))  # (1)
        raise self._too_long(point)

    def _fraction(
        self, point: np.ndarray, here: Derivatives, direction: np.ndarray
    ) -> float | None:
        """The longest fraction t of a direction at which F falls enough; None if there is none."""
        values = self.potential.values(point + STEP_FRACTIONS[:, None] * direction)
        predicted = SUFFICIENT_DECREASE * STEP_FRACTIONS * (here.gradient @ direction)
        allowed = here.value + predicted + POTENTIAL_ROUNDING * abs(here.value)
        good = np.flatnonzero(values <= allowed)
        return STEP_FRACTIONS[good[0]] if len(good) else None

    def _off_kinks(self, point: np.ndarray, widths: np.ndarray) -> np.ndarray:
        """Eq. (2), equal at all agents; quadratic potentials have no kinks."""
        if self.potential.agents.quadratic is None:
            noise = np.random.default_rng(0).standard_normal(len(point))
            point = point + KINK_OFFSET * widths * noise  # (2)
        return self.potential.same_everywhere(point)

    def _not_finite(self, point: np.ndarray) -> TuningError:
        return _StuckError(
            "the log-posterior is not finite where the search for its mode begins, at "
            f"{self.in_words(point)}; say with `initial` where it is."
        )

    def _stuck(self, point: np.ndarray, direction: np.ndarray, slope: float) -> TuningError:
        """The error where F does not fall along a direction of descent.

        The slope is measured from values too, to find out whether the derivatives are wrong.
        """
        step = PROBE_LENGTH / max(1.0, np.sqrt(-slope))
        ends = point + step * np.array([[1.0], [-1.0]]) * direction
        ahead, behind = self.potential.values(ends)
        measured = (ahead - behind) / (2 * step)
        if np.isfinite(measured) and abs(measured - slope) <= SLOPE_TOLERANCE * abs(slope):
            return _StuckError(
                f"no mode was found: the search is stuck at {self.in_words(point)}. Where a "
                "density has kinks, as by |x| or max(x, 0), write it with smooth functions or "
                "choose a sampler yourself; otherwise say with `initial` where the mode is."
            )
        return _StuckError(
            f"the log-posterior has wrong derivatives at {self.in_words(point)}: along the "
            f"direction of the search its slope is {-measured:.3g} by its values and "
            f"{-slope:.3g} by automatic differentiation. Kinks, rounding, comparisons and stopped "
            "gradients do that: write the model with smooth functions, or choose a sampler "
            "yourself."
        )

    def _too_long(self, point: np.ndarray) -> TuningError:
        return TuningError(
            f"no mode was found in {MAX_NEWTON_ITERATIONS} Newton iterations: the log-posterior "
            f"still rises at {self.in_words(point)}. A hierarchical model in its centred form "
            "(theta ~ N(mu, tau)) has no mode, since its density is infinite at tau = 0: write it "
            "non-centred (theta = mu + tau * eta, eta ~ N(0, 1)). A model without a proper prior "
            "may have no mode either. Otherwise say with `initial` where the mode is, or choose a "
            "sampler yourself."
        )


def _descent_rule(dim: int) -> DescentRule:
    """Newton's directions, or those of L-BFGS if there are many parameters."""
    is_dense = dim <= potentials.LARGEST_DENSE_HESSIAN
    return NewtonDescent() if is_dense else LimitedMemoryDescent()


def _widths(hessian: np.ndarray) -> np.ndarray:
    """s of eq. (2)."""
    diagonal = hessian if hessian.ndim == 1 else np.diag(hessian)
    return 1 / np.sqrt(np.maximum(np.abs(diagonal), 1.0))
