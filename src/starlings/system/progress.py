"""Progress of a run on stderr: bars and spinners on a terminal, lines in a log.

Every function takes `wanted`: True, False, or None for "only where there is a terminal". Whether or
not it is shown, an `Observer` hears of everything, see `observed_by`.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS = 10.0
"""Seconds between two lines of progress, at least, if stderr is not a terminal."""
MIN_WIDTH_OF_BAR = 80
"""Columns of a terminal from which on a bar is drawn beside the numbers."""


class Report(Protocol):
    """Called with the number done so far and, in a run, with the disagreement of the agents."""

    def __call__(self, done: int, disagreement: float | None = None, /) -> None:
        """Show it, unless something was shown a moment ago."""


ProgressFactory = Callable[[str, int], contextlib.AbstractContextManager[Report | None]]
"""Called with the name and the number of rounds of a task; `progress_bar` is one."""


class Observer(Protocol):
    """Who hears what a run does, wherever it is reported: a page that shows it, for example."""

    def began(self, task: str, total: int | None, unit: str, /) -> None:
        """A task begins, of `total` units; None if their number is not known."""

    def reached(self, done: int, /) -> None:
        """So many units of the task are done."""

    def drew(self, names: Sequence[str], values: np.ndarray, disagreement: float | None, /) -> None:
        """A position of the first chain of an agent here, and how far the agents are apart."""


_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextlib.contextmanager
def observed_by(observer: Observer) -> Iterator[None]:
    """A context in which an observer hears of all progress, in this thread."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def report_draw(
    names: Sequence[str],
    values: Callable[[], np.ndarray],
    disagreement: float | None = None,
) -> None:
    """Tell the observer, if there is one, of a position of the first chain.

    Args:
        names: the entries of a position.
        values: makes the position, in the model's own coordinates; called for an observer only.
        disagreement: how far the agents are apart; None if it is not known.
    """
    observer = _observer.get()
    if observer is not None:
        observer.drew(names, values(), disagreement)


def no_progress(name: str, total: int) -> contextlib.AbstractContextManager[None]:
    """Show nothing; a `ProgressFactory`."""
    return contextlib.nullcontext()


def is_shown(wanted: bool | None) -> bool:
    """Return whether to show anything: it is wanted, and there is a stderr."""
    return sys.stderr is not None and (on_terminal() if wanted is None else wanted)


def print_status(text: str, wanted: bool | None = True) -> None:
    """Print one line on stderr."""
    if is_shown(wanted):
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def spinner(name: str, wanted: bool | None = None) -> Iterator[None]:
    """Show that a task runs whose remaining time is unknown."""
    if (observer := _observer.get()) is not None:
        observer.began(name, None, "")
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
        print_status(f"{name} ...")
        yield
    print_status(f"{name}: done in {_duration(time.monotonic() - began)}.")


@contextlib.contextmanager
def progress_bar(
    name: str, total: int, wanted: bool | None = None, unit: str = "rounds", done: int = 0
) -> Iterator[Report | None]:
    """Show how much of a task is done, how fast, and the remaining time.

    Args:
        name: what is done.
        total: how many units the task has.
        wanted: True, False, or None for "only on a terminal".
        unit: the name of the units.
        done: how many units were done before.
    """
    observer = _observer.get()
    with _shown_bar(name, total, wanted, unit, done) as report:
        if observer is None:
            yield report
        else:
            observer.began(name, total, unit)
            observer.reached(done)
            yield _told_to(observer, report)


def _told_to(observer: Observer, shown: Report | None) -> Report:
    """A report that an observer hears of, and that is also shown, if any is."""

    def report(done: int, disagreement: float | None = None, /) -> None:
        observer.reached(done)
        if shown is not None:
            shown(done, disagreement)

    return report


@contextlib.contextmanager
def _shown_bar(
    name: str, total: int, wanted: bool | None, unit: str, done: int
) -> Iterator[Report | None]:
    if not is_shown(wanted):
        yield None
    elif on_terminal():
        with _bar(ProgressCount(name, total, unit, done)) as report:
            yield report
    else:
        lines = ProgressLines(name, total, unit, done)
        lines.begin()
        yield lines
        lines.end()


