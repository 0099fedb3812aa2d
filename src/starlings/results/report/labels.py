"""Labels of coefficients as people say them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlings.results.answers.model import COEFFICIENTS

TIMES = " × "
"""What stands between the parts of an interaction."""
CURVE = re.compile(r"^(?:bs|cr|cs|poly)\((?P<column>[^,()]+).*\)\[\d+\]$")
"""The label of a coefficient of a spline, such as bs(stay, df=4)[1]."""
LEVEL = re.compile(r"^(?:C\((?P<called>[^,()]+)\)|(?P<column>[^\[\]]+))\[(?:T\.)?(?P<level>.*)\]$")
"""The label of a coefficient of a level, such as C(ward)[T.B]."""


def own_label(name: str) -> str:
    """The label of an entry of beta."""
    return name.removeprefix(f"{COEFFICIENTS}[").removesuffix("]")


def label_in_words(label: str, levels: Mapping[str, Any]) -> str:
    """A label of a formula as people say it.

    >>> label_in_words("C(ward)[T.B]", {"ward": ["A", "B"]})
    'ward: B rather than A'
    >>> label_in_words("age:C(ward)[T.B]", {"ward": ["A", "B"]})
    'age × ward B'
    """
    column, level = _part(label, levels)
    if level is not None:
        return f"{column}: {level} rather than {levels[column][0]}"
    parts = [_part(part, levels) for part in label.split(":")]
    return TIMES.join(column if level is None else f"{column} {level}" for column, level in parts)


def _part(part: str, levels: Mapping[str, Any]) -> tuple[str, str | None]:
    """The column and, of a category, the level that a part of a label is of."""
    found = LEVEL.match(part)
    if found is None:
        return part, None
    column = str(found["called"] or found["column"])
    is_level = found["level"] in levels.get(column, ())
    return (column, found["level"]) if is_level else (part, None)
