"""How a site is doing, on a terminal: lines, or a table that is drawn again every second.

Errors of a link may quote a proxy or a neighbour, so characters that a terminal would obey are
replaced.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlings.errors import SiteError
from starlings.sites.status_reader import check_folder, read_status
from starlings.sites.status_view import NeighbourView, View
from starlings.system.progress import LINE_SECONDS

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

EVERY = 1.0
"""Seconds from one drawing of the table to the next."""
COLOURS = {
    "advancing": "green",
    "waiting": "yellow",
    "computing": "cyan",
    "stopped": "red",
    "done": "green",
    "up": "green",
    "waited": "yellow",
    "down": "red",
    "unknown": "bright_black",
}
"""The colours of the levels of a site and of the states of links; words say the same."""
SIGNS = {"up": "●", "waited": "◐", "down": "✕", "unknown": "○"}
"""What stands before the state of a link, as on the page."""


def status_lines(status: Mapping[str, Any], now: float | None = None) -> list[str]:
    """The status in lines: one for the site, and one for each neighbour.

    Args:
        status: the content of the file, see `read_status`.
        now: seconds since 1970; by default the time of the clock.
    """
    view = View.of(status, now)
    first = (
        f"{status['site']} in {status['trial']}: {view.title}. {view.detail} Call {view.calls}, "
        f"{view.rate} a second; certificate {view.certificate}"
    )
    return [printable(line) for line in (first, *map(_neighbour_line, view.neighbours))]


def printable(text: str) -> str:
    """A text in one line, without characters that a terminal would obey.

    >>> printable("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))


def watch(folder: Path, console: Console) -> None:
    """Show how a site is doing until its run is done, or until Ctrl-C.

    Args:
        folder: the folder of the site, or that of a run in it.
        console: where to; one that is no terminal gets lines, every ten seconds.
    """
    check_folder(folder)
    if console.is_terminal:
        _watch_table(folder, console)
        return
    for status in _statuses(folder, LINE_SECONDS):
        lines = [printable(status)] if isinstance(status, str) else status_lines(status)
        print(*lines, sep="\n", file=console.file, flush=True)


def _watch_table(folder: Path, console: Console) -> None:
    from rich.live import Live

    with Live(console=console, auto_refresh=False) as live:
        for status in _statuses(folder, EVERY):
            live.update(_drawn(status), refresh=True)


def _statuses(folder: Path, every: float) -> Iterator[dict[str, Any] | str]:
    """The status again and again, or why there is none, until the run is done."""
    while True:
        status: dict[str, Any] | str
        try:
            status = read_status(folder)
        except SiteError as error:
            status = str(error)
        yield status
        if isinstance(status, dict) and status["state"] == "done":
            return
        time.sleep(every)


def _drawn(status: Mapping[str, Any] | str) -> Group | str:
    """What a terminal shows of a status."""
    from rich.console import Group
    from rich.markup import escape
    from rich.text import Text

    if isinstance(status, str):
        return escape(printable(status))
    view = View.of(status)
    head = Text(printable(f"{status['site']} in {status['trial']}"), style="bold")
    title = Text(printable(view.title), style=f"bold {COLOURS[view.level]}")
    numbers = (
        f"call {view.calls}   {view.rate} a second   disagreement {view.disagreement}   "
        f"certificate {view.certificate}{', renew it' if view.is_expiring else ''}"
    )
    errors = [
        Text(printable(f"Last error with {row.name}: {row.last_error}"))
        for row in view.neighbours
        if row.last_error
    ]
    return Group(head, title, Text(printable(view.detail)), Text(numbers), _table(view), *errors)


def _table(view: View) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(expand=True, box=SIMPLE_HEAD)
    table.add_column("neighbour", ratio=2)
    table.add_column("link", ratio=3)
    for name in ("round trip", "in", "out", "received", "unconfirmed"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in view.neighbours:
        link = Text(f"{SIGNS[row.link]} {printable(row.words)}", style=COLOURS[row.link])
        numbers = (row.round_trip, row.bytes_received, row.bytes_sent, row.received)
        table.add_row(Text(printable(row.name)), link, *numbers, row.unconfirmed)
    return table


def _neighbour_line(row: NeighbourView) -> str:
    parts = [
        f"link {row.words}",
        *([f"round trip {row.round_trip}"] if row.round_trip else []),
        f"{row.received} messages received",
        f"{row.unconfirmed} not confirmed yet",
        *([row.last_error] if row.last_error and row.link != "up" else []),
    ]
    return f"- {row.name}: {', '.join(parts)}"
