"""What a site sent and received: a file of JSON lines that is only ever appended to.

Every line has the SHA-256 `chain` of the line before it and of itself,

    chain(n) = SHA-256( chain(n - 1), line n without `chain` ),   chain(-1) = 64 zeros      (1)

so that a line which is changed, left out, added or moved breaks all lines after it. The first line
(`what` = "began") names the site and the manifest, and the last one ("ended") shows that nothing is
missing at the end. The lines between them have `what` ("sent" or "received"), `other` (the site at
the other end), `number` of the message in its stream, `kind`, `bytes`, `digest` (SHA-256 of the
message) and `time` in UTC. The messages themselves are not there: a transcript can be shown.

A site can write a false transcript from the beginning. The comparison with the transcripts of its
neighbours (`audit`) is what shows that.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from starlings.errors import SiteError
from starlings.runtime.peers.stream import Stream
from starlings.sites.documents import (
    FORMAT,
    Table,
    as_text,
    canonical,
    check_kind,
    field,
    now_utc,
    parsed,
    sha256,
)

KIND = "transcript"
"""What the first line calls the file."""
NO_CHAIN = "0" * 64
"""The chain before the first line."""
LONGEST_LINE = 4_000
"""Bytes of a line, at most."""
WRITING = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
"""How the file is opened, on every system."""
SENT, RECEIVED, BEGAN, ENDED = "sent", "received", "began", "ended"
"""The values of `what`."""


def chained(before: str, line: Table) -> str:
    """The chain of a line without `chain`, eq. (1)."""
    return sha256(before.encode() + canonical(line))  # (1)


class Transcript:
    """The transcript that a site writes.

    After a restart the same file goes on. Messages that are in it already are not written again,
    and what a power cut has damaged at the end is removed: a site that starts again makes all
    messages again, and those that are missing are written then.

    Args:
        path: the file; it is made if it does not exist.
        site: the name of the site that writes it.
        manifest: the hash of the manifest of the run.
    """

    def __init__(self, path: Path, site: str, manifest: str) -> None:
        self.path, self.site = path, site
        self._lock = threading.Lock()
        self._next: dict[tuple[str, str], int] = {}
        self._chain, self._has_ended = NO_CHAIN, False
        size = self._resume(manifest) if path.exists() else 0
        self._file = self._opened(size)
        if self._chain == NO_CHAIN:
            first = {"kind": KIND, "format": FORMAT, "what": BEGAN, "site": site}
            self._append({**first, "manifest": manifest, "time": as_text(now_utc())})
            os.fsync(self._file.fileno())

    def follow(self, stream: Stream) -> None:
        """Write down every message of a stream, in both directions."""
        name = stream.neighbour
        stream.on_sent = lambda number, body: self.sent(name, number, "message", body)
        stream.on_used = lambda number, body: self.received(name, number, "message", body)

    def sent(self, other: str, number: int, kind: str, message: bytes) -> None:
        """Write that a message was sent; numbers of a stream rise, and repeats are left out."""
        self._record(SENT, other, number, kind, message)

    def received(self, other: str, number: int, kind: str, message: bytes) -> None:
        """Write that a message was received."""
        self._record(RECEIVED, other, number, kind, message)

    def end(self) -> None:
        """Write that the run is over; nothing can follow."""
        with self._lock:
            if not self._has_ended:
                self._append({"what": ENDED, "time": as_text(now_utc())})
                self._has_ended = True
                os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Transcript:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _record(self, what: str, other: str, number: int, kind: str, message: bytes) -> None:
        with self._lock:
            if number < self._next.get((what, other), 0):
                return
            if self._has_ended:
                raise SiteError(f"{self.path} has ended, and the run still goes on; name another.")
            self._next[what, other] = number + 1
            entry = {"what": what, "other": other, "number": number, "kind": kind}
            seen = {"bytes": len(message), "digest": sha256(message), "time": as_text(now_utc())}
            self._append({**entry, **seen})

    def _append(self, line: Table) -> None:
        self._chain = chained(self._chain, line)
        self._file.write(canonical({**line, "chain": self._chain}) + b"\n")
        self._file.flush()

    def _opened(self, size: int) -> BinaryIO:
        """The file, open at its end, without what follows the last whole line."""
        descriptor = os.open(self.path, WRITING, 0o600)
        os.ftruncate(descriptor, size)
        stream = os.fdopen(descriptor, "wb")
        stream.seek(size)
        return stream

    def _resume(self, manifest: str) -> int:
        """Take up a file that exists; the bytes of its whole lines."""
        size = 0
        try:
            for line in Lines(self.path, is_cut_allowed=True):
                if line.what == BEGAN:
                    line.check_begin(self.path, self.site, manifest)
                self._chain, self._has_ended = line.chain, line.what == ENDED
                if line.what in (SENT, RECEIVED):
                    self._next[line.what, line.entry["other"]] = line.entry["number"] + 1
                size = line.end
        except SiteError:
            if not size:
                raise
        return size


@dataclass(frozen=True)
class Line:
    """A line whose chain is right."""

    what: str
    entry: Table
    """The line without `chain`."""
    chain: str
    end: int
    """Bytes of the file up to the end of this line."""

    def check_begin(self, path: Path, site: str, manifest: str) -> None:
        """Refuse the first line of the transcript of another site or run."""
        if (self.entry["site"], self.entry["manifest"]) != (site, manifest):
            raise SiteError(
                f"{path} is the transcript of {self.entry['site']!r} in another run. Name another "
                "file, or move it away."
            )


@dataclass(frozen=True)
class Lines:
    """The lines of a transcript; the first one that was tampered with is an error."""

    path: Path
    is_cut_allowed: bool = False
    """Whether a last line without its end is left out, and no error."""

    def __iter__(self) -> Iterator[Line]:
        chain, number, end, has_ended = NO_CHAIN, 0, 0, False
        for data in self._whole_lines():
            where = f"{self.path}, line {number + 1}"
            line = self._checked(data, chain, number, where)
            if has_ended:
                raise SiteError(f"{where} follows the end of the run; the file was changed.")
            has_ended = line["what"] == ENDED
            chain, number, end = line.pop("chain"), number + 1, end + len(data) + 1
            yield Line(line["what"], line, chain, end)

    def _whole_lines(self) -> Iterator[bytes]:
        if not self.path.is_file():
            raise SiteError(f"there is no transcript at {self.path}; check the name.")
        with self.path.open("rb") as stream:
            while data := stream.readline(LONGEST_LINE + 1):
                if data.endswith(b"\n"):
                    yield data[:-1]
                elif not self.is_cut_allowed or len(data) > LONGEST_LINE:
                    raise SiteError(f"{self.path} was cut off in its last line, or is damaged.")

    def _checked(self, data: bytes, chain: str, number: int, where: str) -> Table:
        line = parsed(data, where)
        rest = {name: value for name, value in line.items() if name != "chain"}
        if field(line, "chain", str, where) != chained(chain, rest):
            raise SiteError(
                f"{where} was changed, or a line before it was left out, added or moved. Ask the "
                "site for its transcript as it was written."
            )
        what = field(line, "what", str, where)
        if (number == 0) != (what == BEGAN) or what not in (BEGAN, ENDED, SENT, RECEIVED):
            raise SiteError(f"{where} is not what stands there in a transcript; it was changed.")
        _check_types(line, what, where)
        return line


def _check_types(line: Table, what: str, where: str) -> None:
    """Refuse a line whose fields have wrong types."""
    if what == BEGAN:
        check_kind(line, KIND, where)
    kinds: dict[str, dict[str, Any]] = {BEGAN: {"site": str, "manifest": str}, ENDED: {}}
    of_messages = {"other": str, "number": int, "kind": str, "bytes": int, "digest": str}
    for name, kind in kinds.get(what, of_messages).items():
        field(line, name, kind, where)
