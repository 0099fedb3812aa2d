"""Dataclasses as pytrees, which JAX can flatten into arrays and rebuild.

JAX stores a compiled program by the structure of its arguments. Two classes must never have equal
structures, or a call with one would run the program of the other. Some versions of JAX compare
classes that were registered with `jax.tree_util.register_dataclass` by their fields only. The
structure of a class registered here contains the class itself.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, TypeVar

import jax

Class = TypeVar("Class", bound=type)
"""The class that is registered, and returned unchanged."""


def choice(**settings: Any) -> Any:
    """A field of a dataclass that selects code instead of being a number, such as a noise law.

    It is part of the structure that `pytree` gives to JAX, and each of its values is compiled to a
    program of its own.

    Args:
        settings: the arguments of `dataclasses.field`, such as `default="private"`.
    """
    return field(metadata={"static": True}, **settings)


def pytree(cls: Class) -> Class:
    """Register a frozen dataclass with JAX: its fields become arrays, except those of `choice`.

    `__post_init__` runs when a user makes an object, and not when JAX rebuilds one.

    >>> from dataclasses import dataclass
    >>> @pytree
    ... @dataclass(frozen=True)
    ... class Scaled:
    ...     factor: float
    ...     unit: str = choice(default="m")
    >>> jax.tree.leaves(Scaled(2.0, "km"))
    [2.0]
    >>> jax.tree.map(lambda leaf: 10 * leaf, Scaled(2.0, "km"))
    Scaled(factor=20.0, unit='km')
    """
    is_static = {f.name: bool(f.metadata.get("static")) for f in fields(cls)}
    arrays = [name for name, static in is_static.items() if not static]
    choices = [name for name, static in is_static.items() if static]
    keys = [jax.tree_util.GetAttrKey(name) for name in arrays]

    def flatten(value: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(value, n) for n in arrays], (cls, *(getattr(value, n) for n in choices))

    def flatten_with_keys(value: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        leaves, structure = flatten(value)
        return list(zip(keys, leaves, strict=True)), structure

    def unflatten(structure: tuple[Any, ...], leaves: Any) -> Any:
        value: Any = object.__new__(cls)
        for name, part in zip([*arrays, *choices], [*leaves, *structure[1:]], strict=True):
            object.__setattr__(value, name, part)
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls
