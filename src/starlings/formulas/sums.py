"""Sums over all sites, by which sites agree, and several agreements within the same sums.

An agreement is a generator: it yields what each local site adds, an array (site, k) with a name for
the account, and is sent the total (k,). It never sees what another site has added. Agreements that
do not need each other run `together`: what they yield at the same time goes into one sum, so that
as many sums are made as the longest of them needs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Total = Callable[[np.ndarray, Mapping[str, int]], np.ndarray]
"""From the numbers of the local sites (site, k), and how many are of which kind, to the sum (k,)
over all sites."""


class Parts(NamedTuple):
    """What each local site adds to a sum."""

    kind: str
    """What the numbers are, in the account of what leaves a site."""
    numbers: np.ndarray
    """(site, k)."""


Agreement = Generator[Parts, np.ndarray, Any]


@dataclass
class Sums:
    """The sums of an agreement, and their account.

    Args:
        total: what makes a sum; by default all sites are in this process.
    """

    total: Total = field(default=lambda numbers, _: numbers.sum(axis=0))
    account: list[dict[str, int]] = field(default_factory=list)
    """For each sum: how many numbers of which kind every site has added."""

    def together(self, agreements: Sequence[Agreement]) -> list[Any]:
        """What these agreements return, with as few sums as possible."""
        running = dict(enumerate(agreements))
        results: list[Any] = [None] * len(running)
        sent: dict[int, Any] = dict.fromkeys(running)
        while running:
            parts = {}
            for number, agreement in list(running.items()):
                try:
                    parts[number] = agreement.send(sent[number])
                except StopIteration as stop:
                    results[number] = stop.value
                    del running[number]
            sent = self._one_sum(parts)
        return results

    def _one_sum(self, parts: Mapping[int, Parts]) -> dict[int, Any]:
        """The totals of what several agreements have yielded."""
        if not parts:
            return {}
        kinds: dict[str, int] = {}
        for part in parts.values():
            kinds[part.kind] = kinds.get(part.kind, 0) + part.numbers.shape[1]
        numbers = np.concatenate([part.numbers for part in parts.values()], axis=1)
        self.account.append(kinds)
        total = self.total(numbers.astype(float), kinds)
        ends = np.cumsum([part.numbers.shape[1] for part in parts.values()])
        return dict(zip(parts, np.split(total, ends[:-1]), strict=True))
