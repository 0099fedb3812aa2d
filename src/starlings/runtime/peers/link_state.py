"""How the link to a neighbour is, for those who look after it."""

from __future__ import annotations

from dataclasses import dataclass

from starlings.errors import SiteError


@dataclass(frozen=True)
class LinkState:
    """How the link to a neighbour is."""

    neighbour: str
    is_connected: bool
    since: float
    """When it became so: seconds since 1970."""
    doing: str
    """What the link does now, in words."""
    way: str
    """How the neighbour is reached, or was tried last."""
    attempts: int
    """How often this site has tried to connect, since it was last connected."""
    connections: int
    """How many connections there were."""
    last_error: str
    """What went wrong last, in words; empty if nothing did."""
    is_refused: bool
    """Whether one end did not accept the other, in the last attempt: somebody has to act."""
    failure: SiteError | None
    """What has ended the link for good."""
    bytes_sent: int
    bytes_received: int
    round_trip: float | None
    """Seconds from a ping to its answer."""
    last_heard: float | None
    """Seconds since something came from the neighbour, if it is connected."""
