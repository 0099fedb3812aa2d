"""How a site is doing, on a terminal: lines, or a table that is drawn again every second.

Errors of a link may quote a proxy or a neighbour, so characters that a terminal would obey are
replaced.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
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
BARS = "▁▂▃▄▅▆▇█"
"""Heights of the draws in a trace."""
SPARK_WIDTH = 60
"""Draws of a trace that a terminal shows, the last ones."""
SIGNS = {"up": "●", "waited": "◐", "down": "✕", "unknown": "○"}
"""What stands before the state of a link, as on the page."""


def status_lines(status: Mapping[str, Any], now: float | None = None) -> list[str]:
    """The status in lines: one for the site, and one for each neighbour.

    Args:
        status: the content of the file, see `read_status`.
        now: seconds since 1970; by default the time of the clock.
    """
    view = View.of(status, now)
    first = f"{status['site']} in {status['trial']}: {view.title}. {view.detail}"
    lines = (first, _numbers(view), *map(_neighbour_line, view.neighbours))
    return [printable(line) for line in lines] + [
        _printable_row(line) for line in _trace_lines(view)
    ]


def _numbers(view: View) -> str:
    """What the run does, and how fast."""
    done = f": {view.progress}" if view.progress else ""
    expiring = ", renew it" if view.is_expiring else ""
    return (
        f"{view.phase}{done}; round {view.rounds}, {view.rate} a second; disagreement "
        f"{view.disagreement}; certificate {view.certificate}{expiring}"
    )


def _trace_lines(view: View) -> list[str]:
    """The last draws of each trace, one below the other."""
    width = max((len(trace.name) for trace in view.traces), default=0)
    return [f"{t.name:<{width}} {sparkline(t.values)} {t.newest}" for t in view.traces]


def sparkline(values: Sequence[float], width: int = SPARK_WIDTH) -> str:
    """The last values as bars of eight heights.

    >>> sparkline([0.0, 1.0, 7.0])
    '▁▂█'
    """
    shown = values[-width:]
    least, span = min(shown), max(shown) - min(shown)
    heights = [round((len(BARS) - 1) * (v - least) / span) if span > 0 else 0 for v in shown]
    return "".join(BARS[height] for height in heights)


def printable(text: str) -> str:
    """A text in one line, without characters that a terminal would obey.

    >>> printable("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return _printable_row(" ".join(text.split()))


def _printable_row(text: str) -> str:
    """The same with its spaces, for rows below each other."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


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
    errors = [
        Text(printable(f"Last error with {row.name}: {row.last_error}"))
        for row in view.neighbours
        if row.last_error
    ]
    detail, numbers = Text(printable(view.detail)), Text(printable(_numbers(view)))
    traces = [Text(_printable_row(line)) for line in _trace_lines(view)]
    return Group(head, title, detail, numbers, _table(view), *traces, *errors)


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
