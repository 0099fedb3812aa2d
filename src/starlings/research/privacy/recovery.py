"""Rows of a site from numbers that it sent, by least squares over rows.

With the `equations` of a kind of message, the rows are the least point of

    | predicted(b_1, ..., b_n) - received |^2                                               (1)

which Levenberg and Marquardt's method looks for from random starts. Numbers without noise leave no
doubt about the answer: at the rows themselves (1) is rounding error, and elsewhere it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares, linear_sum_assignment

from starlings.research.privacy.equations import Equations, of_gradients

EXPLAINED = 1e-7
"""Misfit below which rows explain what was received. In the attacks of `table` the right rows leave
rounding errors, 1e-11 or less, and fits that ended in wrong rows left 1e-5 or more. Votes are
inequalities, which many rows explain."""
STARTS = 24
"""Random starts that are tried until rows explain what was received."""
MOST_EVALUATIONS = 400
"""Evaluations of the equations for each start."""
TIGHT = 1e-15
"""Relative tolerance at which a fit ends: rounding."""
RECOVERED = 1e-6
"""Largest error of a covariate of a row that counts as recovered, in units of the covariate."""
FARTHEST = 1e6
"""Errors above this are alike when recovered rows are matched with those of a site."""


class Recovered(NamedTuple):
    """Rows that were fitted to numbers."""

    covariates: np.ndarray
    """(row, dim), the first of which is 1 if the row is right."""
    labels: np.ndarray
    """0 or 1, (row,)."""
    misfit: float
    """The norm of what the rows do not explain, as a share of the norm of what was received."""

    @property
    def is_explained(self) -> bool:
        """Whether the rows explain all that was received, so that the neighbour can trust them."""
        return self.misfit < EXPLAINED

    @classmethod
    def of_signed(cls, rows: np.ndarray, misfit: float) -> Recovered:
        """Rows from signed ones, eq. (1) of `equations`."""
        labels = (rows[:, 0] < 0).astype(float)
        return cls((1 - 2 * labels)[:, None] * rows, labels, misfit)


class Score(NamedTuple):
    """How right recovered rows are, which only the owner of the rows can tell."""

    errors: np.ndarray
    """The largest error of a covariate of every row; infinite where the label is wrong."""

    @property
    def total(self) -> int:
        """The rows of the site."""
        return len(self.errors)

    @property
    def recovered(self) -> int:
        """Those of them that were recovered: the label, and every covariate to `RECOVERED`."""
        return int((self.errors < RECOVERED).sum())


def recover_rows(points: np.ndarray, gradients: np.ndarray, num_rows: int, dim: int) -> Recovered:
    """The rows of a site from gradients of its potential, without the prior's part.

    Args:
        points: where the gradients were taken, (point, dim).
        gradients: (point, dim).
        num_rows: rows of the site.
        dim: parameters of the model.
    """
    return fitted([of_gradients(points, gradients)], num_rows, dim)


def fitted(
    equations: list[Equations], num_rows: int, dim: int, num_hidden: int = 0, starts: int = STARTS
) -> Recovered:
    """The rows that explain what was received best, of all starts.

    Args:
        equations: what was received; each kind of number has the same weight.
        num_rows: rows of the site.
        dim: parameters of the model.
        num_hidden: further unknown vectors (dim,) of the equations, which they get after the rows:
            messages that were not heard. They start at zero.
        starts: random starts, unless rows explain all that was received before.
    """
    best = Recovered(np.zeros((num_rows, dim)), np.zeros(num_rows), np.inf)
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        fit = _fit_of(equations, dim)
        for _ in range(starts):
            start = np.zeros((num_rows + num_hidden, dim))
            start[:num_rows] = rng.standard_normal((num_rows, dim))
            unknown, misfit = fit(start)
            best = min(best, Recovered.of_signed(unknown[:num_rows], misfit), key=_misfit)
            if best.is_explained:
                break
    return best


def _misfit(found: Recovered) -> float:
    return found.misfit


def fitted_with_unknown_number(equations: list[Equations], most_rows: int, dim: int) -> Recovered:
    """Rows where their number is not known: the fewest that explain what was received.

    Args:
        equations: what was received.
        most_rows: the largest number of rows that is tried; its best fit is returned if no number
            of rows explains what was received.
        dim: parameters of the model.
    """
    found = fitted(equations, 1, dim)
    for num_rows in range(2, most_rows + 1):
        if found.is_explained:
            break
        found = fitted(equations, num_rows, dim)
    return found


def scored(found: Recovered, covariates: np.ndarray, labels: np.ndarray) -> Score:
    """Compare recovered rows, in any order, with as many rows of a site, (row, dim) and (row,)."""
    errors = np.abs(found.covariates[:, None] - covariates).max(axis=2)
    errors = np.where(found.labels[:, None] == labels, errors, np.inf)
    paired = errors[linear_sum_assignment(np.minimum(errors, FARTHEST))]  # which guess is which row
    return Score(paired)


def _as_numpy(function: Callable[[Any], jax.Array]) -> Callable[[np.ndarray], np.ndarray]:
    """A function whose results are NumPy arrays."""
    return lambda argument: np.asarray(function(argument))


def _fit_of(
    equations: list[Equations], dim: int
) -> Callable[[np.ndarray], tuple[np.ndarray, float]]:
    """What finds the least point of eq. (1) from a start (unknown, dim), and the misfit there."""
    sizes = [np.linalg.norm(each.received) for each in equations]

    @jax.jit
    def residual(flat: jax.Array) -> jax.Array:
        unknown, pairs = flat.reshape(-1, dim), zip(equations, sizes, strict=True)
        parts = [(each.predicted(unknown) - each.received) / size for each, size in pairs]
        return jnp.concatenate([part.ravel() for part in parts])

    derivative = jax.jit(jax.jacfwd(residual))

    def fit(start: np.ndarray) -> tuple[np.ndarray, float]:
        found = least_squares(
            _as_numpy(residual),
            start.ravel(),
            _as_numpy(derivative),
            method="lm",
            xtol=TIGHT,
            ftol=TIGHT,
            gtol=TIGHT,
            max_nfev=MOST_EVALUATIONS,
        )
        return found.x.reshape(start.shape), float(np.sqrt(2 * found.cost / len(equations)))

    return fit