class ProgressCount:
    """How much is done, and how fast since the first report, before which the code is compiled."""

    def __init__(self, name: str, total: int, unit: str, done: int = 0) -> None:
        self.name, self.total, self.unit, self.done = name, total, unit, done
        self.disagreement: float | None = None
        self.began = time.monotonic()
        self.first: tuple[int, float] | None = None

    def update(self, done: int, disagreement: float | None) -> None:
        """Take the numbers of a report."""
        self.done, self.disagreement = done, disagreement
        if self.first is None:
            self.first = (done, time.monotonic())

    def speed(self) -> list[str]:
        """Return units per second and remaining time in words, or nothing before they are known."""
        now = time.monotonic()
        before, then = self.first or (self.done, now)
        if self.done <= before or now <= then:
            return []
        pace = (self.done - before) / (now - then)
        per_second = f"{pace:,.0f}" if pace >= 10 else f"{pace:.2g}"
        left = (self.total - self.done) / pace
        return [f"{per_second}/s", *([f"{_duration(left)} left"] if left > 0 else [])]

    def disagreement_in_words(self, word: str = "disagreement") -> list[str]:
        """Return the disagreement of the agents in words, or nothing if there is none."""
        return [] if self.disagreement is None else [f"{word} {self.disagreement:.3g}"]


class ProgressLines(ProgressCount):
    """One line of progress every `LINE_SECONDS`, for a log."""

    def __init__(self, name: str, total: int, unit: str, done: int = 0) -> None:
        super().__init__(name, total, unit, done)
        self.printed = self.began

    def begin(self) -> None:
        """Print the first line."""
        before = f", of which {self.done:,} are done" if self.done else ""
        print_status(f"{self.name}: {self.total:,} {self.unit}{before}")

    def __call__(self, done: int, disagreement: float | None = None, /) -> None:
        """Print a line, unless one was printed less than `LINE_SECONDS` ago."""
        self.update(done, disagreement)
        now = time.monotonic()
        if now - self.printed >= LINE_SECONDS and done < self.total:
            self.printed = now
            print_status(", ".join([self._counted(), *self.speed(), *self.disagreement_in_words()]))

    def end(self) -> None:
        """Print the last line."""
        took = f" in {_duration(time.monotonic() - self.began)}"
        print_status(", ".join([self._counted() + took, *self.disagreement_in_words()]))

    def _counted(self) -> str:
        return f"{self.name}: {self.done:,} of {self.total:,} {self.unit}"


@contextlib.contextmanager
def _bar(count: ProgressCount) -> Iterator[Report]:
    """Show a bar and its numbers; a narrow terminal has the most important numbers only."""
    from rich.progress import BarColumn, Progress, TextColumn

    console = terminal()
    is_narrow = console.width < MIN_WIDTH_OF_BAR
    numbers = f"{{task.completed:,}}/{{task.total:,}} {count.unit}{{task.fields[more]}}"
    columns = [
        TextColumn("{task.description}", markup=False),
        *([] if is_narrow else [BarColumn(bar_width=None)]),
        TextColumn(numbers, markup=False),
    ]
    with Progress(*columns, console=console, expand=not is_narrow) as bar:
        task = bar.add_task(count.name, total=count.total, completed=count.done, more=", compiling")

        def report(done: int, disagreement: float | None = None, /) -> None:
            count.update(done, disagreement)
            parts = count.speed() + ([] if is_narrow else count.disagreement_in_words("apart"))
            bar.update(task, completed=done, more="".join(f", {part}" for part in parts))

        yield report


def terminal() -> Console:
    """Return the console of stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def on_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr.isatty()


def _duration(seconds: float) -> str:
    """Format seconds, such as 0.3 s, 12 s, 3:00 or 1:02:03."""
    if seconds < 59.5:
        return f"{seconds:.{1 if seconds < 9.95 else 0}f} s"
    return str(timedelta(seconds=round(seconds))).lstrip("0:")


def number_of(count: int, noun: str) -> str:
    """Format a number with its noun, such as 1 site or 1,000 sites."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


@dataclass(frozen=True)
class Progress:
    """Where a run reports what it does: on stderr, or nowhere.

    Args:
        wanted: True, False, or None for "only on a terminal".
    """

    wanted: bool | None = None

    def print_status(self, text: str) -> None:
        """Print a line."""
        print_status(text, self.wanted)

    def spinner(self, name: str) -> contextlib.AbstractContextManager[None]:
        """A context in which something runs whose duration is not known beforehand."""
        return spinner(name, self.wanted)

    def progress_bar(
        self, name: str, total: int, unit: str = "rounds"
    ) -> contextlib.AbstractContextManager[Report | None]:
        """A context in which `total` units are done; it takes the number done so far."""
        return progress_bar(name, total, self.wanted, unit)
