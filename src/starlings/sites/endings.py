"""What ends a run before its time: the hours that the manifest allows, SIGINT and SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from starlings.errors import SiteError
from starlings.runtime.peers.stream import Stream
from starlings.sites.keys import write_private

HOUR = 3600.0
"""Seconds of an hour."""


def first_start(note: Path) -> float:
    """When a run was first started here, in seconds since 1970; noted in a file from then on."""
    if not note.is_file():
        write_private(note, repr(time.time()).encode())
    try:
        return float(note.read_bytes())
    except ValueError:
        raise SiteError(
            f"{note} should have the time at which the run was first started, in seconds since "
            "1970, and is damaged: write it there, or put back a copy."
        ) from None


@contextmanager
def ended_by_time(streams: Collection[Stream], hours: float, began: float) -> Iterator[None]:
    """A context that ends the run so many hours after it was first started here.

    Args:
        streams: what waits for neighbours.
        hours: what the manifest allows.
        began: when the run was first started here, see `first_start`.
    """
    left = min(hours * HOUR, began + hours * HOUR - time.time())
    error = SiteError(
        f"{hours:g} hours have passed since this site first started the run, which is what the "
        "manifest allows. A new manifest may allow more."
    )

    def end() -> None:
        for stream in streams:
            stream.failed(error)

    timer = threading.Timer(max(left, 0.0), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def ended_by_signals(streams: Collection[Stream]) -> Iterator[None]:
    """A context in which SIGINT and SIGTERM end whatever waits for a neighbour.

    Compiled code does not let Python handle signals, so a thread waits for them. SIGTERM does so
    also where a shell has had SIGINT ignored, as for commands in the background.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer)
    handler = signal.signal(signal.SIGTERM, signal.default_int_handler)

    def wait() -> None:
        if os.read(reader, 1) != b"\0":
            for stream in streams:
                stream.failed(KeyboardInterrupt())

    thread = threading.Thread(target=wait, daemon=True, name="signals")
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGTERM, handler)
        os.write(writer, b"\0")
        thread.join()
        os.close(reader)
        os.close(writer)
