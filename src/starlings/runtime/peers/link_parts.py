"""What a link needs: the messages of a neighbour, and several things at once of which one ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from starlings.errors import SiteError


class Messages(Protocol):
    """What a link needs of the messages of a neighbour; any thread may call anything."""

    largest_frame: int
    """Bytes of a frame, at most."""
    wake: Callable[[], None]
    """Called by the stream when `due` has something new; a link sets it."""

    def opening(self) -> bytes:
        """The first frame on a new connection."""

    def arrived(self, frame: bytes, /) -> None:
        """Take a frame that has arrived."""

    def due(self) -> list[bytes]:
        """The frames to be sent now, each of them once on a connection."""

    def disconnected(self) -> None:
        """Hear that the connection is gone."""

    def failed(self, error: BaseException, /) -> None:
        """Hear that there will be no connection any more."""


async def first_of(*work: Coroutine[Any, Any, Any]) -> None:
    """Return, or raise, when the first of several coroutines has; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    errors = [task.exception() for task in tasks if task in done]
    for error in sorted(filter(None, errors), key=lambda each: not isinstance(each, SiteError)):
        raise error
