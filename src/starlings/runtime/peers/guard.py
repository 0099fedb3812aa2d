"""What no honest neighbour sends in a round of a tuned sampler, and what would bias it for ever.

In the coordinates of a tuned run the posterior has about unit scale, and neighbours are near each
other. With x_i the own message and x_j that of a neighbour, a site goes on only while every entry
has

    x_j is finite   and   |x_i - x_j| < 10                                                  (1)

Honest neighbours come to 0.8 with the usual step and to 2.3 with three times that one; at the
start, where positions are drawn from N(0, I), one pair of entries in 10^12 would be refused. One
message that is wrong by a million moves the draws of everybody, for ever, and nothing shows it.
Where messages are masked nobody can look at those of a single neighbour, and there is no guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from starlings.errors import SiteError
from starlings.network.communicator import Communicator
from starlings.runtime.peers.communicator import PeersCommunicator

FARTHEST = 10.0
"""The distance of eq. (1), in tuned coordinates."""


@contextmanager
def guarded(communicator: Communicator, is_wanted: bool) -> Iterator[None]:
    """A context in which a site refuses messages of rounds that break eq. (1).

    Args:
        communicator: only that of a site that is a process of its own has a guard.
        is_wanted: whether the messages are positions in tuned coordinates, and not masked.
    """
    if not is_wanted or not isinstance(communicator, PeersCommunicator):
        yield
        return
    communicator.check_received = check_near
    try:
        yield
    finally:
        communicator.check_received = None


def check_near(neighbour: str, own: np.ndarray, received: np.ndarray) -> None:
    """Refuse a message that breaks eq. (1); one's own that is not finite is another's business."""
    if not np.isfinite(own).all():
        return
    distance = np.max(np.abs(own - received), initial=0.0)  # (1)
    if distance < FARTHEST:
        return
    far = f"{distance:.3g} away from here" if np.isfinite(distance) else "not finite"
    raise SiteError(
        f"{neighbour} sent a position that is {far}, where neighbours are nearer than "
        f"{FARTHEST:g}: its machine or its program is at fault, or the sampler has diverged there. "
        "Ask who runs it, and begin the run anew; method='hmc' does not diverge."
    )
