"""What the paper is taken to show about the samples of all agents."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from starlings.research.paper.claims import Claim, Verdict


def reaches_posterior(table: pd.DataFrame) -> Iterator[Verdict]:
    """Every agent ends with mean and spread of the posterior, to a tenth of its spread."""
    last = table[table["round"] == table["round"].max()].groupby("agent").first()
    ratios = last["exact_sd"] / last["posterior_sd"]
    shifts = (last["exact_mean"] - last["posterior_mean"]).abs() / last["posterior_sd"]
    worst = {"sd ratio": ratios[(ratios - 1).abs().idxmax()], "mean off, in sd": shifts.max()}
    yield Verdict(
        "ring, all agents", worst, abs(worst["sd ratio"] - 1) < 0.1 and shifts.max() < 0.1
    )


CLAIMS = (
    Claim(
        "The samples of all agents evolve to the posterior (shown, not stated).",
        "After the last round mean and standard deviation are right to a tenth of the latter.",
        "fig-evolution",
        reaches_posterior,
    ),
)
