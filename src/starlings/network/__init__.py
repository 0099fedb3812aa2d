"""Who talks to whom, and how messages and sums travel between neighbours."""

from starlings.network.inbox import Inbox
from starlings.network.network import Network

__all__ = ["Inbox", "Network"]
