"""Do draws in tuned coordinates have the mean and the covariance of N(0, I)?

With n effective draws in d dimensions the eigenvalues of an empirical covariance S spread over
(1 -+ sqrt(d/n))^2 by chance (Marchenko and Pastur), so they do not if n is below both 2 d and
`FEWEST_EFFECTIVE_DRAWS`, or an eigenvalue is outside

    (1 - sqrt(d/n))^2 / TOLERATED_STRETCH,     (1 + sqrt(d/n))^2 TOLERATED_STRETCH          (1)

or an entry of the mean is farther than `FARTHEST_MEAN` from 0. Where the metric is diagonal, S has
only variances, and d is 1 in (1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TOLERATED_STRETCH = 1.5
"""Factor, beyond chance, by which a variance in tuned coordinates may differ from 1."""
FARTHEST_MEAN = 0.4
"""How far a mean may be from 0, in posterior sd, beyond three standard errors."""
FEWEST_EFFECTIVE_DRAWS = 100
"""Number of effective draws that is enough in any dimension; 2 d of them are enough too."""


class Moments(NamedTuple):
    """Estimates from draws, in the tuned coordinates."""

    mean: np.ndarray
    """(dim,)."""
    covariance: np.ndarray
    """A matrix, or the variances where the metric is diagonal."""
    effective_draws: float
    """The effective sample size, of the coordinate in which it is least."""


def fit(found: Moments) -> bool:
    """Whether the moments are those of draws from N(0, I), but for chance."""
    mean, covariance, count = found
    is_diagonal = covariance.ndim == 1
    edge = np.sqrt((1 if is_diagonal else len(mean)) / count)
    eigenvalues = np.sort(covariance) if is_diagonal else np.linalg.eigvalsh(covariance)
    low, high = eigenvalues[[0, -1]]
    least = max(1 - edge, 0) ** 2 / TOLERATED_STRETCH  # (1)
    most = (1 + edge) ** 2 * TOLERATED_STRETCH
    is_enough = count >= min(2 * len(mean), FEWEST_EFFECTIVE_DRAWS)
    is_near = np.abs(mean).max() < FARTHEST_MEAN + 3 / np.sqrt(count)
    return bool(is_enough and least < low and high < most and is_near)
