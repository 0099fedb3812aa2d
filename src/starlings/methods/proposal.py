"""Candidates that every site draws alike, and the density with which they were drawn.

A proposal is a mixture of a Gaussian and of a heavy-tailed law around the same centre m, with the
same scale R: in coordinates w with z = m + R w,

    q(w) = (1 - h) N(w; 0, I) + h t_7(w),      q(z) = q(w) / |det R|                        (1)

The Gaussian part makes most candidates useful where the posterior is near its approximation; the
part h of a multivariate t with 7 degrees of freedom keeps weights bounded in the tails.

Candidates are points u of a scrambled Sobol sequence in dim + 1 dimensions, which fill space more
evenly than independent ones: w has the normal quantiles of u_1 ... u_dim, times sqrt(7 / c) where
u_0 >= 1 - h, with c the chi-square quantile of what is left of u_0. In many dimensions some pairs
of coordinates of a Sobol sequence are correlated; a Latin hypercube then takes its place, which is
even in single coordinates only.

A proposal that is fitted to points with weights v_s, which sum to one, has their mean as m, and

    R R' = a C + (1 - a) I,      a = min(1, 1 / (10 dim sum_s v_s^2))                       (2)

with C their covariance: a is one where they are worth ten points per parameter, and else the
identity, the covariance of the Gaussian approximation, keeps R R' from being singular.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, special, stats

DEGREES_OF_FREEDOM = 7
"""Degrees of freedom of the heavy-tailed part."""
FIRST_HEAVY_SHARE = 0.2
"""h of a proposal at the mode."""
REFITTED_HEAVY_SHARE = 0.5
"""h of a proposal that was fitted to weighted candidates, since the posterior is not Gaussian."""
FEWEST_FITTED = 10.0
"""Effective points per parameter below which a covariance fitted to them is not trusted fully."""
LARGEST_SOBOL = 50
"""Dimensions up to which 2,048 points of a Sobol sequence have correlations no larger than
independent ones (measured: at 100 dimensions they are 1.5 times as large, at 200 2.5 times)."""
OPEN_INTERVAL = 2.0**-53
"""Distance from 0 and 1 within which points u are moved inwards."""


@dataclass(frozen=True)
class Proposal:
    """The law of eq. (1)."""

    centre: np.ndarray
    """m, (dim,)."""
    scale: np.ndarray
    """R, (dim, dim), lower triangular, or (dim,) for a diagonal matrix."""
    heavy_share: float = FIRST_HEAVY_SHARE
    """h, between 0 and 1."""

    @classmethod
    def standard(cls, dim: int, is_diagonal: bool) -> Proposal:
        """The proposal of coordinates in which the posterior should be N(0, I)."""
        return cls(np.zeros(dim), np.ones(dim) if is_diagonal else np.eye(dim))

    @classmethod
    def fitted(cls, points: np.ndarray, weights: np.ndarray, is_diagonal: bool) -> Proposal:
        """A proposal with the mean and the covariance of weighted points (point, dim), eq. (2)."""
        dim, centre = points.shape[1], weights @ points
        deviations, known = points - centre, min(1.0, 1 / (FEWEST_FITTED * dim * weights @ weights))
        if is_diagonal:
            variances = known * (weights @ deviations**2) + 1 - known  # (2)
            return cls(centre, np.sqrt(variances), REFITTED_HEAVY_SHARE)
        covariance = (deviations * weights[:, None]).T @ deviations
        covariance = known * covariance + (1 - known) * np.eye(dim)  # (2)
        return cls(centre, np.linalg.cholesky(covariance), REFITTED_HEAVY_SHARE)

    def candidates(self, number: int, seed: Any) -> np.ndarray:
        """Points z (number, dim); the same seed gives the same points."""
        points = _even_points(number, len(self.centre) + 1, np.random.default_rng(seed))
        normal, rest = special.ndtri(points[:, 1:]), points[:, 0] - (1 - self.heavy_share)
        is_heavy, stretch = rest > 0, np.ones(number)
        left = np.maximum(rest[is_heavy], OPEN_INTERVAL) / self.heavy_share
        spread = stats.chi2.ppf(np.minimum(left, 1 - OPEN_INTERVAL), DEGREES_OF_FREEDOM)
        stretch[is_heavy] = np.sqrt(DEGREES_OF_FREEDOM / spread)
        return self.centre + self._scaled(stretch[:, None] * normal)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """log q of eq. (1) at points (point, dim)."""
        dim, freedom = len(self.centre), DEGREES_OF_FREEDOM
        squares = np.sum(self._unscaled(points - self.centre) ** 2, axis=1)
        normal = -0.5 * squares - dim / 2 * math.log(2 * math.pi)
        heavy = -(freedom + dim) / 2 * np.log1p(squares / freedom)
        heavy += math.lgamma((freedom + dim) / 2) - math.lgamma(freedom / 2)
        heavy -= dim / 2 * math.log(freedom * math.pi)
        parts = np.logaddexp(
            math.log1p(-self.heavy_share) + normal, math.log(self.heavy_share) + heavy
        )
        return parts - self._log_determinant()  # (1)

    def _scaled(self, w: np.ndarray) -> np.ndarray:
        return w * self.scale if self.scale.ndim == 1 else w @ self.scale.T

    def _unscaled(self, z: np.ndarray) -> np.ndarray:
        if self.scale.ndim == 1:
            return z / self.scale
        inverse = linalg.solve_triangular(self.scale, np.eye(len(self.scale)), lower=True)
        return z @ inverse.T

    def _log_determinant(self) -> float:
        diagonal = self.scale if self.scale.ndim == 1 else np.diag(self.scale)
        return float(np.log(np.abs(diagonal)).sum())


def _even_points(number: int, dim: int, rng: np.random.Generator) -> np.ndarray:
    """Points u (number, dim) that fill the open unit cube evenly."""
    if dim > LARGEST_SOBOL:
        points = stats.qmc.LatinHypercube(dim, rng=rng).random(number)
    else:
        sequence = stats.qmc.Sobol(dim, scramble=True, rng=rng)
        points = sequence.random(2 ** math.ceil(math.log2(number)))[:number]
    return np.clip(points, OPEN_INTERVAL, 1 - OPEN_INTERVAL)
