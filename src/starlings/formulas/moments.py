"""Means and standard deviations of the columns of X and of the outcome, and which are redundant.

With the mean m of a column x and the mean u of |x| over all rows of all sites, both from one sum,
the sites add up in another one the products of

    z = (x - m) / u,                                                                        (1)

whose diagonal has the standard deviations

    s = u sqrt(sum z^2 / rows).                                                             (2)

A column of which nothing is left when the columns before it are projected out, up to `TOLERANCE`,
is a sum of these.
"""

from __future__ import annotations

import dataclasses
import warnings
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from starlings.errors import CollinearColumnsWarning, ConstantColumnWarning, FormulaError, first_of
from starlings.formulas.encoding import INTERCEPT, Encoding
from starlings.formulas.knots import MOMENTS
from starlings.formulas.sums import Agreement, Parts

TOLERANCE = 1e-9
"""What has to be left of a column's square, relative to it."""
MOST_PRODUCTS = 400
"""Columns up to which all products are added up; of more, only squares."""


class Means(NamedTuple):
    """The means of columns over all rows of all sites."""

    rows: float
    means: np.ndarray
    """m of eq. (1), (column,)."""
    units: np.ndarray
    """u of eq. (1), (column,); 1 where it would be 0."""


def agreed_moments(encoding: Encoding, matrices: Sequence[np.ndarray]) -> Agreement:
    """The encoding with its means and scales.

    Args:
        encoding: all but these.
        matrices: for each local site the columns of X, those of the random part, the outcome and
            the offset (0 without one), (row, column).
    """
    over = yield from _agreed_means(encoding, matrices)
    products = yield from _agreed_products([(m - over.means) / over.units for m in matrices])  # (1)
    scales = over.units * np.sqrt(np.maximum(0.0, products.diagonal() / over.rows))  # (2)
    scales = np.where(scales <= 1e-12 * np.abs(over.means), 0.0, scales)
    found = _with_moments(encoding, over.means, scales)
    _warn_of_constants(found)
    if len(scales) <= MOST_PRODUCTS:
        p, means = len(encoding.labels), over.means / over.units
        _warn_of_sums(found, products[:p, :p], over.rows * np.outer(means, means)[:p, :p])
    return found


def _agreed_means(encoding: Encoding, matrices: Sequence[np.ndarray]) -> Agreement:
    """`Means`, by a sum that also tells whether all sites have the same columns."""
    check = zlib.crc32(repr((encoding.labels, encoding.random_labels)).encode())
    sums = [
        np.concatenate([[1, check, len(m)], m.sum(axis=0), np.abs(m).sum(axis=0)]) for m in matrices
    ]
    sites, checks, rows, *total = yield Parts(MOMENTS, np.array(sums))
    if round(checks) != round(sites) * check:
        raise FormulaError(
            "the sites do not have the same columns: install one version of formulaic at all of "
            f"them. Here they are {first_of(encoding.labels)}."
        )
    means, units = np.split(np.array(total) / rows, 2)
    return Means(rows, means, np.where(units > 0, units, 1.0))


def _agreed_products(columns: Sequence[np.ndarray]) -> Agreement:
    """The products of columns, (column, column); of very many only the diagonal."""
    width = columns[0].shape[1]
    has_all = width <= MOST_PRODUCTS
    places = np.triu_indices(width) if has_all else np.diag_indices(width)
    parts = [(z.T @ z)[places] if has_all else (z**2).sum(axis=0) for z in columns]
    products = np.zeros((width, width))
    products[places] = yield Parts(MOMENTS, np.array(parts))
    return np.triu(products) + np.triu(products, 1).T


def _with_moments(encoding: Encoding, means: np.ndarray, scales: np.ndarray) -> Encoding:
    """The encoding with the moments of all columns, which stand as in `agreed_moments`."""
    p = len(encoding.labels)
    return dataclasses.replace(
        encoding,
        means=tuple(means[:p].tolist()),
        scales=tuple(scales[:p].tolist()),
        random_scales=tuple(scales[p:-2].tolist()),
        outcome_mean=float(means[-2]),
        outcome_scale=float(scales[-2]),
        offset_mean=float(means[-1]),
    )


def _has_intercept(encoding: Encoding) -> bool:
    """Whether the predictor has an intercept, in X or in the family."""
    return INTERCEPT in encoding.labels or not encoding.has_intercept


def _warn_of_constants(encoding: Encoding) -> None:
    """Say which columns are the same in all rows."""
    labels, has_intercept = encoding.labels, _has_intercept(encoding)
    means, scales = np.array(encoding.means), np.array(encoding.scales)
    is_zero = (scales == 0) & (means == 0)
    empty = [label for label, zero in zip(labels, is_zero, strict=True) if zero]
    if empty:
        warnings.warn(
            f"no row of any site has anything in {first_of(empty)}: only the prior says what such "
            "a coefficient is. Merge rare levels, or leave the term out.",
            ConstantColumnWarning,
            stacklevel=2,
        )
    same = [
        label
        for label, scale, zero in zip(labels, scales, is_zero, strict=True)
        if has_intercept and scale == 0 and not zero and label != INTERCEPT
    ]
    if same:
        warnings.warn(
            f"{first_of(same)} is the same in all rows of all sites, like the intercept: only the "
            "prior tells them apart. Leave it out of the formula.",
            ConstantColumnWarning,
            stacklevel=2,
        )


def _warn_of_sums(encoding: Encoding, centred: np.ndarray, means: np.ndarray) -> None:
    """Say which columns are sums of others."""
    has_intercept = _has_intercept(encoding)
    products = centred if has_intercept else centred + means
    kept: list[int] = []
    found: dict[str, list[str]] = {}
    for j, label in enumerate(encoding.labels):
        if label == INTERCEPT or (encoding.scales[j] == 0 and (has_intercept or means[j, j] == 0)):
            continue
        among = products[np.ix_(kept, kept)]
        shares = np.linalg.solve(among, products[kept, j]) if kept else np.zeros(0)
        left = products[j, j] - shares @ products[kept, j]
        if left > TOLERANCE * products[j, j]:
            kept.append(j)
            continue
        sizes = np.abs(shares) * np.sqrt(among.diagonal() / products[j, j])
        found[label] = [encoding.labels[k] for k, s in zip(kept, sizes, strict=True) if s > 1e-5]
    if found:
        shown = [f"{label} of {first_of(parts)}" for label, parts in found.items()]
        also = " (and of the intercept)" if has_intercept else ""
        warnings.warn(
            f"columns are sums of others{also}: {first_of(shown)}; only the prior tells their "
            "coefficients apart. Leave such a column out of the formula (or write "
            'constraints="center" in a spline cr).',
            CollinearColumnsWarning,
            stacklevel=2,
        )
