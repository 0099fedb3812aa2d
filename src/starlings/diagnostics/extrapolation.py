"""Estimates at a limit that no run can reach, from runs on the way to it.

A sampler with a tie of variance lambda has a bias of first order in lambda, and moves less the
smaller lambda is. From estimates e_k at lambda_k with variances v_k (squares of Monte Carlo errors)

    minimise over a and c:     sum_k (e_k - a - c lambda_k)^2 / v_k                         (1)

over the lambda_k up to a largest one; a is the estimate at lambda = 0. What remains is a bias of
second order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class AtZero(NamedTuple):
    """An estimate at lambda = 0."""

    estimate: np.ndarray
    """a of eq. (1)."""
    error: np.ndarray
    """Its standard error, which has no part for the bias of second order."""


def estimate_at_zero(
    strengths: ArrayLike,
    estimates: ArrayLike,
    variances: ArrayLike = 1.0,
    largest: float = np.inf,
) -> AtZero:
    """Extrapolate estimates linearly to zero, by weighted least squares, eq. (1).

    It is the bias correction of global consensus Monte Carlo (Rendell, Johansen, Lee, Whiteley
    2021), and serves all samplers with a bias of first order in a number: for split Gibbs that is
    the square of rho.

    Args:
        strengths: the numbers lambda_k, one for each run, of which at least two differ.
        estimates: what the runs found, (run, ...).
        variances: the squares of the Monte Carlo errors of the estimates, in the same shape; equal
            by default, and the error of the result is then in units of them.
        largest: runs with larger numbers are left out: further away a line fits less.

    >>> at_zero = estimate_at_zero([0.1, 0.2, 0.4], [1.2, 1.4, 1.8])
    >>> float(at_zero.estimate.round(12))
    1.0
    """
    strength, estimate = np.asarray(strengths, float), np.asarray(estimates, float)
    if estimate.shape[:1] != strength.shape or strength.ndim != 1:
        raise ValueError(
            "`estimates` must have one row for each of `strengths`, got the shapes "
            f"{estimate.shape} and {strength.shape}."
        )
    near = strength <= largest
    if len(set(strength[near])) < 2:
        raise ValueError(
            f"a line needs estimates at two different strengths up to {largest}, got "
            f"{strength[near].tolist()}: add runs, or raise `largest`."
        )
    spread = np.broadcast_to(np.asarray(variances, float), estimate.shape)[near]
    if not np.all(spread > 0):
        raise ValueError("`variances` must be positive: leave out those of exact estimates.")
    weights = 1 / spread / np.sum(1 / spread, axis=0)
    lam = strength[near].reshape(-1, *[1] * (estimate.ndim - 1))
    centre = np.sum(weights * lam, axis=0)
    width = np.sum(weights * (lam - centre) ** 2, axis=0)
    shares = weights * (1 - centre * (lam - centre) / width)  # a = sum_k shares_k e_k of eq. (1)
    return AtZero(
        np.sum(shares * estimate[near], axis=0), np.sqrt(np.sum(shares**2 * spread, axis=0))
    )
