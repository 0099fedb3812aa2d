"""Sections of a TOML file, checked against the functions and classes whose arguments they hold.

The keys of a section and their types are read from signatures and annotations: a new argument of a
function is at once a new key, and an unknown key is refused with the nearest known one.
"""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from starlings.errors import nearest

Table = dict[str, Any]
"""A TOML table: values by key."""
Pairs = list[list[str | int]]
"""The type of a list of edges."""

TYPES_IN_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text in quotes",
    Any: "a value such as 0.1",
    list[str]: "a list of names in quotes",
    Pairs: 'a list of pairs of names such as [["north", "south"]]',
}
"""How error messages name the types of values."""


class Key(NamedTuple):
    """The type and the default of a key."""

    type: Any
    """The annotated type; with `Any` the value is checked where it is used."""
    is_required: bool
    default: Any = None
    """The value of a key that is left out."""


def keys_of(function: Callable[..., Any], besides: Collection[str] = ()) -> dict[str, Key]:
    """The arguments of a function or class as keys of a section, without those in `besides`."""
    try:
        hints = typing.get_type_hints(function)
    except NameError:  # an annotation names something that is imported for type checkers only
        hints = {}
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    keys = {}
    for name, argument in inspect.signature(function).parameters.items():
        if name not in besides and argument.kind not in several:
            is_required = argument.default is argument.empty
            default = None if is_required else argument.default
            keys[name] = Key(hints.get(name, Any), is_required, default)
    return keys


@dataclass(frozen=True)
class Section:
    """One section of a TOML file, with the place that its errors name."""

    source: Path
    """The TOML file."""
    name: str
    table: Table

    def error(self, text: str) -> ValueError:
        """An error that begins with the file and the section."""
        return ValueError(f"{self.source}: [{self.name}] {text}")

    def text(self, key: str) -> str:
        """The value of a required key that is text."""
        if key not in self.table:
            raise self.error(f"needs the key `{key}`; it has {list(self.table)}.")
        if not isinstance(self.table[key], str):
            raise self.error(f"`{key}` must be text in quotes, got {self.table[key]!r}.")
        return self.table[key]

    def choice(self, key: str, choices: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
        """The function or class that the value of a key names."""
        name = self.text(key)
        if name not in choices:
            hint = nearest(name, choices)
            raise self.error(f"`{key}` must be one of {list(choices)}, got {name!r}.{hint}")
        return choices[name]

    def read(self, cls: Callable[..., Any], options: Mapping[str, Key]) -> Any:
        """An object of `cls`; keys that are none of its fields become its `options`."""
        fields = keys_of(cls, besides=["options"])
        self.check({**fields, **options})
        given = {key: value for key, value in self.table.items() if key in fields}
        further = {key: value for key, value in self.table.items() if key not in fields}
        return cls(**given, options=further)

    def check(self, keys: Mapping[str, Key]) -> None:
        """Refuse unknown keys, then missing ones, then values of the wrong type."""
        for name in self.table:
            if name not in keys:
                hint = nearest(name, keys)
                raise self.error(f"unknown key `{name}`; expected one of {list(keys)}.{hint}")
        for name, key in keys.items():
            if key.is_required and name not in self.table:
                expected = _in_words(key.type)
                raise self.error(f"needs the key `{name}`, {expected}; it has {list(self.table)}.")
        for name, value in self.table.items():
            if not _is_of_type(value, keys[name].type):
                expected = _in_words(keys[name].type)
                raise self.error(f"`{name}` must be {expected}, got {value!r}.")


def read_sections(
    source: Path,
    names: Collection[str],
    optional: Collection[str] = (),
    text: str | None = None,
) -> dict[str, Section]:
    """The sections of a TOML file by name; a section that is left out is empty.

    Args:
        source: the TOML file.
        names: the sections that it may have.
        optional: those that may be left out.
        text: what the file holds, where it is known already; `source` is then only its name.
    """
    tables = _read(source) if text is None else _parse(source, text)
    expected = _headings(names)
    for name, table in tables.items():
        if name not in names:
            what = f"section [{name}]" if isinstance(table, dict) else f"key `{name}` on top"
            hint = nearest(name, names)
            raise ValueError(f"{source}: unknown {what}; expected one of {expected}.{hint}")
        if not isinstance(table, dict):
            raise ValueError(f"{source}: `{name}` must be a section [{name}], got {table!r}.")
    for name in names:
        if name not in tables and name not in optional:
            raise ValueError(f"{source}: needs a section [{name}]; it has {_headings(tables)}.")
    return {name: Section(source, name, tables.get(name, {})) for name in names}


def _headings(names: Collection[str]) -> str:
    """Sections as they stand in a file, such as [model], [data]."""
    return ", ".join(f"[{name}]" for name in names) or "none"


def _read(source: Path) -> Table:
    """All tables of a TOML file."""
    if not source.is_file():
        raise FileNotFoundError(f"no TOML file at {source}; check the name and the folder.")
    try:
        text = source.read_text(encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"{source} is not valid TOML: {error}.") from None
    return _parse(source, text)


def _parse(source: Path, text: str) -> Table:
    """All tables of a text in TOML."""
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise ValueError(f"{source} is not valid TOML: {error}.") from None


def _is_of_type(value: Any, expected: Any) -> bool:
    """Whether a TOML value can stand for an annotated type.

    Whole numbers pass for numbers, and tables for dataclasses. A type that TOML does not have, such
    as an array, passes too: the value is checked where it is used.
    """
    origin, arguments = typing.get_origin(expected), typing.get_args(expected)
    if origin is Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(_is_of_type(entry, arguments[0]) for entry in value)
    if origin in (typing.Union, types.UnionType):
        return any(_is_of_type(value, argument) for argument in arguments)
    if dataclasses.is_dataclass(expected):
        return isinstance(value, dict)
    if expected is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return expected not in (bool, str, type(None)) or isinstance(value, expected)


def _in_words(expected: Any) -> str:
    """A type in words; None, which TOML cannot write, is left out."""
    if expected in TYPES_IN_WORDS:
        return TYPES_IN_WORDS[expected]
    if typing.get_origin(expected) is Literal:
        return f"one of {list(typing.get_args(expected))}"
    if dataclasses.is_dataclass(expected):
        return "a table such as {scale = 0.1}"
    parts = [part for part in typing.get_args(expected) if part is not type(None)]
    return " or ".join(map(_in_words, parts)) or str(expected)
