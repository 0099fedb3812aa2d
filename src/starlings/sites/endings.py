"""What ends a run before its time: the hours that the manifest allows, SIGINT and SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from starlings.errors import SiteError
from starlings.runtime.peers.stream import Stream

HOUR = 3600.0
"""Seconds of an hour."""


@contextmanager
def ended_by_time(streams: Collection[Stream], hours: float) -> Iterator[None]:
    """A context that ends the run so many hours after the start of this process."""
    error = SiteError(
        f"this site has worked on the run for {hours:g} hours, which is what the manifest allows. "
        "A new manifest may allow more."
    )

    def end() -> None:
        for stream in streams:
            stream.failed(error)

    timer = threading.Timer(hours * HOUR, end)
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
