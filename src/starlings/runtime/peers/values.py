"""Small values as bytes: what JSON has, and tuples, bytes and arrays. Nothing is pickled.

Arrays are their type, their shape and their entries, so that all bits arrive.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from starlings.errors import ProtocolError, SiteError

TAG = "_"
"""The key of the name of a type in what stands for a value that JSON does not have."""
KINDS = "bifu"
"""Kinds of NumPy types that are sent: truth values, integers and floating-point numbers."""
TYPE = re.compile("[<>|=]?[bifu][0-9]{1,2}", re.ASCII)
"""How such a type is written; nothing else is given to NumPy."""
MOST_AXES = 32
"""Axes of an array, at most."""


def encoded(value: Any) -> bytes:
    """A value as bytes: None, a number, a text, bytes, an array, or a list, tuple or dict."""
    return json.dumps(_plain(value), separators=(",", ":")).encode()


def decoded(data: bytes) -> Any:
    """The value of these bytes; a `ProtocolError` if they have none."""
    try:
        return _restored(json.loads(data))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"a value that arrived cannot be read: {error}.") from None


def smallest(every: Iterable[Any]) -> Any:
    """The smallest of the values of sites that is not None; None if all are."""
    try:
        return min((one for one in every if one is not None), default=None)
    except (TypeError, ValueError):
        raise SiteError(
            "the sites have values that cannot be compared. All sites need the same version of "
            "starlings and its packages."
        ) from None


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, bytes):
        return {TAG: "bytes", "data": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray) and value.dtype.kind in KINDS:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {TAG: "array", "type": value.dtype.str, "shape": list(value.shape), "data": data}
    if isinstance(value, tuple):
        return {TAG: "tuple", "items": [_plain(item) for item in value]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict) and TAG not in value and all(isinstance(k, str) for k in value):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"values of type {type(value).__name__} cannot be sent to other sites.")


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(TAG)
    if kind is None:
        return {key: _restored(item) for key, item in value.items()}
    if kind == "tuple":
        return tuple(_restored(item) for item in value["items"])
    data = base64.b64decode(value["data"], validate=True)
    if kind == "bytes":
        return data
    if kind != "array" or not TYPE.fullmatch(value["type"]):
        raise ValueError(f"unknown type {str(kind)[:80]!r}")
    return np.frombuffer(data, value["type"]).reshape(_shape(value["shape"])).copy()


def _shape(shape: Any) -> list[int]:
    """The shape of an array, whose numbers are none that NumPy has to find out."""
    if not isinstance(shape, list) or len(shape) > MOST_AXES:
        raise ValueError("a shape is no list of whole numbers")
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError("a shape is no list of whole numbers")
    return shape
