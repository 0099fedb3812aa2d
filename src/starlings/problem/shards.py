"""The rows of every site: split by label, checked, and padded to one length.

The rows of one site (its shard) are a mapping of column names to arrays with one entry per row.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

from starlings.problem.columns import Fault, array_of_floats, check_same_index, faults_as_text
from starlings.problem.tables import as_column, as_table, is_table

Rows = dict[str, Any]
"""Arrays by the name of a column, with one entry per row along the first axis."""
NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""Names of sites that all match this are sorted as numbers, so that "2" is before "10"."""
SIGNIFICANT_BITS = 4
"""Number of leading bits that a padded number of rows may have other than 0: few enough that sites
of nearly the same size get one length, and enough that at most an eighth is padding."""


def divide_by_site(rows: Rows, sites: Sequence[Any]) -> dict[str, Rows]:
    """Split columns by the label of each row.

    Args:
        rows: the columns of all sites together.
        sites: one label per row, all text or all numbers.

    Returns:
        The rows by the name of the site, with the names sorted by `in_order`.
    """
    # Without a type of its own a list such as [1, "a"] would become text, and None a name.
    labels = np.asarray(sites, None if hasattr(sites, "dtype") else object)
    if labels.ndim != 1:
        raise ValueError(
            f"`sites` must be one label per row, got an array of {labels.ndim} dimensions."
        )
    if not all(map(pd.api.types.is_hashable, labels)):
        raise ValueError("`sites` must be one label per row, a text or a number.")
    for name, column in rows.items():
        if len(column) != len(labels):
            raise ValueError(
                f"`sites` has {len(labels)} labels but {name!r} has {len(column)} rows; give one "
                "label for each row."
            )
    names, numbers = site_names(labels)
    return {
        site: {name: np.asarray(column)[numbers == k] for name, column in rows.items()}
        for k, site in enumerate(names)
    }


