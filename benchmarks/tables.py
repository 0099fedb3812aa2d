"""Tables of results, for a terminal and for a page of Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

CONSOLE_WIDTH = 140
"""Characters of the widest line of a table."""


@dataclass(frozen=True)
class Grid:
    """A table as text: a title, headings, the cells of every row, and notes below it."""

    title: str
    headings: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    words: int = 1
    """How many columns, from the left, hold words and are aligned to the left."""

    def rich(self) -> Table:
        """The table for a terminal."""
        table = Table(*self.headings, title=self.title, title_justify="left")
        table.caption, table.caption_justify = "\n".join(self.notes) or None, "left"
        for column in table.columns[self.words :]:
            column.justify = "right"
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """The table as Markdown."""
        rule = ["---"] * self.words + ["---:"] * (len(self.headings) - self.words)
        lines = [f"| {' | '.join(cells)} |" for cells in (self.headings, rule, *self.rows)]
        notes = [f"- {note}" for note in self.notes]
        return "\n".join([f"**{self.title}**", "", *lines, "", *notes, *[""] * bool(notes)])


def wide_console() -> Console:
    """A console that breaks no row of a table, even where the terminal is narrower."""
    console = Console(highlight=False)
    console.width = max(console.width, CONSOLE_WIDTH)
    return console
