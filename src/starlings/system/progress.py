"""What a run tells of itself, on stderr: bars and spinners on a terminal, lines in a log.

Every function takes `wanted`: True, False, or None for "only where there is a terminal".
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS = 10.0
"""The least time between two lines of progress where there is no terminal."""
WIDE = 80
"""Columns of a terminal that has room for a bar beside its numbers."""


class Report(Protocol):
    """Called with what is done so far and, in a run, with the disagreement of the agents."""

    def __call__(self, done: int, apart: float | None = None, /) -> None:
        """Show it, or wait until the next time."""


Watch = Callable[[str, int], contextlib.AbstractContextManager[Report | None]]
"""Called with what is begun and how many rounds it has; `counted` is one."""


def unwatched(name: str, total: int) -> contextlib.AbstractContextManager[None]:
    """The `Watch` that shows nothing."""
    return contextlib.nullcontext()


def is_shown(wanted: bool | None) -> bool:
    """Whether anything is to be shown, and there is a place for it."""
    return sys.stderr is not None and (on_terminal() if wanted is None else wanted)


def say(text: str, wanted: bool | None = True) -> None:
    """A line of its own."""
    if is_shown(wanted):
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def stage(name: str, wanted: bool | None = None) -> Iterator[None]:
    """Something that takes a while and has no measure of how much is left."""
    if not is_shown(wanted):
        yield
        return
    began = time.monotonic()
    if on_terminal():
        from rich.text import Text

        console = terminal()
        with console.status(Text(name), spinner="line" if console.options.ascii_only else "dots"):
            yield
    else:
        say(f"{name} ...")
        yield
    say(f"{name}: done in {_duration(time.monotonic() - began)}.")


@contextlib.contextmanager
def counted(
    name: str, total: int, wanted: bool | None = None, unit: str = "rounds", done: int = 0
) -> Iterator[Report | None]:
    """Something that is counted: what is done of `total`, how fast, and how long it still takes.

    `done` of them were there before.
    """
    if not is_shown(wanted):
        yield None
    elif on_terminal():
        with _bar(Count(name, total, unit, done)) as report:
            yield report
    else:
        lines = Lines(name, total, unit, done)
        lines.begin()
        yield lines
        lines.end()


class Count:
    """How much is done, and how fast since the first report: compilation comes before that."""

    def __init__(self, name: str, total: int, unit: str, done: int = 0) -> None:
        self.name, self.total, self.unit, self.done = name, total, unit, done
        self.apart: float | None = None
        self.began = time.monotonic()
        self.first: tuple[int, float] | None = None

    def update(self, done: int, apart: float | None) -> None:
        """What a report says."""
        self.done, self.apart = done, apart
        if self.first is None:
            self.first = (done, time.monotonic())

    def speed(self) -> list[str]:
        """So many a second, and the time left, as soon as they are known."""
        now = time.monotonic()
        before, then = self.first or (self.done, now)
        if self.done <= before or now <= then:
            return []
        pace = (self.done - before) / (now - then)
        per_second = f"{pace:,.0f}" if pace >= 10 else f"{pace:.2g}"
        left = (self.total - self.done) / pace
        return [f"{per_second}/s", *([f"{_duration(left)} left"] if left > 0 else [])]

    def disagreement(self, word: str = "disagreement") -> list[str]:
        """Of the agents, where there is any."""
        return [] if self.apart is None else [f"{word} {self.apart:.3g}"]


class Lines(Count):
    """A line every few seconds, for a log."""

    def __init__(self, name: str, total: int, unit: str, done: int = 0) -> None:
        super().__init__(name, total, unit, done)
        self.said = self.began

    def begin(self) -> None:
        """The first line."""
        before = f", of which {self.done:,} are done" if self.done else ""
        say(f"{self.name}: {self.total:,} {self.unit}{before}")

    def __call__(self, done: int, apart: float | None = None, /) -> None:
        """Say it, unless something was said a moment ago."""
        self.update(done, apart)
        now = time.monotonic()
        if now - self.said >= LINE_SECONDS and done < self.total:
            self.said = now
            say(", ".join([self._counted(), *self.speed(), *self.disagreement()]))

    def end(self) -> None:
        """The last line."""
        took = f" in {_duration(time.monotonic() - self.began)}"
        say(", ".join([self._counted() + took, *self.disagreement()]))

    def _counted(self) -> str:
        return f"{self.name}: {self.done:,} of {self.total:,} {self.unit}"


@contextlib.contextmanager
def _bar(count: Count) -> Iterator[Report]:
    """A bar and its numbers, of which a narrow terminal has only the most important."""
    from rich.progress import BarColumn, Progress, TextColumn

    console = terminal()
    is_narrow = console.width < WIDE
    numbers = f"{{task.completed:,}}/{{task.total:,}} {count.unit}{{task.fields[more]}}"
    columns = [
        TextColumn("{task.description}", markup=False),
        *([] if is_narrow else [BarColumn(bar_width=None)]),
        TextColumn(numbers, markup=False),
    ]
    with Progress(*columns, console=console, expand=not is_narrow) as bar:
        task = bar.add_task(count.name, total=count.total, completed=count.done, more=", compiling")

        def report(done: int, apart: float | None = None, /) -> None:
            count.update(done, apart)
            parts = count.speed() + ([] if is_narrow else count.disagreement("apart"))
            bar.update(task, completed=done, more="".join(f", {part}" for part in parts))

        yield report


def terminal() -> Console:
    """Where people look on."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def on_terminal() -> bool:
    """Whether somebody can look on."""
    return sys.stderr.isatty()


def _duration(seconds: float) -> str:
    """Such as 0.3 s, 12 s, 3:00 or 1:02:03."""
    if seconds < 59.5:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f} s"
    return str(timedelta(seconds=round(seconds))).lstrip("0:")


def number_of(count: int, noun: str) -> str:
    """Such as 1 site or 1,000 sites."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


@dataclass(frozen=True)
class Progress:
    """Where a run reports what it does: on stderr, or nowhere.

    Args:
        wanted: True, False, or None for "only on a terminal".
    """

    wanted: bool | None = None

    def say(self, text: str) -> None:
        """Print a line."""
        say(text, self.wanted)

    def stage(self, name: str) -> contextlib.AbstractContextManager[None]:
        """A context in which something runs whose duration is not known beforehand."""
        return stage(name, self.wanted)

    def counted(self, name: str, total: int) -> contextlib.AbstractContextManager[Report | None]:
        """A context in which `total` rounds are run; it takes the number of rounds so far."""
        return counted(name, total, self.wanted)
