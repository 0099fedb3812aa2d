"""Inboxes with two copies of the sum, so that XLA on CPU makes fast code of samplers that use both.

XLA on CPU writes a value that is used twice to memory and reads it back from there, instead of
computing it inside the loops that use it. A sum over neighbours that is gathered twice has one use
for each copy, and both become part of the loops that use them.

Nothing here changes a result; delivery would be right, and slower, with a plain `Inbox`. Rounds of
D-ADMMS on CPU, which use the sum twice, take so many times as long with a plain inbox (measured in
turns in one process):

    20 agents and 100 chains                    1.27
    100 agents and 100 chains                   2.71
    1000 agents, 100 chains, 8 parameters       1.73
    a ring of 100 000 agents                    1.12
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax

from starlings.network.inbox import Inbox


@jax.tree_util.register_pytree_node_class
class GatheredTwice(Inbox):
    """An inbox whose property `sum` returns equal copies in turn: the first read gets the first."""

    _sums: tuple[Any, ...]
    """The copies of the sum."""
    _turns: Iterator[Any]
    """The copies one after the other, without end."""

    def __init__(self, sums: tuple[Any, ...], mix: Any, max: Any) -> None:
        parts = {"_sums": sums, "_turns": itertools.cycle(sums), "mix": mix, "max": max}
        vars(self).update(parts)  # assignment is not possible: the dataclass is frozen

    @property
    def sum(self) -> Any:
        """The sum of the neighbours' messages: of the equal copies, the next one."""
        return next(self._turns)

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays, for JAX."""
        return (self._sums, self.mix, self.max), None

    @classmethod
    def tree_unflatten(cls, _: None, arrays: Any) -> GatheredTwice:
        """An inbox whose sum has not been read yet, for JAX."""
        return cls(*arrays)


def gathered_twice(
    gathered_sum: Callable[[jax.Array], jax.Array], messages: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The sum of gathered messages in two copies, which the compiler does not merge on CPU."""
    return gathered_sum(messages), gathered_sum(_distinct(messages))


def _distinct(messages: jax.Array) -> jax.Array:
    """The messages behind an optimisation barrier on CPU, so that XLA gathers them again."""
    return jax.lax.platform_dependent(
        messages, cpu=jax.lax.optimization_barrier, default=lambda messages: messages
    )
