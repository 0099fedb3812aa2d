"""How many network rounds a call may take, and how many it has taken: one count for all of it.

Sums, pilot runs, rounds of a sampler and examinations of draws all spend from the same budget. It
is checked before anything is sent: before every sum, and before a sequence of rounds whose length
is known, for all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from starlings.errors import PrivacyError


@dataclass
class Budget:
    """Network rounds of one call, of which copies of a network share the count."""

    most: float = math.inf
    spent: int = 0

    def require(self, rounds: int) -> None:
        """Refuse rounds for which the budget is too small; nothing is spent."""
        if self.spent + rounds > self.most:
            raise PrivacyError(
                f"guard rail most_rounds: this run needs more than the {self.most:,.0f} network "
                f"rounds that a site allows: {self.spent:,} were made, {rounds:,} would follow. "
                "Ask for fewer `draws`, or another `method`."
            )

    def spend(self, rounds: int) -> None:
        """Count rounds that are made next."""
        self.require(rounds)
        self.spent += rounds
