"""The layout of what crosses a link between two sites: frames of a fixed head and some bytes.

    magic 2 | kind 1 | version 1 | run 16 | sender 4 | number 8 | durable 8 | length 4 | bytes (1)

All numbers are unsigned and little-endian. Nothing in a frame is an object of a programming
language, and nothing but these fields is looked at before a frame is accepted.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from starlings.errors import ProtocolError

HEAD = struct.Struct("<2sBB16sIQQI")
"""Eq. (1), up to the bytes."""
MAGIC = b"sT"
VERSION = 1
RUN_BYTES = 16
"""Bytes of the name of a run."""
LARGEST_BODY = 64 * 2**20
"""Bytes of a message, at most; longer ones are refused before they are read."""


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 1
    """The first frame of a connection: the next number that its sender wants, in `number`."""
    MESSAGE = 2
    """The message with the number `number`."""
    RECEIPT = 3
    """Nothing but `durable`."""


class Frame(NamedTuple):
    """One frame."""

    kind: Kind
    run: bytes
    """The name of the run, the same at all sites."""
    sender: int
    """The number of the site that sends it."""
    number: int
    """The number of a message, or of the next one that is wanted."""
    durable: int
    """How many messages of the receiver the sender has on disk."""
    body: bytes = b""

    def encoded(self) -> bytes:
        """The frame as bytes, eq. (1)."""
        head = HEAD.pack(
            MAGIC,
            self.kind,
            VERSION,
            self.run,
            self.sender,
            self.number,
            self.durable,
            len(self.body),
        )  # (1)
        return head + self.body

    @classmethod
    def decoded(cls, frame: bytes) -> Frame:
        """The frame of these bytes; a `ProtocolError` if they are none."""
        if len(frame) < HEAD.size:
            raise ProtocolError(f"a frame has {HEAD.size} bytes or more, got {len(frame)}.")
        magic, kind, version, run, sender, number, durable, length = HEAD.unpack_from(frame)
        if magic != MAGIC or kind not in list(Kind):
            raise ProtocolError("these bytes are no frame of starlings.")
        if version != VERSION:
            raise ProtocolError(
                f"a frame has the version {version}, and here is version {VERSION}: install the "
                "same version of starlings at all sites."
            )
        if length != len(frame) - HEAD.size or length > LARGEST_BODY:
            raise ProtocolError(
                f"a frame says that {length} bytes follow, and {len(frame) - HEAD.size} do."
            )
        return cls(Kind(kind), run, sender, number, durable, frame[HEAD.size :])
