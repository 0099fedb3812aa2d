"""What the hub does: it adds, and it forwards.

In every call all sites send one message each, and each gets one reply. Arrays are added in the
order of the sites, so that a total has the same bits whenever it is made again:

    total = ((v_0 + v_1) + v_2) + ...                                                        (1)

It keeps nothing from one call to the next, and makes no decisions.

`serve` visits the sites, because engines for federated computing can tell a site something at any
time. A visit brings the last reply, and returns at once if the site computes for longer than a
moment, so that the hub knows that it is alive. No call goes on without every site.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from starlings.errors import ProtocolError, SiteError
from starlings.runtime.hub.mailbox import State, Visit
from starlings.runtime.hub.messages import STAMP, Kind, array_bytes, array_of, joined, parts_of

Visits = Callable[[Mapping[str, Visit]], Mapping[str, tuple[State, bytes]]]
"""Visits sites at once, and returns what those that could be reached say; see `Mailbox.visited`."""
PAUSE = 0.1
"""Seconds from a visit that failed to the next."""


def replies(messages: Sequence[bytes]) -> list[bytes]:
    """What each site gets for the messages of all, in their order.

    Raises a `ProtocolError` where the sites are not in the same call.
    """
    stamps = {message[: STAMP.size] for message in messages}
    if len(stamps) != 1 or len(stamp := stamps.pop()) != STAMP.size:
        raise ProtocolError(
            "the sites do not run the same program: they are in different calls. All of them need "
            "the same job, and the same versions of starlings and its packages."
        )
    kind = STAMP.unpack(stamp)[0]
    contents = [message[STAMP.size :] for message in messages]
    if kind == Kind.ADD:
        return [_total(contents)] * len(contents)
    if kind == Kind.FORWARD:
        return _forwarded(contents)
    if kind == Kind.EVERYBODY:
        return [joined(dict(enumerate(contents)))] * len(contents)
    raise ProtocolError(f"calls of kind {kind} are unknown to this hub: another version.")


def _total(contents: Sequence[bytes]) -> bytes:
    """Eq. (1)."""
    arrays = [array_of(content) for content in contents]
    if len({(array.dtype, array.shape) for array in arrays}) != 1:
        raise ProtocolError("the sites do not run the same program: they add different arrays.")
    with np.errstate(invalid="ignore"):  # parts that are not finite have such a sum
        return array_bytes(functools.reduce(np.add, arrays))  # (1)


def _forwarded(contents: Sequence[bytes]) -> list[bytes]:
    """For each site the parts that the others have for it."""
    size = len(contents)
    sent = [parts_of(content, size) for content in contents]
    return [
        joined({sender: parts[site] for sender, parts in enumerate(sent) if site in parts})
        for site in range(size)
    ]


def serve(sites: Sequence[str], visit: Visits, patience: float) -> list[float]:
    """Serve the calls of all sites until all are done; return the seconds that each has taken.

    Raises a `SiteError` that says who stopped or cannot be reached.

    Args:
        sites: their names, in order.
        visit: how they are visited.
        patience: seconds for which a site may be out of reach.
    """
    took: list[float] = []
    letters, began = dict.fromkeys(sites, b""), time.perf_counter()
    while (messages := _messages(len(took), letters, visit, patience)) is not None:
        letters = dict(zip(sites, replies(messages), strict=True))
        took.append(time.perf_counter() - began)
        began += took[-1]
    return took


def _messages(
    calls: int, letters: Mapping[str, bytes], visit: Visits, patience: float
) -> list[bytes] | None:
    """What all sites send for the next call, in their order; None when all are done."""
    found: dict[str, tuple[State, bytes]] = {}
    reached = dict.fromkeys(letters, time.monotonic())
    while left := {site: Visit(calls, one) for site, one in letters.items() if site not in found}:
        said = visit(left)
        reached |= dict.fromkeys(said, time.monotonic())
        for site, (state, message) in said.items():
            if state == State.STOPPED:
                raise SiteError(f"{site} has stopped. Its own log says why; nobody else is told.")
            if state != State.COMPUTES:
                found[site] = (state, message)
        _check_patience({site: reached[site] for site in left}, patience)
        if len(said) < len(left):
            time.sleep(PAUSE)
    if len({state for state, _ in found.values()}) > 1:
        raise ProtocolError("the sites do not run the same program: some are done and some not.")
    if State.DONE in (state for state, _ in found.values()):
        return None
    return [found[site][1] for site in letters]


def _check_patience(reached: Mapping[str, float], patience: float) -> None:
    lost = [site for site, then in reached.items() if time.monotonic() - then > patience]
    if lost:
        raise SiteError(
            f"{', '.join(lost)} cannot be reached for {patience:.0f} s. Nothing goes on without "
            "every site: see that it runs, and submit the job again. It goes on where it was."
        )
