"""What the paper is taken to show about the penalty rho and the start of D-ADMMS."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from starlings.research.paper.claims import Claim, Verdict


def robust_to_penalty(table: pd.DataFrame) -> Iterator[Verdict]:
    """The last W2 stays within a factor of two over all rho."""
    finals = _finals(table).rename(lambda rho: f"rho {rho}")
    yield Verdict("ring, agent", finals, finals.max() <= 2 * finals.min())


def robust_to_start(table: pd.DataFrame) -> Iterator[Verdict]:
    """The last W2 is the same to one percent from every start."""
    finals = _finals(table)
    spread = {"smallest": finals.min(), "largest": finals.max()}
    yield Verdict("ring, agent", spread, finals.max() <= 1.01 * finals.min())


def _finals(table: pd.DataFrame) -> pd.Series:
    last = table[table["round"] == table["round"].max()]
    return last.set_index("variant")["exact"]


CLAIMS = (
    Claim(
        "D-ADMMS is robust to rho (shown, not stated).",
        "The last W2 stays within a factor of two from rho = 1 to 1000.",
        "fig-ablation-rho",
        robust_to_penalty,
    ),
    Claim(
        "D-ADMMS ends in the same law wherever it starts (shown, not stated).",
        "The last W2 is the same to 1 % from all ten starts.",
        "fig-ablation-init",
        robust_to_start,
    ),
)
