"""The results as tables and as a page: both parts on each kind of device."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from rich.console import Console

from ..speed.report import section, table, verdict
from ..speed.results import Part
from . import product, study

PARTS: dict[str, ModuleType] = {"study": study, "product": product}
PAGE = """# Many rows

Made by `python -m benchmarks rows --page docs/rows.md`; the tables of the GPU by the same with
`--device gpu` before. A star marks a missed target.

{verdict}
"""


def console_tables(parts: Mapping[str, Part], console: Console) -> None:
    """Print the tables of all parts that were measured."""
    for name, module in PARTS.items():
        if name in parts:
            console.print(table(module, parts[name]).rich())


def page_text(by_device: Mapping[str, Mapping[str, Part]]) -> str:
    """The page, from the parts that were measured on each kind of device."""
    sections, every = [], {}
    for name, module in PARTS.items():
        found = {device: parts[name] for device, parts in by_device.items() if name in parts}
        every |= {f"{name} {device}": part for device, part in found.items()}
        if found:
            sections.append(section(module, list(found.values())))
    return "\n".join([PAGE.format(verdict=verdict(every)), *sections])
