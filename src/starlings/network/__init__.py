"""Who talks to whom, and how messages and sums travel between neighbours.

`Network` is the graph, `Inbox` what an agent receives in a round.
"""

from starlings.network.inbox import Inbox
from starlings.network.network import Network

__all__ = ["Inbox", "Network"]
