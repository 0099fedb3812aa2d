"""How a site is doing, in words and numbers for people: what every view shows.

A site is well if the number of its rounds grows; a connection alone says nothing.

    advancing   rounds have grown a moment ago
    waiting     they have not, and the message of a neighbour is missing
    computing   they have not, and nothing is missing: the site computes by itself
    stopped     the process of the site has ended, with an error or in silence
    done        the run is over, and this site has its result
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from starlings.errors import SiteError
from starlings.sites.status_reader import read_status

STALE = 5.0
"""Seconds after which a file that is not written any more is that of a site that has stopped."""
STILL = 5.0
"""Seconds without a new round after which a run does not count as advancing."""
WAITED = 2.0
"""Seconds for which a message has to be missing until its sender counts as waited for."""
WARNING_DAYS = 45.0
"""Days before the end of a certificate from which on a view warns."""
AGAIN = "Start it again with the same command: it goes on where it was, and nothing is lost."
"""What to do with a site that has stopped."""


@dataclass(frozen=True)
class NeighbourView:
    """A neighbour of the site; all but `name` and `link` are texts to be shown."""

    name: str
    link: str
    """One of up, waited, down and unknown."""
    words: str
    """The state of the link in words."""
    round_trip: str
    bytes_received: str
    bytes_sent: str
    received: str
    """Messages of the neighbour that have arrived here."""
    unconfirmed: str
    """Messages to the neighbour of which it has not said yet that they are on its disk."""
    last_error: str


@dataclass(frozen=True)
class Trace:
    """An entry of the positions of this site, draw by draw."""

    name: str
    values: list[float]
    newest: str
    """The newest value, as a text."""


@dataclass(frozen=True)
class View:
    """The status of a site as texts to be shown, but for `level`, numbers and `is_expiring`."""

    level: str
    """One of advancing, waiting, computing, stopped and done."""
    title: str
    detail: str
    phase: str
    """What the run does, in a few words: waiting, tuning, weights, sampling, ..."""
    progress: str
    """How much of that is done."""
    rounds: str
    """Network rounds so far."""
    rate: str
    """Rounds per second, now."""
    rates: list[float]
    """Rounds per second, for each second of the last minutes."""
    running_for: str
    disagreement: str
    traces: list[Trace]
    certificate: str
    is_expiring: bool
    """Whether the certificate ends soon, or has ended."""
    neighbours: list[NeighbourView]

    @classmethod
    def of(cls, status: Mapping[str, Any], now: float | None = None) -> View:
        """What to show of a status.

        Args:
            status: the content of the file.
            now: seconds since 1970; by default the time of the clock.
        """
        now = time.time() if now is None else now
        level = _level(status, now)
        is_alive = level in ("advancing", "waiting", "computing")
        days, disagreement = status.get("certificate_days"), status.get("disagreement")
        rows = [_neighbour(each, is_alive) for each in status["neighbours"]]
        task, rounds_per_second = status.get("task") or {}, status.get("rounds_per_second") or 0
        title, detail = _words(level, status, rows, now)
        title += _without(status)
        return cls(
            level=level,
            title=title,
            detail=detail,
            phase=str(task.get("name") or "not reported"),
            progress=_progress(task),
            rounds=f"{status['rounds']:,}",
            rate=f"{rounds_per_second:,.1f}" if is_alive else "0.0",
            rates=_rates(status.get("history") or []),
            running_for=how_long(status["time"] - (status.get("began") or status["time"])),
            disagreement="not known" if disagreement is None else f"{disagreement:.3g}",
            traces=_traces(status),
            certificate=_certificate(days),
            is_expiring=days is not None and days < WARNING_DAYS,
            neighbours=rows,
        )


def snapshot(folder: Path) -> dict[str, Any]:
    """The status of the newest run of a site, with what to show of it under `view`."""
    status = read_status(folder)
    try:
        return status | {"view": asdict(View.of(status))}
    except (TypeError, ValueError, AttributeError):
        raise SiteError(
            f"the status in {folder} is damaged, or of another version of starlings: show it with "
            "the version that runs the site."
        ) from None


def how_long(seconds: float) -> str:
    """A duration in two units, such as 12 s, 3 min 20 s or 2 h 5 min.

    >>> how_long(200.0)
    '3 min 20 s'
    """
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} days"


def how_much(count: float) -> str:
    """A number of bytes with its unit, such as 12.3 kB.

    >>> how_much(12_345)
    '12.3 kB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def _level(status: Mapping[str, Any], now: float) -> str:
    if status["state"] == "done":
        return "done"
    if status["state"] != "running" or now - status["time"] > STALE:
        return "stopped"
    if status["rounds"] and now - _advanced(status) <= STILL:
        return "advancing"
    return "waiting" if _waited_for(status) else "computing"


