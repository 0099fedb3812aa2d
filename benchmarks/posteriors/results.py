"""The results file: one row for each case, division and method, whole after every row.

A run that was stopped goes on where it was: a row counts as done if it was made for at least as
many effective draws as are wanted now.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

Row = dict[str, Any]
KEY = ("case", "division", "method")


class ResultsFile:
    """The rows of a JSON file, read anew every time: another process may add to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def rows(self) -> list[Row]:
        """All rows so far."""
        return _read(self.path) if self.path.exists() else []

    def has(self, case: str, division: str, method: str, wanted: int) -> bool:
        """Whether there is such a row, made for as many effective draws."""
        key = (case, division, method)
        return any(_key(row) == key and row["wanted"] >= wanted for row in self.rows)

    def put(self, row: Row) -> None:
        """Add a row, or replace the one of its case, division and method."""
        rows = [other for other in self.rows if _key(other) != _key(row)] + [row]
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        partial.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, self.path)


def _key(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in KEY)


def _read(path: Path) -> list[Row]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(row.get("wanted"), int) and _key(row) for row in rows):
            raise ValueError("a row lacks `wanted`")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path} is not a results file of this command: {error}.") from None
    return rows
