"""The rows of a logistic regression, and an approximation of its posterior by other means.

The approximation is computed with NumPy from all rows, by Newton's method. With m the mode, H the
Hessian of minus the log-posterior F there, and p_r the chance of a one in row r,

    covariance = H^-1                                                                       (1)
    mean = m - H^-1 g / 2,   g = sum_r p_r (1 - p_r) (1 - 2 p_r) (x_r'H^-1 x_r) x_r          (2)

(1) is the Laplace approximation, and (2) has the first term by which mean and mode differ, from the
third derivatives of F. What is left out is of the order of 1 / rows, in standard deviations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

import starlings as st

SITES, DIM = 10, 10
"""Number of sites, and of covariates."""
PRIOR_STD = 10**0.5
"""Standard deviation of the prior of every coefficient."""
COEFFICIENTS = np.full(DIM, DIM**-0.5)
"""The coefficients with which outcomes are drawn."""
DECREMENT, MOST_ITERATIONS = 1e-16, 50
"""Newton's method ends where F falls by half of this many nats for each row, or after so many
iterations."""


class Table(NamedTuple):
    """The rows of all sites."""

    X: np.ndarray
    """Covariates, (row, column)."""
    y: np.ndarray
    """Outcomes, 0 or 1."""
    sites: np.ndarray
    """The number of the site of each row."""

    @classmethod
    def simulated(cls, rows: int) -> Table:
        """Standard normal covariates; sites take turns."""
        random = np.random.default_rng(0)
        X = random.normal(size=(rows, DIM))
        y = (random.logistic(size=rows) < X @ COEFFICIENTS).astype(float)
        return cls(X, y, np.arange(rows) % SITES)

    @property
    def problem(self) -> st.Problem:
        """The logistic regression of these rows."""
        return st.models.logistic_regression(*self, prior_std=PRIOR_STD, intercept=False)


def approximated(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """The mean and the covariance of the posterior, eqs. (1) and (2)."""
    X, beta = table.X, np.zeros(DIM)
    for _ in range(MOST_ITERATIONS):
        chance = expit(X @ beta)
        curvature = chance * (1 - chance)
        gradient = X.T @ (chance - table.y) + beta / PRIOR_STD**2
        hessian = (X.T * curvature) @ X + np.eye(DIM) / PRIOR_STD**2
        step = np.linalg.solve(hessian, gradient)
        if step @ gradient < DECREMENT * len(X):
            covariance = np.linalg.inv(hessian)  # (1)
            leverage = np.einsum("ri,ij,rj->r", X, covariance, X, optimize=True)
            skew = X.T @ (curvature * (1 - 2 * chance) * leverage)
            return beta - step - covariance @ skew / 2, covariance  # (2)
        beta = beta - step
    raise RuntimeError(f"Newton's method did not end after {MOST_ITERATIONS} iterations.")


def largest_z(draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> tuple[float, float]:
    """The largest |z| of the draws' means, and of their standard deviations.

    For n independent draws (draw, parameter) of N(mean, covariance), the mean of a parameter has
    the standard error sd / sqrt(n), and the logarithm of its standard deviation 1 / sqrt(2 n).
    """
    count, sd = len(draws), np.sqrt(np.diag(covariance))
    of_means = (draws.mean(axis=0) - mean) / sd * np.sqrt(count)
    of_sds = np.log(draws.std(axis=0, ddof=1) / sd) * np.sqrt(2 * count)
    return float(np.abs(of_means).max()), float(np.abs(of_sds).max())
