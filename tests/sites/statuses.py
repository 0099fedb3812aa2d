"""The status of a site as it is written every second, made up."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlings.sites.dashboard import Dashboard

SITES = ["Ashby", "Brook", "Cliff", "Dale", "Elm", "Fenwick"]


def neighbour(name: str, **changes: Any) -> dict[str, Any]:
    """A neighbour whose link is up, but for the changes."""
    return {
        "name": name,
        "waiting_seconds": 0.01,
        "received": 4209,
        "made": 4210,
        "confirmed": 4200,
        "is_connected": True,
        "since": time.time() - 600,
        "doing": "",
        "way": "relay.example.org",
        "connections": 1,
        "last_error": "",
        "is_refused": False,
        "bytes_sent": 1_234_567,
        "bytes_received": 1_300_000,
        "round_trip": 0.0312,
    } | changes


def status(**changes: Any) -> dict[str, Any]:
    """The status of a site that advances, but for the changes."""
    now = time.time()
    waves = [40 + 6 * math.sin(second / 7) - 25 * (90 < second < 100) for second in range(240)]
    history = [(now - 240 + second, sum(waves[:second]) // 1) for second in range(240)]
    return {
        "site": "Ashby",
        "trial": "rand-hie",
        "manifest": "3f" * 32,
        "sites": SITES,
        "edges": [[a, b] for a, b in zip(SITES, [*SITES[1:], SITES[0]], strict=True)]
        + [["Ashby", "Dale"]],
        "state": "running",
        "process": 4711,
        "began": now - 7384,
        "time": now,
        "advanced": now,
        "task": {"name": "sampling", "done": 4210, "total": 19_000, "unit": "rounds"},
        "disagreement": 0.01234,
        "traced": ["beta[0]", "log sigma"],
        "traces": [[math.sin(2.1 * k), 1 + k % 7] for k in range(120)],
        "rounds": 4210,
        "rounds_per_second": 44.12,
        "history": history,
        "certificate_days": 61.4,
        "neighbours": [neighbour("Brook"), neighbour("Dale"), neighbour("Fenwick")],
    } | changes


def write(folder: Path, **changes: Any) -> Path:
    """Write a status into the folder of a run, and return the folder of the site."""
    run = folder / "run-3f3f"
    run.mkdir(exist_ok=True)
    (run / "status.json.new").write_text(json.dumps(status(**changes)), encoding="utf-8")
    (run / "status.json.new").replace(run / "status.json")
    return folder


@contextmanager
def serving(folder: Path) -> Iterator[Dashboard]:
    """A context in which the page of a site is served."""
    with Dashboard(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()
