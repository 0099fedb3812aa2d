"""Kits as zip files: written in one way, and read with suspicion.

The same members are always the same bytes: no times, a fixed order, no compression, and a checksum
at the end (`system.files`, eq. (1)), which every other program ignores. What is read must be small
and plain, with the known names, each once; nothing is ever unpacked into a folder.
"""

from __future__ import annotations

import io
import lzma
import re
import stat
import zipfile
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path

from starlings.errors import SiteError
from starlings.sites.keys import read_limited
from starlings.system.files import CHECKSUM_BYTES, CHECKSUM_LINE

MOST_BYTES = 2_000_000
"""Bytes of a kit, and of all its members together, at most."""
BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The time of all members, the earliest that a zip file can have."""

UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(ValueError, RuntimeError, EOFError, OSError),
)
"""What reading a damaged zip file raises."""


def packed(members: Mapping[str, bytes]) -> bytes:
    """The zip file with these members."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, BEGINNING)
            entry.create_system = 3  # Unix, whatever the system is
            entry.external_attr = (stat.S_IFREG | 0o600) << 16
            archive.writestr(entry, members[name])
    data = stream.getvalue()
    return data + b"\nstarlings crc32 %08x\n" % zlib.crc32(data)


def unpacked(path: Path, names: Collection[str]) -> dict[str, bytes]:
    """The members of a kit, which must be exactly those with the given names."""
    data = read_limited(path, MOST_BYTES)
    _check_sum(path, data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            _check_entries(path, entries, names)
            return {entry.filename: _member(archive, entry) for entry in entries}
    except UNREADABLE as error:
        raise _damaged(path, f"it is not a zip file that can be read ({error})") from None


def _check_sum(path: Path, data: bytes) -> None:
    found = CHECKSUM_LINE.fullmatch(data[-CHECKSUM_BYTES:])
    if found is None:
        raise _damaged(path, "it was cut short, or packed again by another program")
    if int(found[1], 16) != zlib.crc32(data[:-CHECKSUM_BYTES]):
        raise _damaged(path, "its checksum is not that of its contents")


def _check_entries(path: Path, entries: list[zipfile.ZipInfo], names: Collection[str]) -> None:
    found = [entry.filename for entry in entries]
    if sorted(found) != sorted(names):
        listed = ", ".join(re.sub(r"[^\w./-]", "?", name)[:40] for name in found[:8])
        raise _damaged(path, f"it has the members {listed or 'none'} and not {', '.join(names)}")
    for entry in entries:
        is_plain = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG)
        if not is_plain or entry.flag_bits & 1:
            raise _damaged(path, f"{entry.filename} in it is a link, a folder, or encrypted")
    if sum(entry.file_size for entry in entries) > MOST_BYTES:
        raise _damaged(path, f"it unpacks to more than {MOST_BYTES:,} bytes")


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """The contents of a member; never more than it announced, which was checked."""
    with archive.open(entry) as stream:
        data = stream.read(entry.file_size + 1)
    if len(data) != entry.file_size:
        raise ValueError("a member has another size than it announces")
    return data


def _damaged(path: Path, fault: str) -> SiteError:
    return SiteError(f"{path} is not a kit that can be used: {fault}. Ask the coordinator for it.")
