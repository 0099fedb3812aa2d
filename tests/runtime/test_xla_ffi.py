"""XLA's foreign function interface, by which compiled loops call Python functions in place."""

from __future__ import annotations

import ctypes

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from starlings.runtime.mpi import _xla_ffi


def test_the_version_of_xla_was_tried():
    """If this fails with a new JAX: run the tests of this file and test_mpi.py with the version
    added to `TRIED`. If they pass, leave it there."""
    assert _xla_ffi.version() in _xla_ffi.TRIED


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_compiled_loop_calls_a_function_with_its_own_memory(dtype):
    calls = []

    def double_rows(source, target, row_bytes):
        calls.append(row_bytes)
        kind = ctypes.c_double if dtype == "float64" else ctypes.c_float
        count = 2 * row_bytes // ctypes.sizeof(kind)
        rows = np.ctypeslib.as_array((kind * count).from_address(source))
        np.ctypeslib.as_array((kind * count).from_address(target))[:] = 2 * rows

    name = f"test_double_{dtype}"
    _xla_ffi.register(name, double_rows)
    with jax.enable_x64(dtype == "float64"):
        rows = jnp.arange(6.0, dtype=dtype).reshape(2, 3)
        found = jax.jit(
            lambda a: jax.lax.fori_loop(0, 3, lambda _, b: _xla_ffi.call(name, b, 2), a)
        )(rows)
    np.testing.assert_array_equal(found, 8 * np.arange(6.0).reshape(2, 3))
    assert calls == 3 * [3 * np.dtype(dtype).itemsize]
