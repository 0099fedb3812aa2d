"""The inbox: all that an agent sees of its neighbours in one round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlings.pytrees import pytree


@pytree
@dataclass(frozen=True)
class Inbox:
    """All that an agent sees of its neighbours in one round."""

    sum: Any
    """The sum of the neighbours' messages."""
    mix: Any
    """sum_j W_ij message_j over the neighbours j and the agent i itself, with the Metropolis
    weights W of `Network.mixing`."""
    max: Any = None
    """The largest of the neighbours' messages, entry by entry."""
    each: Any = None
    """The message of each neighbour, (slot, floats), for samplers with `reads_each`, which see
    nothing else of their neighbours. Slot k is for the k-th neighbour in the order of their
    numbers. It is zero where no message arrived, and where an agent has fewer neighbours."""
    arrived: Any = None
    """Whether a message of that neighbour arrived in this round, (slot,)."""
