"""Files that are whole or not there, that show damage, and that replace nothing by mistake.

A file is written under another name in the same folder, sealed, brought to the disk, and renamed.
Its seal is a last line with a checksum of all that comes before it:

    starlings crc32 01234567                                                                (1)

Readers of netCDF (HDF5) and of zip files do not mind it. CRC-32 notices every change of up to four
bytes in a row, and misses one of four thousand million others.
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

SEAL = re.compile(rb"\nstarlings crc32 ([0-9a-f]{8})\n")
SEAL_BYTES = len(b"\nstarlings crc32 01234567\n")
READ_BYTES = 2**20
PARTIAL = ".partial"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


def check_writable(path: str | Path) -> Path:
    """The path, if a file can be made there; checked before a long run rather than after.

    Only a plain file may be there already. A symbolic link is refused too: to rename a file onto
    it would replace the link, and not the file that it leads to.
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
    """The path, if a file can be made there and nothing is lost by it.

    Args:
        path: where the file is to be.
        overwrite: whether a plain file that is there may be replaced.
        inputs: files that may not be, and folders in which nothing may be written.
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
    """What is there, if it is not a plain file and not nothing."""
    try:
        mode = stat.S_IFMT(path.lstat().st_mode)
    except FileNotFoundError:
        return None
    return None if mode == stat.S_IFREG else KINDS.get(mode, "no plain file")


def _is_same(source: Path, target: Path) -> bool:
    """Whether two paths lead to one file, by whatever name, or would."""
    if source.exists() and target.exists():
        return source.samefile(target)
    return source.resolve() == target.resolve()


@contextmanager
def written(
    target: Path,
    needs: int,
    advice: str = "",
    check: Callable[[], object] = lambda: None,
) -> Iterator[Path]:
    """A context that gives another name to write under, and ends with the file in its place.

    Args:
        target: the place; what is there is replaced.
        needs: about how many bytes, for an error that says that there is no room.
        advice: what that error says besides.
        check: called before the file takes its place, and may refuse it.
    """
    partial = target.with_name(f"{target.name}.{secrets.token_hex(4)}{PARTIAL}")
    try:
        yield partial
        seal(partial)
        check()
        partial.replace(target)
    except (OSError, RuntimeError) as error:  # HDF5 raises either
        number = _error_number(error)
        if number not in NO_ROOM or isinstance(error, NoRoomError):
            raise
        raise _no_room(target, number, needs, advice) from error
    finally:
        partial.unlink(missing_ok=True)


def reserve(partial: Path, size: int) -> None:
    """Raise at once what writing a file of so many bytes would raise in the end.

    HDF5 may take the whole process down where a write fails, and is not begun in vain.
    """
    require(partial.parent, size)
    if hasattr(os, "posix_fallocate"):
        with partial.open("wb") as stream:
            try:
                os.posix_fallocate(stream.fileno(), 0, max(size, 1))
            except OSError as error:
                if error.errno in NO_ROOM:  # else a disk that cannot reserve
                    raise


def require(folder: Path, size: int) -> None:
    """Raise where so many bytes are not free."""
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _error_number(error: BaseException) -> int | None:
    """That of the operating system, which HDF5 has in its text."""
    number = getattr(error, "errno", None)
    if number is not None:
        return int(number)
    found = re.search(r"errno = (\d+)", str(error))
    return int(found[1]) if found else None


def _no_room(target: Path, number: int, needs: int, advice: str) -> NoRoomError:
    free = f"{in_words(shutil.disk_usage(target.parent).free)} are free on its disk"
    if number == errno.EFBIG:
        free = "this process may not write a file as large (see `ulimit -f`)"
    error = NoRoomError(
        f"{target} could not be written: {os.strerror(number)}. It needs about {in_words(needs)}, "
        f"and {free}. {advice}".strip()
    )
    error.errno = number
    return error


def in_words(size: float) -> str:
    """A number of bytes, such as 1.5 GB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"


def seal(path: Path) -> None:
    """Add (1) to a file, and bring it to the disk."""
    with path.open("r+b") as stream:
        checksum = _checksum(stream, path.stat().st_size)
        stream.write(b"\nstarlings crc32 %08x\n" % checksum)
        stream.flush()
        os.fsync(stream.fileno())


def is_sealed(path: Path) -> bool:
    """Whether a file ends with a seal, which has to fit."""
    length = path.stat().st_size - SEAL_BYTES
    if length < 0:
        return False
    with path.open("rb") as stream:
        checksum = _checksum(stream, length)
        found = SEAL.fullmatch(stream.read())
    if found is not None and int(found[1], 16) != checksum:
        raise UnreadableFileError(f"{path} is damaged: its checksum is not that of its contents.")
    return found is not None


def check_sealed(path: Path) -> None:
    """Raise where a file that has to have a seal has none, or one that does not fit."""
    if not is_sealed(path):
        raise UnreadableFileError(
            f"{path} is damaged, cut short, or of another version: it does not end with its "
            "checksum."
        )


def _checksum(stream: BinaryIO, length: int) -> int:
    """CRC-32 of the next `length` bytes."""
    value = 0
    while length > 0 and (block := stream.read(min(length, READ_BYTES))):
        value, length = zlib.crc32(block, value), length - len(block)
    return value
