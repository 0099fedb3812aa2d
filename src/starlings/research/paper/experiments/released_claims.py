"""Which program made the published numbers: Algorithm 1, or the released code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pandas as pd

from starlings.research.paper.claims import Claim, Verdict

INSIDE = 0.9
"""The share of published numbers that has to lie inside a band."""
HALF_A_DIGIT = 5e-4
"""Half a unit of the last digit of the published numbers, which are W2 distances."""


def published_is(curve: str, table: pd.DataFrame) -> Iterator[Verdict]:
    """Nearly all published numbers lie in the band that 100 trials of a curve have."""
    band = table[table["curve"] == curve].set_index(["ring", "method", "round"])
    quoted = table[table["curve"] == "published"].set_index(["ring", "method", "round"])["expected"]
    low, high = band["low"].loc[quoted.index], band["high"].loc[quoted.index]
    inside = quoted.between(low - HALF_A_DIGIT, high + HALF_A_DIGIT)
    for ring, share in inside.groupby(level="ring", sort=False).mean().items():
        numbers = {"share of published numbers inside": share}
        yield Verdict(str(ring), numbers, share >= INSIDE)


CLAIMS = (
    Claim(
        "The published curves on rings are Algorithm 1.",
        f"{INSIDE:.0%} of the quoted numbers lie in the 95 % band of 100 trials.",
        "fig-released",
        partial(published_is, "Algorithm 1"),
    ),
    Claim(
        "The published curves on rings are the emulated defects (our explanation).",
        f"{INSIDE:.0%} of the quoted numbers lie in the 95 % band of 100 trials.",
        "fig-released",
        partial(published_is, "released code"),
    ),
)
