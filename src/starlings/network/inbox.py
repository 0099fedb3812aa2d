"""The inbox: all that an agent sees of its neighbours in one round."""

from __future__ import annotations

from typing import Any

import jax


@jax.tree_util.register_pytree_node_class
class Inbox:
    """All that an agent sees of its neighbours in one round.

    Args:
        sum: the sum of the neighbours' messages.
        mix: sum_j W_ij message_j over the neighbours and the agent itself, with the Metropolis
            weights W of `Network.mixing`.
        max: the largest of the neighbours' messages, entry by entry.
        again: `sum`, computed a second time; see the property `sum`.
    """

    def __init__(self, sum: Any, mix: Any, max: Any = None, *, again: Any = None) -> None:
        self.mix, self.max = mix, max
        self._sums = (sum,) if again is None else (sum, again)
        self._reads = 0

    @property
    def sum(self) -> Any:
        """The sum of the neighbours' messages.

        XLA on CPU writes a value that is used twice to memory, and reads it back from there. Where
        the sum was computed twice, the first read returns one copy and the second read the other,
        so that each use of the sum gathers the messages itself.
        """
        copy = self._sums[self._reads % len(self._sums)]
        self._reads += 1
        return copy

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays, for JAX."""
        return (self._sums, self.mix, self.max), None

    @classmethod
    def tree_unflatten(cls, _: None, arrays: tuple[Any, ...]) -> Inbox:
        """An inbox whose sum has not been read yet, for JAX."""
        sums, mix, max = arrays
        inbox = object.__new__(cls)
        inbox._sums, inbox.mix, inbox.max, inbox._reads = sums, mix, max, 0
        return inbox
