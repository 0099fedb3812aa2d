"""Ctrl-C between rounds: the signal is noted, and heeded where a chunk of rounds ends.

An exception that Python raises while compiled code runs may be lost in it, and the run goes on.
"""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any, ClassVar


class Interrupts:
    """A context in which the first Ctrl-C is only noted; a second one interrupts at once.

    Within such a context another one is the same. Somebody else's handler of the signal is left
    alone, and threads besides the main one never get it. One of several processes must not wait
    for the end of a chunk, in which it needs the others: with `is_alone` false nothing is noted.
    """

    outermost: ClassVar[Interrupts | None] = None

    def __init__(self, is_alone: bool = True) -> None:
        self.is_alone = is_alone
        self.noted = False
        self.handles = False

    def __enter__(self) -> Interrupts:
        if Interrupts.outermost is not None:
            return Interrupts.outermost
        is_main = threading.current_thread() is threading.main_thread()
        self.handles = (
            self.is_alone
            and is_main
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )
        if self.handles:
            Interrupts.outermost = self
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None
    ) -> None:
        if self.handles:
            Interrupts.outermost = None
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def heed(self) -> None:
        """Raise `KeyboardInterrupt` if there was a signal."""
        if self.noted:
            raise KeyboardInterrupt

    def _note(self, *_: Any) -> None:
        if self.noted:
            raise KeyboardInterrupt
        self.noted = True
