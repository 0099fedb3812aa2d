"""The journal of a site: from it a site that is started again goes on where it was.

It is a file to which records are appended, never changed:

    length 4 | checksum 4 | kind 1 | neighbour 4 | number 8 | durable 8 | bytes                (1)

RECEIVED   a message of a neighbour. It counts as received for good once it is on disk; until then
           the neighbour keeps it, see `stream`
SENT       the digest of a message to a neighbour. What is made again after a restart must be equal
           in every bit: a mask must never hide other numbers than before
FOUND      a value that was found by chance or by the clock, such as a key

A record that was being written when the machine stopped is cut off. Damage with whole records after
it is an error: what a site has sent must not be forgotten. The file has keys in it, and can be read
by its owner only. One process at a time may use it.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import threading
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from starlings.errors import SiteError
from starlings.runtime.peers.frames import LARGEST_BODY
from starlings.system.locks import locked

HEAD = struct.Struct("<II")
"""Length and checksum of eq. (1)."""
FIELDS = struct.Struct("<BIQQ")
"""Kind, neighbour, number and `durable` of eq. (1)."""
TITLE = b"starlings journal 1\n"
LARGEST_RECORD = HEAD.size + FIELDS.size + LARGEST_BODY
LIKE_A_RECORD = re.compile(rb"(?=.{3}[\0-\4].{4}[\1-\3]..\0\0.{5}\0{3}.{5}\0{3})", re.DOTALL)
"""Where a record may begin, as far as the highest bytes of its numbers say."""
SYNC_EVERY = 0.1
"""Seconds from one writing to disk to the next."""


class Kind(IntEnum):
    """What a record is."""

    RECEIVED = 1
    SENT = 2
    FOUND = 3


class Place(NamedTuple):
    """Where in the file the bytes of a record are."""

    offset: int
    length: int


@dataclass
class Past:
    """What a site did before it was started again."""

    received: dict[int, deque[Place]] = field(default_factory=dict)
    """The messages of each neighbour, by its number, in order."""
    sent: dict[int, deque[Place]] = field(default_factory=dict)
    """The digests of the messages to each neighbour, in order."""
    durable: dict[int, int] = field(default_factory=dict)
    """How many messages each neighbour had on disk, as far as it said so."""
    found: deque[Place] = field(default_factory=deque)
    """The values that were found by chance, in order."""


class Journal:
    """The journal of one site in one run."""

    def __init__(self, path: Path, run: bytes) -> None:
        """Open the journal, which is made if there is none, and read what is in it.

        Args:
            path: the file.
            run: the name of the run; the journal of another run is refused.
        """
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = ExitStack()
        self._lock.enter_context(locked(path))
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._writing = threading.Lock()
        self.past = Past()
        """What was in the file."""
        try:
            self._size = self._begun(run)
        except BaseException:
            os.close(self._file)
            self._lock.close()
            raise
        self._synced = self._size
        self._wanted = threading.Event()
        self._closing = threading.Event()
        self.on_sync: list[Callable[[], None]] = []
        """Called after each writing to disk."""
        self.failure: SiteError | None = None
        self._thread = threading.Thread(target=self._sync_always, daemon=True, name="journal")
        self._thread.start()

    @property
    def synced(self) -> int:
        """Bytes of the file that are on disk."""
        return self._synced

    def append(
        self, kind: Kind, body: bytes, neighbour: int = 0, number: int = 0, durable: int = 0
    ) -> int:
        """Append a record; return the size of the file with it, see `synced`."""
        if len(body) > LARGEST_BODY:
            here, most = (f"{count / 2**20:.0f} MiB" for count in (len(body), LARGEST_BODY))
            raise SiteError(
                f"a message of {here} is too large: {most} is the limit. Ask for fewer draws, or "
                "take another method."
            )
        content = FIELDS.pack(kind, neighbour, number, durable) + body
        record = HEAD.pack(len(content), zlib.crc32(content)) + content  # (1)
        with self._writing:
            if self.failure is not None:
                raise self.failure
            try:
                _write_all(self._file, record, self._size)
            except OSError as error:
                raise self._failed(error) from None
            self._size += len(record)
            size = self._size
        self._wanted.set()
        return size

    def remembered(self, make: Callable[[], bytes]) -> bytes:
        """Bytes that are found by chance or by the clock, the same again after a restart."""
        if self.past.found:
            return self.body(self.past.found.popleft())
        value = make()
        self.append(Kind.FOUND, value)
        self.sync()  # before anything is sent that follows from it
        return value

    def body(self, place: Place) -> bytes:
        """The bytes of a record."""
        return os.pread(self._file, place.length, place.offset)

    def sync(self) -> None:
        """Write to disk what has been appended so far."""
        with self._writing:
            size = self._size
        if self.failure is not None:
            raise self.failure
        if size > self._synced:
            try:
                os.fsync(self._file)
            except OSError as error:
                raise self._failed(error) from None
            self._synced = size
            for called in self.on_sync:
                called()

    def close(self) -> None:
        """Write everything to disk and let others use the file."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._wanted.set()
        self._thread.join()
        with self._writing:
            closed, self._file = self._file, -1  # nothing is written to a file that got its number
            os.close(closed)
        self._lock.close()

    def _sync_always(self) -> None:
        with contextlib.suppress(SiteError):  # the next `append` raises it
            while not self._closing.is_set():
                self._wanted.wait()
                self._wanted.clear()
                self.sync()
                self._closing.wait(SYNC_EVERY)
            self.sync()

    def _failed(self, error: OSError) -> SiteError:
        """The error of all that is written from now on: nobody knows what is on disk."""
        self.failure = SiteError(
            f"the journal {self.path} cannot be written ({error.strerror}). Make room or mend the "
            "disk, and start this site again: it goes on where it was."
        )
        return self.failure

    def _begun(self, run: bytes) -> int:
        """The size of the file, of which all records have been read, or of a new one."""
        title, size = TITLE + run, os.fstat(self._file).st_size
        if size < len(title):  # a new file, or one that was never begun
            os.ftruncate(self._file, 0)
            _write_all(self._file, title, 0)
            return len(title)
        if os.pread(self._file, len(title), 0) != title:
            raise SiteError(
                f"{self.path} is the journal of another run, or of another version of starlings: "
                "remove it, or name another folder for this run."
            )
        end = self._read(len(title), size)
        if self._is_followed(end, size):
            raise SiteError(
                f"{self.path} is damaged at byte {end:,}, and whole records follow, so that it was "
                "not being written there: put back a copy of the file, and look after the disk. "
                "Without a copy, start the run anew at all sites."
            )
        os.ftruncate(self._file, end)  # a record that was being written
        return end

    def _read(self, offset: int, size: int) -> int:
        """Read all whole records; return where they end."""
        while (content := self._content(offset, size)) is not None:
            self._remember(content, offset + HEAD.size)
            offset += HEAD.size + len(content)
        return offset

    def _content(self, offset: int, size: int) -> bytes | None:
        """What the record at an offset has after its head; None if there is no whole record."""
        if offset + HEAD.size > size:
            return None
        length, checksum = HEAD.unpack(os.pread(self._file, HEAD.size, offset))
        if not FIELDS.size <= length <= min(size - offset, LARGEST_RECORD) - HEAD.size:
            return None
        content = os.pread(self._file, length, offset + HEAD.size)
        return content if len(content) == length and zlib.crc32(content) == checksum else None

    def _is_followed(self, offset: int, size: int) -> bool:
        """Whether a whole record begins after one at an offset that is not whole."""
        rest = os.pread(self._file, LARGEST_RECORD, offset)
        places = (found.start() for found in LIKE_A_RECORD.finditer(rest, 1))
        return any(self._content(offset + place, size) is not None for place in places)

    def _remember(self, content: bytes, offset: int) -> None:
        kind, neighbour, _, durable = FIELDS.unpack_from(content)
        place, past = Place(offset + FIELDS.size, len(content) - FIELDS.size), self.past
        if kind == Kind.FOUND:
            past.found.append(place)
            return
        past.durable[neighbour] = max(durable, past.durable.get(neighbour, 0))
        by_neighbour = past.received if kind == Kind.RECEIVED else past.sent
        by_neighbour.setdefault(neighbour, deque()).append(place)


def _write_all(file: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, offset)
        view, offset = view[written:], offset + written
