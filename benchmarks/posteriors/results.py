"""The results file: one row for each case, division and method, complete after every row.

A run that was stopped goes on from there: a row counts as finished if it was made for at least as
many effective draws as are wanted now.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..results import JsonFile

Row = dict[str, Any]
"""Figures of one case, division and method, or `error` with the reason why there are none."""
KEY = ("case", "division", "method")
"""The entries of a row by which it is found."""


def find(rows: Sequence[Row], case: str, division: str, method: str) -> Row | None:
    """The row of a case, division and method; None if there is none."""
    return next((row for row in rows if _key(row) == (case, division, method)), None)


class ResultsFile:
    """The rows of a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, JsonFile(path, _check)

    @property
    def rows(self) -> list[Row]:
        """All rows so far."""
        return self.file.read(default=[])

    def has(self, case: str, division: str, method: str, wanted: int) -> bool:
        """Whether there is such a row, made for at least `wanted` effective draws."""
        key = (case, division, method)
        return any(_key(row) == key and row["wanted"] >= wanted for row in self.rows)

    def put(self, row: Row) -> None:
        """Add a row, or replace the one of its case, division and method."""
        self.file.write([other for other in self.rows if _key(other) != _key(row)] + [row])


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in KEY)


def _check(rows: Any) -> None:
    if not all(isinstance(row.get("wanted"), int) and _key(row) for row in rows):
        raise ValueError("a row lacks `wanted`")
