"""How much a differentially private run tells about one row: epsilon at a given delta.

Every release is a vector, of which one row changes the length by Delta at most, plus noise from
N(0, (m Delta)^2 I): the Gaussian mechanism with the noise multiplier m. K of them, one after the
other, tell as much as one with

    mu = sqrt(K) / m                                                                        (1)

in place of 1 / m (Dong, Roth and Su 2022). The package `dp-accounting` finds the least epsilon for
which they are (epsilon, delta)-differentially private, on a grid of privacy losses with the spacing

    h = GRID (mu + mu^2 / 2)                                                                (2)

rounded up: what is reported is never below the exact value, and above it by h at most. Where mu is
above `NO_PRIVACY`, epsilon would be above half a million, and infinity is reported.
"""

from __future__ import annotations

import math

from starlings.errors import check_count, check_positive
from starlings.system.extras import import_extra

GRID = 1e-3
"""Spacing of the grid of privacy losses, as a part of their typical size."""
NO_PRIVACY = 1000.0
"""The largest mu for which an epsilon is computed."""


def epsilon(releases: int, noise_multiplier: float, delta: float) -> float:
    """The least epsilon of so many releases by the Gaussian mechanism, rounded up.

    Args:
        releases: K of eq. (1): for a sampler in rounds, chains times rounds.
        noise_multiplier: m, the standard deviation of the noise in every coordinate over the
            largest length by which one row changes a release.
        delta: the probability of a larger loss, less than 1; it should be far below one over the
            number of rows.

    >>> f"{epsilon(200, 16.0, 1e-5):.2f}"
    '3.80'
    """
    check_count(1, releases=releases)
    check_positive(noise_multiplier=noise_multiplier)
    check_delta(delta)
    accounting, pld = (
        import_extra(name, "the accounting of a differentially private run", extra="dp")
        for name in ("dp_accounting", "dp_accounting.pld")
    )
    mu = math.sqrt(releases) / noise_multiplier  # (1)
    if mu > NO_PRIVACY:
        return math.inf
    accountant = pld.PLDAccountant(
        accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, GRID * (mu + mu**2 / 2)
    )  # (2)
    accountant.compose(accounting.GaussianDpEvent(noise_multiplier), releases)
    return float(accountant.get_epsilon(delta))


def check_delta(delta: float) -> None:
    """Raise for a delta that is not a probability between 0 and 1, both excluded."""
    check_positive(delta=delta)
    if delta >= 1:
        raise ValueError(f"`delta` must be below 1, got {delta}.")
