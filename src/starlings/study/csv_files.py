"""CSV files are checked before they are read, for faults that a fast reader does not report.

A file is UTF-8 text with a header, commas, and quotes (") around fields that contain commas or line
breaks. Blank lines are ignored, as is white space around a name of the header. A comma at the end
of every row, or at the end of only the header, does not begin another field.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

WHITE = " \t\r\n"
"""The characters of a blank line."""
MAX_LINES_NAMED = 5
"""Number of faulty lines that an error message names."""
NOT_TEXT = {
    b"\x1f\x8b": "it is compressed by gzip; unpack it",
    b"PK\x03\x04": "it is a workbook or a zip archive; save the table as CSV",
    b"PAR1": "it is a Parquet file; let its name end in .parquet",
    b"\xff\xfe": "it is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16 text; save it as UTF-8",
}
"""First bytes of files that are named .csv but are something else, with the remedy."""


def header(path: Path) -> list[str]:
    """The names of the columns, without white space around them."""
    for _, record in _records(path):
        return _names(record)
    raise ValueError(f"{path} is empty; it needs a header and at least one row.")


def check_rows(path: Path) -> int:
    """The number of rows; a row with another number of fields than the header is an error."""
    records = _records(path)
    names = _names(next(records, (1, []))[1])
    width, count, wrong = -1, 0, []
    for line, record in records:
        if width < 0:
            width = _width(names, record)
        if len(record) != width or (width > len(names) and record[-1].strip()):
            wrong.append((line, len(record)))
        count += 1
    if wrong:
        raise ValueError(_wrong_lengths(path, len(names), wrong))
    return count


def lines_of(path: Path, rows: np.ndarray) -> list[int]:
    """The lines, counted from 1, on which rows begin; rows are counted from 0."""
    wanted, found = set(rows.tolist()), {}
    for row, (line, _) in enumerate(_records(path), start=-1):
        if row in wanted:
            found[row] = line
    return [found[row] for row in rows.tolist()]


def _names(record: list[str]) -> list[str]:
    """The names of a header without white space around them."""
    return [name.strip() for name in record]


def _width(names: list[str], first_row: list[str]) -> int:
    """The number of fields that every row must have, with a comma at the end or without."""
    is_closed = len(first_row) == len(names) + 1 and not first_row[-1].strip()
    only_header_is_closed = len(first_row) == len(names) - 1 and not names[-1]
    return len(first_row) if is_closed or only_header_is_closed else len(names)


def _wrong_lengths(path: Path, width: int, wrong: list[tuple[int, int]]) -> str:
    """The error about rows (line, fields) whose number of fields is not the header's."""
    line, fields = wrong[0]
    lines = ", ".join(str(line) for line, _ in wrong[:MAX_LINES_NAMED])
    more = ", ..." if len(wrong) > MAX_LINES_NAMED else ""
    further = f" ({len(wrong)} such lines: {lines}{more})" if len(wrong) > 1 else ""
    if fields > width:
        remedy = "A field with a comma in it needs quotes, and a number a decimal point."
    else:
        remedy = "A field without a value still needs its comma."
    return (
        f"{path} cannot be read as CSV: line {line} has {fields} field{'s' * (fields != 1)}, but "
        f"the header has {width}{further}. {remedy}"
    )


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The header and the rows, each with the line on which it begins."""
    _check_text(path)
    line = 1
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(_lines(file), skipinitialspace=True, strict=True)
        try:
            for record in reader:
                if record:
                    yield line, record
                line = reader.line_num + 1
        except UnicodeDecodeError:
            fault = f"line {_undecodable_line(path)} is not UTF-8 text; save the file as UTF-8"
        except csv.Error as error:
            fault = f'the quotes (") are wrong in the row that begins in line {line}: {error}'
        except _NulError:
            fault = f"there is a NUL byte in the row that begins in line {line}; remove it"
        else:
            return
    raise ValueError(f"{path} cannot be read as CSV: {fault}.")


class _NulError(Exception):
    """A line has a NUL byte, at which numbers would be cut off."""


def _lines(file: Iterator[str]) -> Iterator[str]:
    """The lines of a file, of which those with only white space become empty."""
    for line in file:
        if "\0" in line:
            raise _NulError
        yield line if line.strip(WHITE) else "\n"


def _check_text(path: Path) -> None:
    """Refuse a file that begins like one of another format."""
    with path.open("rb") as file:
        begins = file.read(4)
    for mark, fault in NOT_TEXT.items():
        if begins.startswith(mark):
            raise ValueError(f"{path} cannot be read as CSV: {fault}.")


def _undecodable_line(path: Path) -> int:
    """The first line, counted from 1, that is not UTF-8 text."""
    number = 0
    with path.open("rb") as file:
        for line in file:
            number += 1
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                break
    return number
