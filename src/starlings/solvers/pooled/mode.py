"""The mode of the pooled posterior: where to begin the `search`, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from starlings.errors import NoModeError
from starlings.problem import Problem
from starlings.solvers.pooled.directions import inverse_root
from starlings.solvers.pooled.failures import InWords, StuckError
from starlings.solvers.pooled.potential import LocalPotential, SummedPotential
from starlings.solvers.pooled.search import Search

DECREASE_TOLERANCE = 1e-9
"""The search ends by default when half the squared Newton decrement, by which F (a negative
log-density, in nats) could still fall, is below this."""
OTHER_STARTS = (0.1, 1.0, 1.0, 1.0, 3.0)
"""Standard deviations of the random starts that are tried after the origin, in unconstrained
coordinates."""


class Mode(NamedTuple):
    """The point at which the summed potential is least."""

    point: np.ndarray
    """Unconstrained coordinates, (dim,), equal in every bit at all agents."""
    hessian: np.ndarray
    """The summed Hessian there: a matrix, or above `LARGEST_DENSE_HESSIAN` its diagonal."""
    iterations: int
    """Iterations of the search that were needed."""
    scale: np.ndarray
    """L with L L' = |H|^-1, or its diagonal, equal in every bit at all agents."""


def find_mode(
    potential: SummedPotential,
    starts: Sequence[np.ndarray],
    in_words: InWords = str,
    tolerance: float = DECREASE_TOLERANCE,
) -> Mode:
    """The mode, and the scale that the Hessian gives there; one agent broadcasts both.

    Args:
        potential: F, with sums over a network or in this process.
        starts: where to begin, unconstrained; the next one is tried where the search gets stuck.
        in_words: describes a point to people, for messages.
        tolerance: nats by which F may still be above its least value, about.
    """
    search, first_failure = Search(potential, in_words, tolerance), None
    for start in starts:
        try:
            point, hessian, iterations = search.run(start)
        except StuckError as failure:
            first_failure = first_failure or NoModeError(str(failure))
        else:
            return Mode(
                hessian=hessian, iterations=iterations, **_agreed(potential, point, hessian)
            )
    raise first_failure or ValueError("`starts` must have at least one point, got none.")


def _agreed(
    potential: SummedPotential, point: np.ndarray, hessian: np.ndarray
) -> dict[str, np.ndarray]:
    """The point and the scale as one agent has them, in one broadcast."""
    scale = inverse_root(hessian)
    sent = potential.same_everywhere(np.concatenate([point, scale.ravel()]))
    return {"point": sent[: len(point)], "scale": sent[len(point) :].reshape(scale.shape)}


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
