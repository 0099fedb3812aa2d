"""What a site sends to the hub for one call, and what it gets back, as bytes.

    message   kind 1 | number of the call 8 | contents                                         (1)
    reply     contents

Contents are, by kind,

    ADD         an array: its type, its entries; the reply is the total, in the same form       (2)
    FORWARD     a list of parts, each for one site; the reply has the parts for this site,
                each from one site                                                              (3)
    EVERYBODY   some bytes; the reply is a list of parts, the bytes of every site               (4)

A list of parts has, for each of them, the number of a site, a length, and as many bytes. Nothing is
pickled.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from starlings.errors import ProtocolError

STAMP = struct.Struct("<BQ")
"""The kind and the number of a call, eq. (1)."""
PART = struct.Struct("<II")
"""The number of a site and a length, in front of a part."""
TYPES: dict[bytes, np.dtype[Any]] = {
    b"d": np.dtype("<f8"),
    b"f": np.dtype("<f4"),
    b"q": np.dtype("<i8"),
    b"Q": np.dtype("<u8"),
}
"""The types of arrays that the hub adds, by the letter in front of the entries."""


class Kind(IntEnum):
    """What a call is for."""

    ADD = 1
    FORWARD = 2
    EVERYBODY = 3


def array_bytes(array: np.ndarray) -> bytes:
    """An array as bytes, eq. (2); its shape is known at the other end."""
    for letter, dtype in TYPES.items():
        if array.dtype == dtype:
            return letter + np.ascontiguousarray(array, dtype).tobytes()
    raise TypeError(f"arrays of type {array.dtype} cannot be added; expected float64 or int64.")


def array_of(data: bytes) -> np.ndarray:
    """The entries in bytes, eq. (2)."""
    dtype = TYPES.get(data[:1])
    if dtype is None or (len(data) - 1) % dtype.itemsize:
        raise ProtocolError("what arrived is not an array.")
    return np.frombuffer(data, dtype, offset=1)


def joined(parts: Mapping[int, bytes]) -> bytes:
    """Parts by the number of a site as one list, in the order of the numbers."""
    return b"".join(PART.pack(site, len(parts[site])) + parts[site] for site in sorted(parts))


def parts_of(data: bytes, sites: int) -> dict[int, bytes]:
    """The parts of a list by the number of a site; a `ProtocolError` if it has other things."""
    found: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        if len(data) - at < PART.size:
            raise ProtocolError("a list that arrived is cut off.")
        site, length = PART.unpack_from(data, at)
        at += PART.size + length
        if site >= sites or site in found or at > len(data):
            raise ProtocolError("a list that arrived has parts that it cannot have.")
        found[site] = data[at - length : at]
    return found
