"""Files that are complete or absent, that show damage, and that replace nothing by mistake.

A file is written under a temporary name in the same folder, gets a checksum, is flushed to the
disk, and is renamed. The checksum is a last line that covers everything before it:

    starlings crc32 01234567                                                                (1)

Readers of netCDF (HDF5) and zip files ignore it. CRC-32 detects every change of up to four
consecutive bytes, and misses one in 2^32 of all other changes.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from starlings.errors import NoRoomError, UnreadableFileError

CHECKSUM_LINE = re.compile(rb"\nstarlings crc32 ([0-9a-f]{8})\n")
"""The line (1)."""
CHECKSUM_BYTES = len(b"\nstarlings crc32 01234567\n")
"""Length of the line (1), in bytes."""
READ_BYTES = 2**20
"""Bytes that are read at once to compute a checksum."""
PARTIAL = ".partial"
"""The ending of the temporary names."""
SECRET_MODE = 0o600
"""Permissions of a file that its owner alone may read and write."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of the operating system for a full disk, a full quota, and a file too large."""
FILE_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
"""What a path that is not a plain file is called in messages, by its type."""


def check_writable(path: str | Path) -> Path:
    """Return the path if a file can be written there; check it before a long run, not after.

    Only a plain file may exist there. A symbolic link is refused, too: to rename a file onto it
    would replace the link and not the file that it points to.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"output path {target} is not writable: no folder {target.parent}.")
    if (kind := _kind(target)) is not None:
        error = IsADirectoryError if target.is_dir() else FileExistsError
        raise error(f"output path {target} is {kind}; name a file such as draws.nc.")
    probe = target.with_name(f"{target.name}.{os.getpid()}.probe")
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise PermissionError(f"output path {target} is not writable: {error.strerror}.") from None
    return target


def check_replaceable(path: str | Path, overwrite: bool, inputs: Iterable[Path] = ()) -> Path:
    """Return the path if a file can be written there without losing another one.

    Args:
        path: the file to write.
        overwrite: whether a plain file that exists may be replaced.
        inputs: files that must not be replaced, and folders in which nothing may be written.
    """
    target = check_writable(path)
    for source in inputs:
        if _is_same(source, target) or source.resolve() in target.resolve().parents:
            raise FileExistsError(
                f"output path {target} is an input of this run ({source}); name another file."
            )
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"output path {target} exists; add `--overwrite` (in Python `overwrite=True`) to "
            "replace it, or name another file."
        )
    return target


def _kind(path: Path) -> str | None:
    """Return what exists at a path in words; None for a plain file and for nothing."""
    try:
        mode = stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return None
    return None if mode == stat.S_IFREG else FILE_KINDS.get(mode, "no plain file")


def _is_same(source: Path, target: Path) -> bool:
    """Return whether two paths are the same file, under whatever names."""
    if source.exists() and target.exists():
        return source.samefile(target)
    return source.resolve() == target.resolve()


@contextmanager
def atomic_write(
    target: Path,
    needs: int,
    advice: str = "",
    check: Callable[[], object] = lambda: None,
    checksum: bool = True,
    is_secret: bool = False,
) -> Iterator[Path]:
    """Give a temporary name to write to, and rename it to the target at the end of the context.

    Args:
        target: the file to write; a file that exists is replaced.
        needs: about how many bytes the file takes, for the error message of a full disk.
        advice: what else that message says.
        check: called before the file is renamed; it may raise to prevent that.
        checksum: whether to append the line (1), which text formats such as JSON cannot have.
        is_secret: whether nobody but the user may read the file.
    """
    partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        if is_secret:
            partial.touch(SECRET_MODE)
        yield partial
        if checksum:
            append_checksum(partial)
        check()
        partial.replace(target)
    except (OSError, RuntimeError) as error:  # HDF5 raises either
        number = _error_number(error)
        if number not in NO_SPACE or isinstance(error, NoRoomError):
            raise
        raise _no_room(target, number, needs, advice) from error
    finally:
        partial.unlink(missing_ok=True)


def reserve_space(partial: Path, size: int) -> None:
    """Reserve the bytes of a file, or raise the error of a full disk before anything is written.

    HDF5 may end the whole process when a write fails, so it must not begin to write in vain.
    """
    require_space(partial.parent, size)
    if hasattr(os, "posix_fallocate"):
        with partial.open("wb") as stream:
            try:
                os.posix_fallocate(stream.fileno(), 0, max(size, 1))
            except OSError as error:
                if error.errno in NO_SPACE:  # any other error: this disk cannot reserve space
                    raise


def require_space(folder: Path, size: int) -> None:
    """Raise the error of a full disk if fewer than `size` bytes are free."""
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _error_number(error: BaseException) -> int | None:
    """Return the error number of the operating system, which HDF5 has in its message."""
    number = getattr(error, "errno", None)
    if number is not None:
        return int(number)
    found = re.search(r"errno = (\d+)", str(error))
    return int(found[1]) if found else None


def _no_room(target: Path, number: int, needs: int, advice: str) -> NoRoomError:
    free = f"{format_bytes(shutil.disk_usage(target.parent).free)} are free on its disk"
    if number == errno.EFBIG:
        free = "this process may not write a file as large (see `ulimit -f`)"
    error = NoRoomError(
        f"{target} could not be written: {os.strerror(number)}. It needs about "
        f"{format_bytes(needs)}, and {free}. {advice}".strip()
    )
    error.errno = number
    return error


def format_bytes(size: float) -> str:
    """Format a number of bytes for people, such as 1.5 GB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"


def append_checksum(path: Path) -> None:
    """Append the line (1) to a file, and flush it to the disk."""
    with path.open("r+b") as stream:
        checksum = _checksum(stream, path.stat().st_size)
        stream.write(b"\nstarlings crc32 %08x\n" % checksum)
        stream.flush()
        os.fsync(stream.fileno())


def has_checksum(path: Path) -> bool:
    """Return whether a file ends with the line (1); raise if its checksum is wrong."""
    length = path.stat().st_size - CHECKSUM_BYTES
    if length < 0:
        return False
    with path.open("rb") as stream:
        checksum = _checksum(stream, length)
        found = CHECKSUM_LINE.fullmatch(stream.read())
    if found is not None and int(found[1], 16) != checksum:
        raise UnreadableFileError(f"{path} is damaged: its checksum is not that of its contents.")
    return found is not None


def check_checksum(path: Path) -> None:
    """Raise if a file does not end with the line (1), or its checksum is wrong."""
    if not has_checksum(path):
        raise UnreadableFileError(
            f"{path} is damaged, cut short, or of another version: it does not end with its "
            "checksum."
        )


def _checksum(stream: BinaryIO, length: int) -> int:
    """Return the CRC-32 of the next `length` bytes."""
    value = 0
    while length > 0 and (block := stream.read(min(length, READ_BYTES))):
        value, length = zlib.crc32(block, value), length - len(block)
    return value
