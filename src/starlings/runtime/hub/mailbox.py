"""Where the program of a site leaves a message for the hub, and finds the reply.

The hub visits: visit number t brings the reply to message t, and takes message t + 1 away. A visit
that is repeated, because the hub did not hear the answer, finds the same message. A program that
computes for longer than `MOMENT` is left alone, and visited again.
"""

from __future__ import annotations

import threading
from enum import IntEnum
from typing import NamedTuple

from starlings.errors import SiteError

MOMENT = 1.0
"""Seconds for which a visit waits for a message."""


class State(IntEnum):
    """What a visit finds."""

    COMPUTES = 0
    """No message yet."""
    WAITS = 1
    """A message, and a program that waits for its reply."""
    DONE = 2
    """The program has ended well."""
    STOPPED = 3
    """The program has ended with an error."""


class Visit(NamedTuple):
    """What the hub brings."""

    number: int
    """How many replies there were before and with this one."""
    reply: bytes
    """The reply to the message with that number; empty for the number 0."""


class Mailbox:
    """The messages of one site, between its program and what visits it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._state, self._message = State.COMPUTES, b""
        self._asked = 0
        """Messages so far."""
        self._answered = 0
        """Replies so far."""
        self._reply = b""
        self._failure: SiteError | None = None

    def ask(self, message: bytes) -> bytes:
        """Leave a message, and wait for its reply."""
        with self._changed:
            self._asked, self._message = self._asked + 1, message
            self._set(State.WAITS)
            self._changed.wait_for(lambda: self._failure or self._answered == self._asked)
            if self._failure is not None:
                raise self._failure
            return self._reply

    def end(self, state: State) -> None:
        """Say that the program has ended, DONE or STOPPED."""
        with self._changed:
            self._set(state)

    def close(self, reason: str) -> None:
        """End a program that waits, or asks later: the hub comes no more."""
        with self._changed:
            self._failure = self._failure or SiteError(reason)
            self._changed.notify_all()

    def visited(self, visit: Visit, moment: float = MOMENT) -> tuple[State, bytes]:
        """Take a reply, and return what the program does, with the next message if it waits."""
        with self._changed:
            if visit.number == self._answered + 1 == self._asked and self._state == State.WAITS:
                self._answered, self._reply = visit.number, visit.reply
                self._set(State.COMPUTES)
            elif visit.number != self._answered:
                raise SiteError(
                    f"the hub brought reply {visit.number:,} to a site that waits for "
                    f"{self._asked:,}: it does not run the same program."
                )
            self._changed.wait_for(lambda: self._state != State.COMPUTES, moment)
            return self._state, self._message if self._state == State.WAITS else b""

    def _set(self, state: State) -> None:
        self._state = state
        self._changed.notify_all()
