"""How arrays are laid out and loops are written, so that each compiler makes fast code of them.

Nothing here changes a result by more than rounding; the runtime would be right, and slower, without
this file. How much slower is not recorded for each function by itself; what its docstring says of
speed was seen when it was written, and `python -m benchmarks versions` measures a change of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint

FEW_ENTRIES = 8
"""Largest dimension at which vectors are handled entry by entry."""
PAIRS = 4
"""Pairs of rounds in a block whose length the GPU knows beforehand; see `repeated`."""


def full_precision_products() -> Any:
    """A context in which products keep all digits; a GPU would round float32 factors to TF32."""
    return jax.default_matmul_precision("highest")


def in_order(array: jax.Array) -> jax.Array:
    """The array with its last axis contiguous in memory, whatever the compiler would choose."""
    return with_layout_constraint(array, Layout(tuple(range(array.ndim))))


def entries_last_but_one(entries: jax.Array) -> jax.Array:
    """An array (dim, agent, chain) as (agent, dim, chain).

    If there are few entries they are stacked one by one, which keeps the compiler from changing
    the layout of the input.
    """
    if len(entries) <= FEW_ENTRIES:
        return jnp.stack(list(entries), 1)
    return jnp.moveaxis(entries, 0, 1)


def largest_size(positions: jax.Array) -> jax.Array:
    """The largest absolute entry along the last axis.

    On CPU a maximum over a short axis takes longer than a whole step, and is written out.
    """
    return jax.lax.platform_dependent(positions, cpu=_by_entry, default=_along_axis)


def _along_axis(positions: jax.Array) -> jax.Array:
    return jnp.abs(positions).max(axis=-1)


def _by_entry(positions: jax.Array) -> jax.Array:
    if positions.shape[-1] > FEW_ENTRIES:
        return _along_axis(positions)
    sizes = [jnp.abs(positions[..., k]) for k in range(positions.shape[-1])]
    return functools.reduce(jnp.maximum, sizes)


def repeated(times: Any, turn: Callable[[Any, Any], Any], carry: Any, is_large: bool) -> Any:
    """A loop of `times` turns; for large states on a GPU, of blocks of some pairs of turns.

    In pairs, a turn writes over the state before last and copies none. One turn at a time would
    read a neighbour's old position while the new ones are being written, so that the compiler
    copies positions and duals first. And a GPU waits for the host wherever the length of a loop is
    not known beforehand: after every block. (On CPU a copy is cheaper than what the compiler
    computes twice in a pair.)
    """

    def in_single_turns(carry, times=times):
        return jax.lax.fori_loop(0, times, turn, carry)

    def pair(i, carry):
        return turn(i, turn(i, carry))

    def block(_, carry):
        return jax.lax.fori_loop(0, PAIRS, pair, carry)

    def in_blocks(carry):
        carry = jax.lax.fori_loop(0, times // (2 * PAIRS), block, carry)
        return in_single_turns(carry, times % (2 * PAIRS))

    if not is_large:
        return in_single_turns(carry)
    return jax.lax.platform_dependent(carry, cpu=in_single_turns, default=in_blocks)
