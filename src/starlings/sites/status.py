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
from collections.abc import Collection
from pathlib import Path
from typing import Any

from starlings.runtime.peers.communicator import PeersCommunicator
from starlings.runtime.peers.links import Links
from starlings.runtime.peers.stream import Stream
from starlings.sites.kit import Kit
from starlings.sites.status_reader import FILE

logger = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds from one writing to the next."""
HISTORY = 300
"""Points of the history of calls, one for every writing."""
RATE_OVER = 10
"""Points over which the rate of calls is taken."""
DAY = 86400.0
"""Seconds of a day."""


class StatusFile:
    """A context in which the status of a site is written every second."""

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
        self.began = self.advanced = time.time()
        self.phase = ""
        """What the run does now, in words."""
        self.disagreement: float | None = None
        """How far the agents are apart, if it is known."""
        self.history: deque[tuple[float, int]] = deque(maxlen=HISTORY)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_always, daemon=True, name="status")

    def __enter__(self) -> StatusFile:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._ended.set()
        self._thread.join()
        self._try("done" if error is None else f"stopped: {error or type(error).__name__}")

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
        now, calls = time.time(), self.communicator.calls
        if self.history and calls > self.history[-1][1]:
            self.advanced = now
        self.history.append((now, calls))
        content = {
            "site": self.kit.site,
            "trial": self.kit.manifest.trial,
            "manifest": self.kit.manifest.hash,
            "sites": [site for site in self.kit.manifest.sites if site not in self.absent],
            "edges": [e for e in self.kit.manifest.content["edges"] if not {*e} & {*self.absent}],
            "absent": list(self.absent),
            "state": state,
            "process": os.getpid(),
            "began": self.began,
            "time": now,
            "advanced": self.advanced,
            "phase": self.phase,
            "disagreement": self.disagreement,
            "calls": calls,
            "calls_per_second": _rate(self.history),
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
    """Calls per second over the last points."""
    (then, before), (now, calls) = history[-min(RATE_OVER, len(history))], history[-1]
    return (calls - before) / (now - then) if now > then else 0.0


def _days_left(kit: Kit, now: float) -> float:
    return float((kit.certificate.not_valid_after_utc.timestamp() - now) / DAY)
