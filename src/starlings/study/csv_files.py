"""CSV files looked through before they are read, for what a fast reader passes over in silence.

A file is read as UTF-8 text with a header, commas, and quotes (") around fields that have commas or
line breaks in them. Blank lines do not count, nor does white space around a name of the header. A
comma at the end of every row, or of the header alone, is no field.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

WHITE = " \t\r\n"
MOST_TOLD = 5
"""Lines at fault that are named."""
NOT_TEXT = {
    b"\x1f\x8b": "it is compressed by gzip; unpack it",
    b"PK\x03\x04": "it is a workbook or a zip archive; save the table as CSV",
    b"PAR1": "it is a Parquet file; let its name end in .parquet",
    b"\xff\xfe": "it is UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16 text; save it as UTF-8",
}
"""How files begin that are called .csv but are none."""


def header(path: Path) -> list[str]:
    """The names of the columns, without white space around them."""
    for _, record in _records(path):
        return _names(record)
    raise ValueError(f"{path} is empty; it needs a header and at least one row.")


def check_rows(path: Path) -> int:
    """The number of rows; refused if one of them has not as many fields as the header."""
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
        raise ValueError(_of_another_length(path, len(names), wrong))
    return count


def lines_of(path: Path, rows: np.ndarray) -> list[int]:
    """The lines, counted from 1, on which some rows begin; rows are counted from 0."""
    wanted, found = set(rows.tolist()), {}
    for row, (line, _) in enumerate(_records(path), start=-1):
        if row in wanted:
            found[row] = line
    return [found[row] for row in rows.tolist()]


def _names(record: list[str]) -> list[str]:
    return [name.strip() for name in record]


def _width(names: list[str], first_row: list[str]) -> int:
    """How many fields every row has to have: see the top of this file on commas at the end."""
    is_closed = len(first_row) == len(names) + 1 and not first_row[-1].strip()
    only_header_is_closed = len(first_row) == len(names) - 1 and not names[-1]
    return len(first_row) if is_closed or only_header_is_closed else len(names)


def _of_another_length(path: Path, width: int, wrong: list[tuple[int, int]]) -> str:
    line, fields = wrong[0]
    lines = ", ".join(str(line) for line, _ in wrong[:MOST_TOLD])
    more = ", ..." if len(wrong) > MOST_TOLD else ""
    others = f" ({len(wrong)} such lines: {lines}{more})" if len(wrong) > 1 else ""
    if fields > width:
        remedy = "A field with a comma in it needs quotes, and a number a decimal point."
    else:
        remedy = "A field without a value still needs its comma."
    return (
        f"{path} cannot be read as CSV: line {line} has {fields} field{'s' * (fields != 1)}, but "
        f"the header has {width}{others}. {remedy}"
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
    for line in file:
        if "\0" in line:
            raise _NulError
        yield line if line.strip(WHITE) else "\n"


def _check_text(path: Path) -> None:
    with path.open("rb") as file:
        begins = file.read(4)
    for mark, fault in NOT_TEXT.items():
        if begins.startswith(mark):
            raise ValueError(f"{path} cannot be read as CSV: {fault}.")


def _undecodable_line(path: Path) -> int:
    number = 0
    with path.open("rb") as file:
        for line in file:
            number += 1
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                break
    return number