def _advanced(status: Mapping[str, Any]) -> float:
    """When the number of rounds grew last: seconds since 1970."""
    return float(status.get("advanced") or status.get("began") or status["time"])


def _waited_for(status: Mapping[str, Any]) -> list[tuple[float, str]]:
    """For how many seconds which neighbour has been waited for, the longest first."""
    waits = [(each.get("waiting_seconds") or 0.0, each["name"]) for each in status["neighbours"]]
    return sorted((wait for wait in waits if wait[0] >= WAITED), reverse=True)


def _words(
    level: str, status: Mapping[str, Any], rows: Sequence[NeighbourView], now: float
) -> tuple[str, str]:
    """A title and a sentence on how the site is doing."""
    if level == "done":
        return "The run is done", "This site has made its result."
    if level == "stopped":
        return _stopped(status, now)
    down = [row.name for row in rows if row.link == "down"]
    links = f" No link to {_listed(down)}." if down else ""
    if level == "waiting":
        seconds, name = _waited_for(status)[0]
        state = f" The link to {name} is up." if name not in down else ""
        return f"Waiting for {name}", (
            f"It has been awaited for {how_long(seconds)}.{state}{links} The run goes on by itself "
            f"as soon as the message of {name} is here."
        )
    if level == "advancing":
        return "The run is advancing", f"All messages of the neighbours come in time.{links}"
    since = how_long(now - _advanced(status))
    return "This site is computing", f"Nobody is waited for. The last round was {since} ago.{links}"


def _without(status: Mapping[str, Any]) -> str:
    """Whom the run does not have, in words."""
    absent = status.get("absent") or []
    return f" (without {_listed(absent)})" if absent else ""


def _stopped(status: Mapping[str, Any], now: float) -> tuple[str, str]:
    seen = how_long(now - status["time"])
    if status["state"] == "running":
        return "This site is not running any more", f"It was last seen {seen} ago. {AGAIN}"
    why = status["state"].removeprefix("stopped:").strip().rstrip(".")
    return "This site has stopped", f"{seen} ago: {why or 'no reason is known'}. {AGAIN}"


def _neighbour(each: Mapping[str, Any], is_alive: bool) -> NeighbourView:
    link, words = _link(each) if is_alive else ("unknown", "not known")
    trip = each.get("round_trip")
    return NeighbourView(
        name=each["name"],
        link=link,
        words=words,
        round_trip="" if trip is None or link in ("down", "unknown") else f"{1000 * trip:,.1f} ms",
        bytes_received=how_much(each.get("bytes_received") or 0),
        bytes_sent=how_much(each.get("bytes_sent") or 0),
        received=f"{each.get('received') or 0:,}",
        unconfirmed=f"{max((each.get('made') or 0) - (each.get('confirmed') or 0), 0):,}",
        last_error=str(each.get("last_error") or ""),
    )


def _link(each: Mapping[str, Any]) -> tuple[str, str]:
    """The state of a link, by a name and in words."""
    waited = each.get("waiting_seconds") or 0.0
    since = f"awaited for {how_long(waited)}" if waited >= WAITED else ""
    if each.get("is_connected"):
        return ("waited", f"up, {since}") if since else ("up", "up")
    refused = "refused, see the error" if each.get("is_refused") else ""
    doing = refused or str(each.get("doing") or "not connected")
    return "down", ", ".join(["down", *([since] if since else []), doing])


def _rates(history: Sequence[Sequence[float]]) -> list[float]:
    """Rounds per second, between each two points of the history."""
    return [
        round((rounds - before) / (now - then), 2) if now > then and rounds > before else 0.0
        for (then, before), (now, rounds) in pairwise(history)
    ]


def _progress(task: Mapping[str, Any]) -> str:
    """How much of a task is done, such as "310 of 2,000 rounds"; empty if that is not known."""
    done, total = task.get("done"), task.get("total")
    return "" if done is None or total is None else f"{done:,} of {total:,} {task.get('unit')}"


def _traces(status: Mapping[str, Any]) -> list[Trace]:
    """The traces of a status, without draws that are not numbers."""
    draws = [draw for draw in status.get("traces") or [] if None not in draw]
    columns = zip(*draws, strict=True)
    return [
        Trace(str(name), list(values), f"{values[-1]:.3g}")
        for name, values in zip(status.get("traced") or [], columns, strict=False)
    ]


def _certificate(days: float | None) -> str:
    if days is None:
        return "not known"
    if days < 0:
        return "expired"
    return f"{int(days):,} day{'' if int(days) == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    """Names with commas, and `and` before the last one."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
