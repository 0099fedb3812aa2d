"""How a site is doing: a file that is written every second.

The file is status.json in the folder of the run. Nobody but its owner can read it, and nothing can
be done by it: a site is not controlled from elsewhere. `status_view` says what it means.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from starlings.runtime.peers.communicator import PeersCommunicator
from starlings.runtime.peers.links import Links
from starlings.runtime.peers.stream import Stream
from starlings.sites.kit import Kit
from starlings.sites.status_reader import FILE

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds from one writing to the next."""
HISTORY = 300
"""Points of the history of rounds, one for every writing; also draws of the traces, at most."""
RATE_OVER = 10
"""Points over which the rate of rounds is taken."""
TRACED = 4
"""Entries of a position whose traces are kept, the first ones."""
DAY = 86400.0
"""Seconds of a day."""


@dataclass
class Task:
    """What a run does now, as an `Observer` hears it."""

    name: str = "waiting for all sites"
    done: int | None = None
    total: int | None = None
    """The number of its units; None if that is not known."""
    unit: str = ""


class StatusFile:
    """A context in which the status of a site is written every second; an `Observer` of the run."""

    def __init__(
        self,
        folder: Path,
        kit: Kit,
        communicator: PeersCommunicator,
        links: Links,
        absent: Collection[str] = (),
    ) -> None:
        self.path, self.kit, self.links = folder / FILE, kit, links
        self.communicator, self.absent = communicator, absent
        self.started = self.advanced = time.time()
        self.task = Task()
        self.disagreement: float | None = None
        """How far the agents are apart, if it is known."""
        self.traced: list[str] = []
        """Names of the entries of a position whose traces are kept."""
        self.traces: deque[list[float]] = deque(maxlen=HISTORY)
        """These entries, draw by draw."""
        self.history: deque[tuple[float, int]] = deque(maxlen=HISTORY)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_always, daemon=True, name="status")

    def __enter__(self) -> StatusFile:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._ended.set()
        self._thread.join()
        if error is None:
            self.began("done")
        self._try("done" if error is None else f"stopped: {error or type(error).__name__}")

    def began(self, task: str, total: int | None = None, unit: str = "") -> None:
        """Hear of a new task."""
        self.task = Task(task, None if total is None else 0, total, unit)

    def reached(self, done: int) -> None:
        """Hear how much of the task is done."""
        self.task.done = done

    def drew(self, names: Sequence[str], values: np.ndarray, disagreement: float | None) -> None:
        """Hear of a position, and of how far the agents are apart."""
        self.traced, self.disagreement = list(names[:TRACED]), disagreement
        self.traces.append([float(value) for value in values[:TRACED]])

    def _write_always(self) -> None:
        while not self._ended.wait(EVERY):
            self._try("running")

    def _try(self, state: str) -> None:
        """Write the status; no run ends because it cannot be written."""
        try:
            self._write(state)
        except OSError as error:
            logger.warning("%s cannot be written: %s", self.path, error.strerror)

    def _write(self, state: str) -> None:
        now, rounds = time.time(), self.communicator.rounds
        if self.history and rounds > self.history[-1][1]:
            self.advanced = now
        self.history.append((now, rounds))
        content = {
            "site": self.kit.site,
            "trial": self.kit.manifest.trial,
            "manifest": self.kit.manifest.hash,
            "sites": [site for site in self.kit.manifest.sites if site not in self.absent],
            "edges": [e for e in self.kit.manifest.content["edges"] if not {*e} & {*self.absent}],
            "absent": list(self.absent),
            "state": state,
            "process": os.getpid(),
            "began": self.started,
            "time": now,
            "advanced": self.advanced,
            "task": asdict(self.task),
            "disagreement": self.disagreement,
            "traced": self.traced,
            "traces": list(self.traces.copy()),
            "calls": self.communicator.calls,
            "rounds": rounds,
            "rounds_per_second": _rate(self.history),
            "history": list(self.history),
            "certificate_days": _days_left(self.kit, now),
            "neighbours": [self._neighbour(s) for s in self.communicator.streams.values()],
        }
        partial = self.path.with_name(f"{FILE}.new")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as stream:
            json.dump(content, stream)
        partial.replace(self.path)

    def _neighbour(self, stream: Stream) -> dict[str, Any]:
        link, since = self.links.state().get(stream.neighbour), stream.waiting_since
        found: dict[str, Any] = {
            "name": stream.neighbour,
            "waiting_seconds": None if since is None else time.monotonic() - since,
            "received": stream.num_arrived,
            "made": stream.made,
            "confirmed": stream.durable,
        }
        if link is None:
            return found
        return found | {
            "is_connected": link.is_connected,
            "since": link.since,
            "doing": link.doing,
            "way": link.way,
            "connections": link.connections,
            "last_error": link.last_error,
            "is_refused": link.is_refused,
            "bytes_sent": link.bytes_sent,
            "bytes_received": link.bytes_received,
            "round_trip": link.round_trip,
        }


def _rate(history: deque[tuple[float, int]]) -> float:
    """Rounds per second over the last points."""
    (then, before), (now, rounds) = history[-min(RATE_OVER, len(history))], history[-1]
    return (rounds - before) / (now - then) if now > then else 0.0


def _days_left(kit: Kit, now: float) -> float:
    return float((kit.certificate.not_valid_after_utc.timestamp() - now) / DAY)
