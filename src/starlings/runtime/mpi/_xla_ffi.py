"""A Python function that a compiled loop calls with its own memory: no copies, no leaving the loop.

XLA calls foreign functions by a stable C interface (jax.ffi), here through ctypes. A call costs a
few microseconds, far less than `jax.experimental.io_callback` and less than leaving the loop and
entering it again in every round (`python -m benchmarks cluster` measures all three).

The structures below are the beginnings of those in xla/ffi/api/c_api.h, which only ever grow at the
end while the major version stays. A first call asks for the version of the interface; it is
answered with XLA's own. With a version that is not in `TRIED`, use `io_callback` instead.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import jax

TRIED = {(0, 3): "JAX 0.10.2", (0, 5): "JAX 0.12.0"}
"""Versions (major, minor) of XLA's interface with which the structures below were tried, and the
versions of JAX that had them."""
ITEM_BYTES = {11: 4, 12: 8}
"""Bytes of one number, by XLA's code of its data type: float32 and float64."""
METADATA = 1
"""XLA's code of the extension by which it asks for the version."""

Function = Callable[[int, int, int], None]
"""(address of the argument, address of the result, bytes of one row of the argument)."""


class _Version(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
    )


class _Metadata(ctypes.Structure):
    _fields_ = (("struct_size", ctypes.c_size_t), ("version", _Version))


class _Extension(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("metadata", ctypes.POINTER(_Metadata)),
    )


class _Api(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("version", _Version),
    )


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
    )


class _Buffers(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("types", ctypes.c_void_p),
        ("buffers", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    )


class _Frame(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension", ctypes.POINTER(_Extension)),
        ("api", ctypes.POINTER(_Api)),
        ("context", ctypes.c_void_p),
        ("stage", ctypes.c_int),
        ("arguments", _Buffers),
        ("results", _Buffers),
    )


_Handler = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))
_registered: list[Any] = []
"""Handlers, which must not be freed before any compiled loop that calls them."""


def is_tried() -> bool:
    """Whether XLA has a version of the interface with which this file was tried."""
    return version() in TRIED


@functools.cache
def version() -> tuple[int, int]:
    """The version (major, minor) of the interface, as XLA reports it."""
    jax.devices("cpu")  # once there is a CPU client, XLA asks as soon as a function is registered
    reported: list[tuple[int, int]] = []

    def handle(frame: Any) -> None:
        reported.append(_answer_version(frame.contents))

    _register("starlings_version", handle)
    return reported[0] if reported else (-1, -1)


def register(name: str, function: Function) -> None:
    """Make a function of one array (rows, floats) and one result callable as `name` on a CPU.

    The function must not raise: an error cannot leave it.
    """

    def handle(frame: Any) -> None:
        call = frame.contents
        if call.extension and call.extension.contents.type == METADATA:
            _answer_version(call)
            return
        argument = call.arguments.buffers[0].contents
        result = call.results.buffers[0].contents
        row_bytes = argument.dims[1] * ITEM_BYTES[argument.dtype]
        function(argument.data or 0, result.data or 0, row_bytes)

    _register(name, handle)


def _answer_version(call: Any) -> tuple[int, int]:
    """Answer the question for the version with XLA's own, and return that."""
    asked = call.api.contents.version
    answer = call.extension.contents.metadata.contents.version
    answer.major, answer.minor = asked.major, asked.minor
    return asked.major, asked.minor


def _register(name: str, handle: Callable[[Any], None]) -> None:
    handler = _Handler(handle)
    _registered.append(handler)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")


def call(name: str, rows: jax.Array, num_results: int) -> jax.Array:
    """The result (num_results, floats) of a registered function, from inside compiled code."""
    shape = jax.ShapeDtypeStruct((num_results, rows.shape[1]), rows.dtype)
    return jax.ffi.ffi_call(name, shape, has_side_effect=True)(rows)
