"""The inbox: all that an agent sees of its neighbours in one round."""

from __future__ import annotations

from typing import Any, NamedTuple


class Inbox(NamedTuple):
    """All that an agent sees of its neighbours in one round."""

    sum: Any
    """The sum of the neighbours' messages."""
    mix: Any
    """sum_j W_ij message_j over the neighbours and the agent itself, eq. (2)."""
    max: Any = None
    """The largest of the neighbours' messages, entry by entry."""
    sum_again: Any = None
    """`sum` heard a second time: a step that needs it twice need not keep it in between."""
