"""Numbers and tables as text for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.cells import cell_len  # some letters are two columns wide

NAMES_HEADING = "parameter"
"""The heading of the first column."""
MAX_PLAIN, MIN_PLAIN = 1e7, 1e-6
"""Numbers beyond these sizes are written with an exponent."""
MIN_FINE, MAX_FINE = 1e-3, 1e12
"""Numbers with an sd that small, such as ratios near 1, have all digits from this size on, and up
to so many sd."""


class Column(NamedTuple):
    """A column of numbers."""

    heading: tuple[str, str]
    """The two lines of the heading."""
    cells: list[str]


def with_meaningful_digits(value: float, spread: float) -> str:
    """Format a value with as many decimals as three significant digits of its sd need."""
    if not np.isfinite(value):
        return "-"
    is_fine = 0 < spread <= MIN_PLAIN and MIN_FINE <= abs(value) < MAX_FINE * spread
    if not (is_fine or MIN_PLAIN < spread < MAX_PLAIN) or abs(value) >= MAX_PLAIN:
        return f"{value:.4g}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(spread)))}f}"


def with_two_digits(value: float) -> str:
    """Format a value with two significant digits, or "-" if it is not finite."""
    return f"{value:.2g}" if np.isfinite(value) else "-"


def with_decimals(value: float, decimals: int) -> str:
    """Format a value with a fixed number of decimals, or "-" if it is not finite."""
    return f"{value:.{decimals}f}" if np.isfinite(value) else "-"


def text_table(
    names: Sequence[str], columns: Sequence[Column], width: int, heading: str = NAMES_HEADING
) -> str:
    """Lay out names and columns of numbers in `width` columns of a terminal.

    A name that does not fit beside its numbers has a line of its own above them. `heading` is that
    of the names.
    """
    sizes = [max(map(len, [*column.heading, *column.cells])) for column in columns]
    longest = max(map(cell_len, [heading, *names]))
    gap = 2 if longest + sum(sizes) + 2 * len(sizes) <= width else 1
    room = min(longest, width - sum(sizes) - gap * len(sizes))
    room = room if room >= len(heading) else 0

    def line(name: str, cells: Sequence[str]) -> str:
        numbers = "".join(" " * gap + c.rjust(size) for c, size in zip(cells, sizes, strict=True))
        beside = cell_len(name) <= room
        blank = " " * (room - cell_len(name) if beside else room)
        return f"{name}{'' if beside else chr(10)}{blank}{numbers}".rstrip()

    rows = zip(names, zip(*(column.cells for column in columns), strict=True), strict=True)
    top, bottom = zip(*(column.heading for column in columns), strict=True)
    above = [line("", top), line(heading if room else "", bottom)]
    return "\n".join([*above, *(line(name, row) for name, row in rows)])


def wrapped(text: str, width: int) -> str:
    """Break lines that are longer than `width` between words."""
    whole_words: Any = {"break_long_words": False, "break_on_hyphens": False}
    return "\n".join(textwrap.fill(line, width, **whole_words) for line in text.splitlines())
