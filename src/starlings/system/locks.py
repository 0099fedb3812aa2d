"""One run at a time for each output and each checkpoint.

A run holds an open file PATH.lock, locked by the operating system, which lets go of it when the
process ends in whatever way: what a killed run leaves of it locks nobody out. Where there are no
such locks (Windows), the file itself is the lock.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

fcntl: Any = None
with contextlib.suppress(ImportError):
    import fcntl


@contextmanager
def locked(*paths: Path) -> Iterator[None]:
    """A context in which no other run has any of these paths; an error if one has."""
    with ExitStack() as held:
        for path in paths:
            held.enter_context(_locked(path))
        yield


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = path.with_name(path.name + ".lock")
    descriptor = _taken(path, lock)
    try:
        yield
    finally:
        if fcntl is None:
            os.close(descriptor)  # or it could not be removed
        lock.unlink(missing_ok=True)
        if fcntl is not None:
            os.close(descriptor)


def _taken(path: Path, lock: Path) -> int:
    """The lock, open and held."""
    exclusively = os.O_EXCL if fcntl is None else 0
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | exclusively, 0o666)
            _hold(descriptor)
        except (BlockingIOError, FileExistsError):
            raise BlockingIOError(_in_use(path, lock)) from None
        if _is_at(descriptor, lock):
            os.truncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return descriptor
        os.close(descriptor)  # whoever held it has just removed it


def _hold(descriptor: int) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    except OSError:  # a disk on which nothing can be locked is no reason not to run
        return


def _is_at(descriptor: int, lock: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), lock.stat())
    except FileNotFoundError:
        return False


def _in_use(path: Path, lock: Path) -> str:
    holder = lock.read_text("utf-8").strip() if lock.is_file() else ""
    stale = f" If there is none, remove {lock}." if fcntl is None else ""
    return (
        f"another run is writing {path} ({holder or 'of unknown number'}). Wait until it has "
        f"ended, or name another file.{stale}"
    )
