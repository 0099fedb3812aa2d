"""Options of a benchmark that are lists of names."""

from __future__ import annotations

from collections.abc import Iterable

from starlings.errors import check_choice


def chosen(option: str, text: str | None, known: Iterable[str]) -> list[str]:
    """The names in a text, all of them checked.

    Args:
        option: what the option is called, for the error.
        text: names separated by commas; None for all that are known.
        known: the names that are allowed.
    """
    allowed = list(known)
    names = allowed if text is None else [name.strip() for name in text.split(",")]
    for name in names:
        check_choice(allowed, **{option: name})
    return names
