"""Sections of a TOML file checked against the functions and classes that they are meant for.

The keys that a section may have, and their types, are read off signatures and annotations, so that
a new argument of a function is at once a new key, and a wrong key is refused with the nearest one.
"""

from __future__ import annotations

import inspect
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from starlings.errors import nearest

Table = dict[str, Any]
Pairs = list[list[str | int]]

WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    list[str]: "a list of names in quotes",
    Pairs: 'a list of pairs of names such as [["north", "south"]]',
}


class Key(NamedTuple):
    """What a key of a section may hold."""

    kind: Any
    """A type, as annotated."""
    required: bool


def keys_of(function: Callable[..., Any], besides: Collection[str] = ()) -> dict[str, Key]:
    """The arguments of a function or a class as keys, besides those that are supplied otherwise."""
    hints = typing.get_type_hints(function)
    arguments = inspect.signature(function).parameters
    return {
        name: Key(hints.get(name, Any), argument.default is argument.empty)
        for name, argument in arguments.items()
        if name not in besides
    }


@dataclass(frozen=True)
class Section:
    """One table of a file, and the place that its errors name."""

    source: Path
    name: str
    table: Table

    def error(self, text: str) -> ValueError:
        """An error that says where it is."""
        return ValueError(f"{self.source}: [{self.name}] {text}")

    def choice(self, key: str, choices: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
        """What the value of a key stands for."""
        if key not in self.table:
            raise self.error(f"needs the key `{key}`; it has {list(self.table)}.")
        chosen = self.table[key]
        if not isinstance(chosen, str) or chosen not in choices:
            hint = nearest(chosen, choices)
            raise self.error(f"`{key}` must be one of {list(choices)}, got {chosen!r}.{hint}")
        return choices[chosen]

    def read(self, cls: Callable[..., Any], options: Mapping[str, Key]) -> Any:
        """The table as an object: `cls` takes its own keys, and all others as `options`."""
        own = keys_of(cls, besides=["options"])
        self.check({**own, **options})
        given = {name: value for name, value in self.table.items() if name in own}
        rest = {name: value for name, value in self.table.items() if name not in own}
        return cls(**given, options=rest)

    def check(self, keys: Mapping[str, Key]) -> None:
        """Refuse unknown keys, then missing ones, then values of the wrong type."""
        for name in self.table:
            if name not in keys:
                raise self.error(
                    f"has no key `{name}`; its keys are {list(keys)}.{nearest(name, keys)}"
                )
        for name, key in keys.items():
            if key.required and name not in self.table:
                raise self.error(f"needs the key `{name}`.")
        for name, value in self.table.items():
            kind = keys[name].kind
            if not _fits(value, kind):
                raise self.error(f"`{name}` must be {_in_words(kind)}, got {value!r}.")


def read_sections(
    source: Path, names: Collection[str], optional: Collection[str] = ()
) -> dict[str, Section]:
    """The sections of a TOML file, all of them named in `names`."""
    tables = _parse(source)
    for name, table in tables.items():
        if name not in names:
            raise ValueError(
                f"{source} has no use for `{name}`; its sections are {list(names)}."
                f"{nearest(name, names)}"
            )
        if not isinstance(table, dict):
            raise ValueError(f"{source}: `{name}` must be a section [{name}], got {table!r}.")
    for name in names:
        if name not in tables and name not in optional:
            raise ValueError(f"{source} needs a section [{name}].")
    return {name: Section(source, name, tables.get(name, {})) for name in names}


def _parse(source: Path) -> Table:
    if not source.is_file():
        raise FileNotFoundError(f"no TOML file at {source}.")
    try:
        return tomllib.loads(source.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{source} is not valid TOML: {error}.") from None


def _fits(value: Any, kind: Any) -> bool:
    """Whether a TOML value is of an annotated type; whole numbers pass for numbers."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return True
    if origin is list:
        return isinstance(value, list) and all(_fits(entry, arguments[0]) for entry in value)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _in_words(kind: Any) -> str:
    """A type in words; None, which TOML cannot say, is left out."""
    if kind in WORDS:
        return WORDS[kind]
    given = [argument for argument in typing.get_args(kind) if argument is not type(None)]
    return " or ".join(WORDS[argument] for argument in given)
