"""Small pieces of HTML for notebooks: every text is escaped, and colours are those of the page.

Nothing has a colour of its own but what inherits it, so that all can be read on light and on dark
backgrounds; nothing is fetched, and no style applies outside its element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

CELL = "padding:.15em .5em;text-align:{};border:0;background:none;color:inherit"
"""The style of a cell of a table."""
RULE = "border-bottom:1px solid;border-color:inherit"
"""A line below the heading of a table."""


def block(*parts: str) -> str:
    """Parts below each other."""
    return f'<div style="max-width:60em;overflow-x:auto">{"".join(parts)}</div>'


def heading(text: Any) -> str:
    """A line in bold."""
    return f"<div><strong>{escape(str(text))}</strong></div>"


def paragraph(text: Any) -> str:
    """A text, whose lines stay lines."""
    return f'<div style="white-space:pre-line;margin:.4em 0">{escape(str(text))}</div>'


def table(headings: Sequence[Any], rows: Iterable[Sequence[Any]], right: bool = True) -> str:
    """A table whose first column has names.

    Args:
        headings: one for each column; there is no line of headings if all are empty.
        rows: the cells of every row.
        right: whether all columns but the first end at the right, as numbers do.
    """
    sides = ["left", *["right" if right else "left"] * (len(headings) - 1)]
    lines = [_row("td", row, sides) for row in rows]
    head = [_row("th", headings, sides, RULE)] if any(headings) else []
    style = "border-collapse:collapse;margin:.4em 0;color:inherit;background:none"
    return f'<table style="{style}">{"".join(head + lines)}</table>'


def _row(tag: str, cells: Sequence[Any], sides: Sequence[str], style: str = "") -> str:
    made = (
        f'<{tag} style="{CELL.format(side)};{style}">{escape(str(cell))}</{tag}>'
        for cell, side in zip(cells, sides, strict=True)
    )
    return f'<tr style="background:none">{"".join(made)}</tr>'
