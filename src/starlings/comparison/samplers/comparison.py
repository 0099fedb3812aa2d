"""The outcome of a comparison: tables, a text and a figure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from starlings.system.files import atomic_write, check_replaceable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "starlings comparison 1"
"""What a saved comparison says of itself."""
TABLES = ("table", "curves", "candidates")
"""The tables of a comparison, by the names of its fields."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Samplers side by side, as `starlings.compare` returns them; `print` shows the table."""

    table: pd.DataFrame
    """A row for each sampler and setting: what remains between its draws and the posterior, and
    what it costs to come within the target."""
    curves: pd.DataFrame
    """A row for each sampler, setting and round: the distances, and all costs until then. `source`
    is "law" for exact laws and "simulation" for chains, which have an `error`."""
    candidates: pd.DataFrame
    """A row for each setting that was tried, with its knobs as text."""
    about: dict[str, Any]
    """What was compared: the target, the unit of the distances, the problem and the network."""

    def __str__(self) -> str:
        from starlings.comparison.samplers.text import as_text

        return as_text(self)

    __repr__ = __str__

    def plot(self, **options: Any) -> Figure:
        """A figure of the distances along the rounds and along other costs.

        Args:
            options: those of `starlings.comparison.samplers.figure.draw`.
        """
        from starlings.comparison.samplers.figure import draw

        return draw(self, **options)

    def to_csv(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the table; the curves go to a file beside it, whose name ends in -curves.csv."""
        first = check_replaceable(path, overwrite)
        second = check_replaceable(first.with_name(f"{first.stem}-curves.csv"), overwrite)
        for target, frame in ((first, self.table), (second, self.curves)):
            _write(target, frame.to_csv(index=False))
        return first

    def joined(self, other: Comparison) -> Comparison:
        """This one with the rows of another comparison on the same posterior after its own."""
        pairs = {name: [getattr(self, name), getattr(other, name)] for name in TABLES}
        full = {name: [each for each in pair if len(each)] for name, pair in pairs.items()}
        tables = {
            name: pd.concat(each, ignore_index=True) if each else pairs[name][0]
            for name, each in full.items()
        }
        return Comparison(**tables, about=self.about)

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write everything to a JSON file, which `load_comparison` reads."""
        target = check_replaceable(path, overwrite)
        _write(target, self.as_json())
        return target

    def as_json(self) -> str:
        """Everything as JSON; numbers that are not finite are null."""
        tables = {name: _columns(getattr(self, name)) for name in TABLES}
        return json.dumps({"format": FORMAT, "about": self.about, **tables}, allow_nan=False)


def load_comparison(path: str | Path) -> Comparison:
    """Read a comparison that `Comparison.save` wrote."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        is_one = isinstance(found, dict) and found.get("format") == FORMAT
    except (UnicodeDecodeError, json.JSONDecodeError):
        is_one = False
    if not is_one:
        raise ValueError(f"{path} is not a comparison that `Comparison.save` wrote.")
    tables = {name: _frame(found[name]) for name in TABLES}
    return Comparison(**tables, about=found["about"])


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    """The columns of a table as lists, with their types."""
    return {
        str(name): {
            "type": "text" if column.dtype.kind not in "fiub" else column.dtype.name,
            "values": [None if pd.isna(value) else value for value in column.tolist()],
        }
        for name, column in frame.items()
    }


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    """The table of `_columns`."""
    return pd.DataFrame(
        {
            name: pd.Series(c["values"], dtype="object" if c["type"] == "text" else c["type"])
            for name, c in columns.items()
        }
    )


def _write(target: Path, text: str) -> None:
    with atomic_write(target, needs=len(text), checksum=False) as partial:
        partial.write_text(text, encoding="utf-8")
