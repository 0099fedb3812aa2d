"""Bounds and quantiles of a column over all sites, from sums of histograms.

With the mean m and the standard deviation s of all rows, sites count their rows in bins

    m + s (-2^k, ..., -1/4, 1/4, ..., 2^k)     which bins have rows: the range lies in them     (1)
    64 equal parts of that range               the bounds are edges of these                    (2)
    16 equal parts of each bin with a quantile, twice                                           (3)

Nobody sends a row's value, a minimum or a maximum. A bin with fewer than `FEWEST` rows of all sites
is not divided further. The bounds and the quantiles are then the roundest numbers that the bins
allow: bounds outside of all rows by less than two bins of (2), and quantiles within the bin that
has them, whose width is the precision. The space of piecewise cubics of `bs` depends on inner knots
only, so that coarse bounds change its coefficients and not the fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from starlings.errors import FormulaError
from starlings.formulas.sums import Agreement, Parts

HISTOGRAM = "rows in bins of columns, for the knots of splines"
MOMENTS = "sums of columns and of their squares"
"""What is sent, in the account of what leaves a site."""
POWERS = range(-2, 21)
"""The k of eq. (1): no row of fewer than 2^40 is farther than 2^20 standard deviations away."""
BINS, PARTS = 64, 16
"""The numbers of bins of eq. (2) and eq. (3)."""
FEWEST = 10
"""Rows of all sites in a bin that is divided further, at least."""
REFINEMENTS = 2

Values = Sequence[np.ndarray]
"""The values of a column, (row,), at each local site."""


class Spread(NamedTuple):
    """Rows, mean and standard deviation (of the population) of a column over all sites."""

    rows: int
    mean: float
    sd: float


class Range(NamedTuple):
    """Bounds and quantiles of a column over all sites."""

    lower: float
    upper: float
    quantiles: list[float]
    precision: float
    """How far a quantile can be from that of the pooled rows."""


def agreed_spread(values: Values, text: str) -> Agreement:
    """The `Spread` of a column; `text` is what errors call it."""
    sums = [[len(v), v.sum(), np.abs(v).sum()] for v in values]
    rows, total, size = yield Parts(MOMENTS, np.array(sums))
    if rows < 2:
        raise FormulaError(f"{text} has {round(rows)} rows at all sites together.")
    mean, unit = total / rows, size / rows or 1.0  # masks have a finest unit: sums are near 1
    squares = yield Parts(MOMENTS, np.array([[(((v - mean) / unit) ** 2).sum()] for v in values]))
    sd = unit * math.sqrt(max(0.0, squares[0] / rows))
    if sd <= 1e-12 * abs(mean):
        raise FormulaError(
            f"{text} is the same, {mean:g}, in all rows of all sites: leave the term out."
        )
    return Spread(round(rows), mean, sd)


def agreed_range(values: Values, probabilities: Sequence[float], text: str) -> Agreement:
    """The `Range` of a column, with quantiles at these probabilities."""
    spread = yield from agreed_spread(values, text)
    edges = spread.mean + spread.sd * np.array(
        [*(-(2.0**k) for k in reversed(POWERS)), *(2.0**k for k in POWERS)]
    )
    counts = yield _counted(values, edges)
    filled = np.flatnonzero(counts > 0.5)
    edges = np.linspace(edges[filled[0]], edges[filled[-1] + 1], BINS + 1)  # (1)
    counts = np.round((yield _counted(values, edges)))
    filled = np.flatnonzero(counts)
    width = edges[1] - edges[0]
    lower = _rounded(edges[filled[0]] - width, edges[filled[0]])  # (2)
    upper = _rounded(edges[filled[-1] + 1], edges[filled[-1] + 1] + width)
    bins = [_bin_of(p * (spread.rows - 1), edges, counts) for p in probabilities]
    for _ in range(REFINEMENTS if bins else 0):
        bins = yield from _refined(values, bins)
    quantiles = [_rounded(each.left, each.right) for each in bins]
    precision = max((each.right - each.left for each in bins), default=0.0)
    return Range(lower, upper, quantiles, precision)


class Bin(NamedTuple):
    """A bin in which a quantile lies."""

    left: float
    right: float
    rank: float
    """The rank of the quantile among the rows of the bin, from 0."""
    rows: float


def _refined(values: Values, bins: Sequence[Bin]) -> Agreement:
    """Smaller bins with the same quantiles, eq. (3)."""
    edges = [np.linspace(each.left, each.right, PARTS + 1) for each in bins]
    parts = [_counted(values, each).numbers for each in edges]
    total = yield Parts(HISTOGRAM, np.concatenate(parts, axis=1))
    counts = np.round(total).reshape(len(bins), PARTS)
    return [
        each if each.rows < FEWEST else _bin_of(each.rank, edge, count)
        for each, edge, count in zip(bins, edges, counts, strict=True)
    ]


def _counted(values: Values, edges: np.ndarray) -> Parts:
    """The rows of each local site in each bin, which has its right edge and not its left one."""
    counts = []
    for column in values:
        places = np.searchsorted(edges, column, side="left") - 1
        inside = places[(places >= 0) & (places < len(edges) - 1)]
        counts.append(np.bincount(inside, minlength=len(edges) - 1))
    return Parts(HISTOGRAM, np.array(counts, float))


def _bin_of(rank: float, edges: np.ndarray, counts: np.ndarray) -> Bin:
    """The bin with the row of this rank, counted from 0."""
    ends = np.cumsum(counts)
    place = min(int(np.searchsorted(ends, rank, side="right")), len(counts) - 1)
    before = ends[place] - counts[place]
    return Bin(float(edges[place]), float(edges[place + 1]), rank - before, float(counts[place]))


def _rounded(left: float, right: float) -> float:
    """The number with the fewest digits between two numbers; the right one belongs to them.

    >>> _rounded(3.98, 4.03), _rounded(-0.21, 0.4), _rounded(17.312, 17.316)
    (4.0, 0.0, 17.315)
    """
    if left < 0 <= right:
        return 0.0
    middle = (left + right) / 2
    for digits in range(-math.ceil(math.log10(max(abs(left), abs(right)))), 18):
        unit = 10.0**-digits
        for step in (1.0, 0.5):
            found = round(round(middle / (unit * step)) * step * unit, digits + 1)
            if left < found <= right:
                return found
    return right
