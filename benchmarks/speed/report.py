"""The results as tables, with a star where a target is missed, and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from types import ModuleType
from typing import Any

from rich.console import Console

from ..tables import Grid
from . import device, growth, limit, pooled, reference, start
from .results import Part

PARTS: dict[str, ModuleType] = {
    "reference": reference,
    "limit": limit,
    "growth": growth,
    "pooled": pooled,
    "start": start,
    "device": device,
}
ON_DEVICE = {"cpu": ("reference", "limit", "growth", "pooled", "start"), "gpu": ("device",)}
"""The parts that are measured on each kind of device."""
WIDTH = 100
"""Characters of a line of the page."""
PAGE = """# Speed

Made by `python -m benchmarks speed --page docs/speed.md`; the table of the GPU by the same with
`--device gpu`.

Every ratio compares two programs that took turns in one process on one machine, and is the median
over the repeats. Times are medians over the repeats too; compiling is not in them, and has a column
of its own (`compile s`, in seconds). A round is one between two draws: a round in which a draw is
recorded, and the agents are checked for divergence, takes one more pass over all positions. Numbers
are float64 unless a table says otherwise. A star marks a missed target.

![Speed at a glance](images/speed.png)

{verdict}
"""


def missed_targets(row: Mapping[str, Any]) -> list[str]:
    """The figures of a row outside their targets, [least, most] with None for no limit."""
    return [key for key, ends in row.get("targets", {}).items() if not _within(row[key], *ends)]


def _within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def table(module: ModuleType, part: Part) -> Grid:
    """The table of one part, without columns that are empty."""
    is_known = {key for row in part["rows"] for key, value in row.items() if value is not None}
    columns = {key: column for key, column in module.COLUMNS.items() if key in is_known}
    words = sum(format_ == "s" for _, format_ in columns.values())
    cells = [[_cell(row, key, columns[key][1]) for key in columns] for row in part["rows"]]
    headings = [heading for heading, _ in columns.values()]
    return Grid(module.TITLE, headings, cells, words=words)


def _cell(row: Mapping[str, Any], key: str, format_: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    return format(value, format_) + (" *" if key in missed_targets(row) else "")


def console_tables(parts: Mapping[str, Part], console: Console) -> None:
    """Print the tables of all parts that were measured."""
    for name in PARTS:
        if name in parts:
            console.print(table(PARTS[name], parts[name]).rich())


def page_text(parts: Mapping[str, Part]) -> str:
    """The page: what is measured, the tables, and how many targets are met."""
    sections = [section(PARTS[name], [parts[name]]) for name in PARTS if name in parts]
    return "\n".join([PAGE.format(verdict=verdict(parts)), *sections])


def section(module: ModuleType, parts: list[Part]) -> str:
    """The section of one part, with a table for each machine on which it was measured."""
    text = "\n\n".join(fill(paragraph, WIDTH) for paragraph in module.TEXT.split("\n\n"))
    grids = [table(module, part).markdown().partition("\n\n")[2] for part in parts]
    tables = [f"{provenance(part)}\n\n{grid}" for part, grid in zip(parts, grids, strict=True)]
    return "\n".join([f"## {module.TITLE}\n\n{text}\n", *tables])


def provenance(part: Part) -> str:
    """A sentence about where and how a part was measured."""
    trial = " A quick trial: sizes are too small to judge by." if part["quick"] else ""
    return f"Measured on: {part['machine']}. Repeats: {part['repeats']}.{trial}"


def verdict(parts: Mapping[str, Part]) -> str:
    """A sentence about how many targets are met."""
    rows = [row for part in parts.values() for row in part["rows"]]
    count = sum(len(row.get("targets", {})) for row in rows)
    missed = sum(len(missed_targets(row)) for row in rows)
    return f"Targets met: {count - missed} of {count}."
