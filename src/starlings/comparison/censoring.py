"""How long rows were watched whose event is known: what a simulation of censored times needs.

A row without the event was watched until its time. One with the event was watched longer, and it is
not known how long: the time C until which it would have been watched is drawn from the law of the
site's other rows, by the Kaplan-Meier estimate G of it, in which events censor:

    G(t) = 1 - prod_{censored times c <= t} (1 - 1 / number of rows watched until c)        (1)
    C ~ G given C > time of the event                                                       (2)

Beyond the last censored time nobody stopped watching, and C is infinite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Watching:
    """Until when the rows of a site were watched."""

    times: np.ndarray
    """The time of every row, (row,)."""
    has_event: np.ndarray
    """Whether the event happened then, (row,)."""
    ends: np.ndarray
    """The censored times, ascending."""
    law: np.ndarray
    """G at these times."""

    @classmethod
    def of(cls, times: np.ndarray, event: np.ndarray) -> Watching:
        """That of a site, from its times and events."""
        has_event = np.asarray(event) > 0
        ends = np.sort(times[~has_event])
        watched = len(times) - np.searchsorted(np.sort(times), ends, side="left")
        # of several rows censored at one time, each is taken away after the one before
        watched = watched - (np.arange(len(ends)) - np.searchsorted(ends, ends, side="left"))
        law = 1 - np.cumprod(1 - 1 / np.maximum(watched, 1))  # (1)
        return cls(times, has_event, ends, law)

    def draw(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Until when every row would have been watched, (draw, row)."""
        before = np.append(0.0, self.law)[np.searchsorted(self.ends, self.times, side="right")]
        level = before + (1 - before) * rng.uniform(size=(draws, len(self.times)))
        places = np.searchsorted(self.law, level, side="left")
        until = np.append(self.ends, np.inf)[places]  # (2)
        return np.where(self.has_event, until, self.times)
