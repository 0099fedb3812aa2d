"""Rows divided among sites: splitting by label, checking, padding.

The rows of one site are a mapping of column names to arrays with one entry per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

Rows = dict[str, Any]
SIGNIFICANT_BITS = 4


def divide_by_site(rows: Rows, sites: Sequence[Any]) -> dict[str, Rows]:
    """Split columns of rows by a label per row, in the sorted order of the labels."""
    labels = np.asarray(sites)
    if labels.ndim != 1:
        raise ValueError(f"`sites` must be one label per row, got an array of {labels.ndim} dims.")
    for name, column in rows.items():
        if len(column) != len(labels):
            raise ValueError(
                f"`sites` has {len(labels)} labels but {name!r} has {len(column)} rows."
            )
    names, numbers = site_names(labels)
    return {
        site: {name: np.asarray(column)[numbers == k] for name, column in rows.items()}
        for k, site in enumerate(names)
    }


def site_names(labels: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The names of the sites in the sorted order of their labels, and the number of each row's."""
    missing = pd.isna(labels) | (np.isinf(labels) if labels.dtype.kind == "f" else False)
    if np.any(missing):
        raise ValueError(f"`sites` has no label in row {int(np.argmax(missing))}.")
    if labels.dtype.kind == "f" and np.all(labels == labels.astype(int)):
        labels = labels.astype(int)
    unique, numbers = np.unique(labels, return_inverse=True)
    return [str(label) for label in unique], numbers


def check_shards(shards: Mapping[Any, Rows] | Sequence[Rows]) -> dict[str, Rows]:
    """The shards as arrays by site name, refused with the site, column and row of a fault."""
    if not isinstance(shards, (Mapping, Sequence)):
        raise TypeError(f"`shards` must map sites to rows, got {type(shards).__name__}.")
    items = list(shards.items() if isinstance(shards, Mapping) else enumerate(shards))
    checked = {str(site): _as_arrays(str(site), rows) for site, rows in items}
    if len(checked) < len(items):
        raise ValueError(f"`shards` has sites that read alike as names: {[s for s, _ in items]}.")
    if not checked:
        raise ValueError("`shards` is empty; a problem needs the rows of at least one site.")
    for site, rows in checked.items():
        _check_rows(site, rows)
    columns = _row_shapes(next(iter(checked.values())))
    for site, rows in checked.items():
        if _row_shapes(rows) != columns:
            raise ValueError(
                f"site {site!r} has columns (with the shape of a row) {_row_shapes(rows)}, "
                f"the first site {columns}."
            )
    return checked


def _as_arrays(site: str, rows: Any) -> Rows:
    if not isinstance(rows, Mapping):
        raise TypeError(
            f"the shard of site {site!r} must map column names to arrays, "
            f"got {type(rows).__name__}."
        )
    try:
        return {name: np.asarray(column) for name, column in rows.items()}
    except ValueError:
        raise ValueError(f"site {site!r} has a column whose rows differ in shape.") from None


def _row_shapes(rows: Rows) -> dict[str, tuple[int, ...]]:
    return {name: column.shape[1:] for name, column in rows.items()}


def _check_rows(site: str, rows: Rows) -> None:
    lengths = {name: column.shape[0] if column.ndim else 0 for name, column in rows.items()}
    if not rows or min(lengths.values()) == 0:
        raise ValueError(f"site {site!r} has no rows; leave it out, or give it a shard.")
    if len(set(lengths.values())) > 1:
        raise ValueError(f"site {site!r} has columns of different lengths: {lengths}.")
    for name, column in rows.items():
        if column.dtype.kind not in "fiub":
            raise ValueError(f"column {name!r} of site {site!r} is not numeric ({column.dtype}).")
        bad = np.argwhere(~np.isfinite(column))
        if len(bad):
            entry = name if column.ndim == 1 else f"{name}{[int(i) for i in bad[0][1:]]}"
            value = column[tuple(bad[0])]
            raise ValueError(
                f"column {entry!r} of site {site!r} is {value} in row {int(bad[0][0])} "
                f"({len(bad)} such entries); drop or impute those rows."
            )


def count_rows(rows: Rows) -> int:
    """The number of rows of one shard."""
    return len(next(iter(rows.values())))


def stacked(shards: Sequence[Rows]) -> tuple[Rows, np.ndarray]:
    """All shards as columns (site, row, ...), and the weights (site, row) of their rows.

    Shards are padded to one length with their own first row, a valid row of weight zero. The length
    is rounded up (see `rounded`), so that data sets of nearly the same size share a compiled loop.
    """
    counts = np.array([count_rows(rows) for rows in shards])
    first = np.cumsum(counts) - counts
    row = np.arange(rounded(int(counts.max())))
    is_own = row < counts[:, None]
    places = first[:, None] + np.where(is_own, row, 0)
    columns = {name: np.concatenate([rows[name] for rows in shards]) for name in shards[0]}
    return {name: column[places] for name, column in columns.items()}, is_own.astype(float)


def rounded(length: int) -> int:
    """The next length with at most four significant bits: an eighth too long at most."""
    unit = 1 << max(0, length.bit_length() - SIGNIFICANT_BITS)
    return -(-length // unit) * unit
