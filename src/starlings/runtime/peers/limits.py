"""How much of a relay its users may take: connections, and new ones per second, by address."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

MOST_ADDRESSES = 10_000
"""Addresses whose rates are known; when there are more, those that are long quiet are forgotten."""


@dataclass(frozen=True)
class Limits:
    """What a relay allows."""

    piece: int = 1_048_576
    """Bytes of a message, at most."""
    connections: int = 4096
    """Connections, at most."""
    waiting: int = 1024
    """Connections whose other end is not there, at most."""
    per_address: int = 256
    """Connections from one address, at most; all sites behind one proxy have one address."""
    rate: float = 20.0
    """New connections per second from one address, in the long run."""
    burst: int = 200
    """New connections from one address at once."""
    lonely: float = 600.0
    """Seconds for which a connection may wait for its other end."""


class Usage:
    """Who uses a relay how much."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.connections: Counter[str] = Counter()
        """Connections by address."""
        self.waiting = 0
        """Connections whose other end is not there."""
        self._credit: dict[str, tuple[float, float]] = {}
        """By address: how many connections it may open, and when that was so."""

    def refusal(self, address: str, now: float) -> str:
        """Why a new connection is refused; empty if it is not.

        Args:
            address: where it comes from.
            now: the time, in seconds.
        """
        if not self._has_credit(address, now):
            return f"more than {self.limits.rate:g} new connections per second from {address}"
        if self.connections[address] >= self.limits.per_address:
            return f"more than {self.limits.per_address} connections from {address}"
        if self.connections.total() >= self.limits.connections:
            return f"more than {self.limits.connections} connections"
        if self.waiting >= self.limits.waiting:
            return f"more than {self.limits.waiting} connections wait for their other end"
        return ""

    def left(self, address: str) -> None:
        """Note that a connection has ended."""
        self.connections[address] -= 1
        if self.connections[address] <= 0:
            del self.connections[address]

    def _has_credit(self, address: str, now: float) -> bool:
        """Whether an address may open one more connection now; this counts as one."""
        if len(self._credit) >= MOST_ADDRESSES:
            whole = self.limits.burst / self.limits.rate
            self._credit = {a: c for a, c in self._credit.items() if now - c[1] < whole}
        credit, then = self._credit.get(address, (float(self.limits.burst), now))
        credit = min(credit + (now - then) * self.limits.rate, float(self.limits.burst))
        has_credit = credit >= 1.0
        self._credit[address] = credit - has_credit, now
        return has_credit
