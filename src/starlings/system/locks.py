"""Locks: only one run at a time writes an output or a checkpoint.

A run opens the file PATH.lock and has the operating system lock it. The lock ends with the process,
however it ends, so the file that a killed run leaves behind stops nobody. On systems without such
locks (Windows) the existence of the file is the lock.
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
    """Lock paths for the duration of a context; raise if another run has locked one of them."""
    with ExitStack() as locks:
        for path in paths:
            locks.enter_context(_locked(path))
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
    """Open and lock the file, and return its descriptor."""
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
        os.close(descriptor)  # the run that had locked it has just removed it


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
