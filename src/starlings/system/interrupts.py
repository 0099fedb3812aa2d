"""Ctrl-C is deferred to the end of a chunk of rounds.

An exception that Python raises while compiled code runs may be lost in it, and the run would go on.
"""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any, ClassVar


class DeferredInterrupt:
    """A context in which the first Ctrl-C is deferred; a second one interrupts at once.

    Nested contexts share one object. A signal handler that another program installed stays in
    place, and only the main thread receives signals.

    Args:
        is_single_process: whether to defer at all. One of several processes is interrupted at once:
            a chunk of rounds needs the other processes, which may have stopped already.
    """

    active: ClassVar[DeferredInterrupt | None] = None

    def __init__(self, is_single_process: bool = True) -> None:
        self.is_single_process = is_single_process
        self.is_pending = False
        self.handles = False

    def __enter__(self) -> DeferredInterrupt:
        if DeferredInterrupt.active is not None:
            return DeferredInterrupt.active
        is_main = threading.current_thread() is threading.main_thread()
        self.handles = (
            self.is_single_process
            and is_main
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self.handles:
            DeferredInterrupt.active = self
            signal.signal(signal.SIGINT, self._defer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        if self.handles:
            DeferredInterrupt.active = None
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def raise_if_pending(self) -> None:
        """Raise `KeyboardInterrupt` if Ctrl-C was pressed in this context."""
        if self.is_pending:
            raise KeyboardInterrupt

    def _defer(self, *_: Any) -> None:
        if self.is_pending:
            raise KeyboardInterrupt
        self.is_pending = True