def site_names(labels: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The names of the sites, sorted, and for each row the index of its site among them.

    A name is a label as text, without white space around it. If all labels are whole numbers, such
    as 1.0, the names are written without a fraction. Labels that mix numbers and text are refused:
    1 and "1" would be one site.
    """
    if np.any(missing := lacks_label(labels)):
        row = int(np.argmax(missing))
        raise ValueError(f"`sites` has no label in row {row}; rows are counted from 0.")
    if labels.dtype.kind == "M":
        labels = labels.astype(str)
    numbers, unique = pd.factorize(labels)
    check_one_kind("`sites`", unique)
    are_whole = all(_kind(label) == "number" and float(label).is_integer() for label in unique)
    found = [str(int(label) if are_whole else label).strip() for label in unique]
    names = in_order(set(found))
    index = {name: k for k, name in enumerate(names)}
    return names, np.array([index[name] for name in found], int)[numbers]


def lacks_label(labels: np.ndarray) -> np.ndarray:
    """Whether the label of each row is missing, infinite or blank, (row,)."""
    numbers, unique = pd.factorize(labels)
    lacking = [not str(label).strip() or label in (np.inf, -np.inf) for label in unique]
    return np.array([*lacking, True])[numbers]  # pandas gives a missing label the number -1


def in_order(names: Iterable[str]) -> list[str]:
    """Names sorted as numbers if all are numbers, so that "2" is before "10", or else as text."""
    names = sorted(names)
    return sorted(names, key=float) if all(map(NUMBER.fullmatch, names)) else names


def check_one_kind(subject: str, labels: Iterable[Any]) -> None:
    """Refuse labels of sites that are not all text or all numbers, such as 1 and "1".

    Args:
        subject: the argument with the labels, as messages name it, such as "`sites`".
        labels: one of each kind is enough.
    """
    first: dict[str, Any] = {}
    for label in labels:
        first.setdefault(_kind(label), label)
    if "bytes" in first:
        raise ValueError(
            f"{subject} has labels of bytes, such as {first['bytes']!r}; decode them to text."
        )
    if len(first) > 1:
        one, other, *_ = first.values()
        raise ValueError(
            f"{subject} mixes labels of different kinds, such as {one!r} and {other!r}; make them "
            "all text, with `str(label)`, or all numbers."
        )


def _kind(label: Any) -> str:
    """The kind of a label: "text", "bytes", "truth", "number" or "other"."""
    kinds: dict[str, Any] = {"text": str, "bytes": bytes, "truth": (bool, np.bool_), "number": Real}
    return next((kind for kind, types in kinds.items() if isinstance(label, types)), "other")


def check_shards(shards: Mapping[Any, Rows] | Sequence[Rows]) -> dict[str, Rows]:
    """Check the rows of all sites, and convert them to arrays of finite numbers.

    Args:
        shards: the rows by site, or a sequence whose sites get the names "0", "1", ...

    Returns:
        The rows by the name of the site. One error names all missing values and all text.
    """
    if not isinstance(shards, (Mapping, Sequence)):
        raise TypeError(f"`shards` must map sites to rows, got {type(shards).__name__}.")
    items = dict(shards.items() if isinstance(shards, Mapping) else enumerate(shards))
    if not items:
        raise ValueError("`shards` is empty; a problem needs the rows of at least one site.")
    check_one_kind("`shards`", items)
    if len({str(site).strip() for site in items}) < len(items):
        raise ValueError(
            f"`shards` has sites that have the same name as text: {list(items)}; rename them."
        )
    checked = {str(site): _as_arrays(str(site), rows) for site, rows in items.items()}
    for site, rows in checked.items():
        _check_lengths(site, rows)
    _check_same_columns(checked)
    return _as_numbers(checked)


def _as_arrays(site: str, rows: Any) -> Rows:
    """The columns of one site as NumPy arrays."""
    rows = dict(as_table(rows, "shards").items()) if is_table(rows) else rows
    if not isinstance(rows, Mapping):
        raise TypeError(
            f"the shard of site {site!r} must map column names to arrays, "
            f"got {type(rows).__name__}."
        )
    check_same_index({f"column {name!r} of site {site!r}": rows[name] for name in rows})
    try:
        return {name: np.asarray(as_column(column)) for name, column in rows.items()}
    except ValueError:
        raise ValueError(f"site {site!r} has a column whose rows differ in shape.") from None


def _check_same_columns(shards: Mapping[str, Rows]) -> None:
    """Refuse sites whose columns differ in name or in the shape of an entry."""
    columns = _row_shapes(next(iter(shards.values())))
    for site, rows in shards.items():
        if _row_shapes(rows) != columns:
            raise ValueError(
                f"site {site!r} has columns (with the shape of a row) {_row_shapes(rows)}, "
                f"the first site {columns}; all sites must have the same."
            )


def _row_shapes(rows: Rows) -> dict[str, tuple[int, ...]]:
    """The shape of one entry of every column; () for a column of numbers."""
    return {name: column.shape[1:] for name, column in rows.items()}


def _check_lengths(site: str, rows: Rows) -> None:
    """Refuse a site without rows, or with columns that differ in their number of rows."""
    single = [name for name, column in rows.items() if column.ndim == 0]
    if single:
        raise ValueError(
            f"{', '.join(map(repr, single))} of site {site!r} is one value, but every column has "
            "an entry for each row. Make a constant part of the model: with "
            "`functools.partial(model, name=value)`, or written into it."
        )
    lengths = {name: column.shape[0] for name, column in rows.items()}
    if not rows or min(lengths.values()) == 0:
        raise ValueError(f"site {site!r} has no rows; leave it out, or give it a shard.")
    if len(set(lengths.values())) > 1:
        raise ValueError(f"site {site!r} has columns of different lengths: {lengths}.")


def _as_numbers(shards: Mapping[str, Rows]) -> dict[str, Rows]:
    """The rows of all sites as numbers, if all entries are finite; or one error for all sites."""
    found: dict[str, Rows] = {}
    faults: list[Fault] = []
    for site, rows in shards.items():
        found[site] = {}
        for name, array in rows.items():
            found[site][name], own = array_of_floats(array, name, f" of site {site!r}")
            faults += own
    if faults:
        raise ValueError(f"`shards` has {faults_as_text(faults)}")
    return found


class Shards(Mapping[str, Rows]):
    """The rows of all sites by the name of the site, which cannot be changed.

    Looking a site up returns a new dictionary of its columns, whose arrays are read-only. Arrays
    that a caller could still write to are copied; those of another `Shards` are shared.

    Args:
        rows: the columns of every site, as arrays.
    """

    def __init__(self, rows: Mapping[str, Rows]) -> None:
        self._rows = {
            site: {name: _read_only(column) for name, column in columns.items()}
            for site, columns in rows.items()
        }

    def __getitem__(self, site: str) -> Rows:
        return dict(self._rows[site])

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Shards({self._rows})"


def _read_only(array: Any) -> np.ndarray:
    """An array that nobody else can write to: a copy, unless the array is read-only itself."""
    if isinstance(array, np.ndarray) and array.base is None and not array.flags.writeable:
        return array
    copied = np.array(array)
    copied.flags.writeable = False
    return copied


def count_rows(rows: Rows) -> int:
    """The number of rows of one site."""
    return len(next(iter(rows.values())))


def stacked(shards: Sequence[Rows]) -> tuple[Rows, np.ndarray]:
    """The rows of all sites as columns (site, row, ...), and the weight (site, row) of every row.

    Sites are padded to one number of rows with copies of their own first row, on which every
    likelihood can be evaluated, at weight 0; all other rows have weight 1. That number is rounded
    up (see `padded_length`), so that data of nearly the same size share a compiled loop.
    """
    counts = np.array([count_rows(rows) for rows in shards])
    first = np.cumsum(counts) - counts
    row = np.arange(padded_length(int(counts.max())))
    is_own = row < counts[:, None]
    source = first[:, None] + np.where(is_own, row, 0)
    columns = {name: np.concatenate([rows[name] for rows in shards]) for name in shards[0]}
    return {name: column[source] for name, column in columns.items()}, is_own.astype(float)


def padded_length(length: int) -> int:
    """A number of rows rounded up to at most `SIGNIFICANT_BITS` leading bits other than 0.

    >>> [padded_length(rows) for rows in (7, 16, 17, 50, 1000)]
    [7, 16, 18, 52, 1024]
    """
    unit = 1 << max(0, length.bit_length() - SIGNIFICANT_BITS)
    return -(-length // unit) * unit


def digest(rows: Mapping[str, np.ndarray]) -> int:
    """A checksum of the rows of one site: names, shapes, types and entries of its columns."""
    value = 0
    for name in sorted(rows):
        array = np.ascontiguousarray(rows[name])
        value = zlib.crc32(f"{name} {array.shape} {array.dtype.str}".encode(), value)
        value = zlib.crc32(array.tobytes(), value)
    return value
