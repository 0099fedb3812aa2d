"""A Python function that a compiled loop calls with its own memory: no copies, no leaving the loop.

XLA calls foreign functions by a stable C interface (jax.ffi), here through ctypes. A call costs a
few microseconds, far less than `jax.experimental.io_callback` and less than leaving the loop and
entering it again in every round (`python -m benchmarks cluster` measures all three).

The structures below are the beginnings of those in xla/ffi/api/c_api.h, which only ever grow at the
end. A first call asks for the version of the interface; it is answered with XLA's own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import jax

ITEM_BYTES = {11: 4, 12: 8}
"""Of XLA's data types float32 and float64."""

METADATA = 1

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
"""Handlers, which have to live as long as any compiled loop."""


def register(name: str, function: Function) -> None:
    """Make a function of one array (rows, floats) and one result callable as `name` on a CPU.

    The function must not raise: there is nobody to catch it.
    """

    def handle(frame: Any) -> None:
        call = frame.contents
        if call.extension and call.extension.contents.type == METADATA:  # asks for the version
            version = call.api.contents.version
            answer = call.extension.contents.metadata.contents.version
            answer.major, answer.minor = version.major, version.minor
            return
        argument = call.arguments.buffers[0].contents
        result = call.results.buffers[0].contents
        row_bytes = argument.dims[1] * ITEM_BYTES[argument.dtype]
        function(argument.data or 0, result.data or 0, row_bytes)

    handler = _Handler(handle)
    _registered.append(handler)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")


def call(name: str, rows: jax.Array, num_results: int) -> jax.Array:
    """The result (num_results, floats) of a registered function, from inside compiled code."""
    shape = jax.ShapeDtypeStruct((num_results, rows.shape[1]), rows.dtype)
    return jax.ffi.ffi_call(name, shape, has_side_effect=True)(rows)
