"""The paper's claims about linear regression, judged from the exact laws.

No verdict here depends on the trials. Speed is the number of rounds until W2 is a tenth of what it
was at the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from starlings.research.paper.claims import BASELINES, SAMPLERS, Claim, Verdict

START_FRACTION = 0.1
"""The fraction of the first W2 whose round measures speed."""
SAME_W2 = 1e-9
"""The largest difference of two W2 that count as equal."""
TARGETS = ("agent", "average")
"""What W2 is measured of: one agent, and the average over agents."""


def faster_on_rings(table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS reaches a tenth of its first W2 before every baseline."""
    for target in TARGETS:
        speeds = rounds_to_fraction(curves(table, "ring", target))[SAMPLERS]
        yield Verdict(f"ring, {target}", speeds, speeds["D-ADMMS"] < speeds[BASELINES].min())


def nearest_on_rings(target: str, table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS ends nearer than every baseline."""
    finals = curves(table, "ring", target).iloc[-1][SAMPLERS]
    yield Verdict(f"ring, {target}", finals, finals["D-ADMMS"] < finals[BASELINES].min())


def slower_when_dense(table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS needs more rounds on the complete graph than on the ring."""
    names = ("complete", "ring")
    speeds = {n: rounds_to_fraction(curves(table, n, "agent"))["D-ADMMS"] for n in names}
    yield Verdict("agent", speeds, speeds["complete"] > speeds["ring"])


def overtaken_when_dense(table: pd.DataFrame) -> Iterator[Verdict]:
    """A baseline is faster than D-ADMMS on the complete graph."""
    speeds = rounds_to_fraction(curves(table, "complete", "agent"))[SAMPLERS]
    yield Verdict("complete, agent", speeds, speeds["D-ADMMS"] > speeds[BASELINES].min())


def same_without_edges(table: pd.DataFrame) -> Iterator[Verdict]:
    """ADMM and D-ADMMS have one law from the first round on."""
    for target in TARGETS:
        laws = curves(table, "no edges", target).iloc[1:]
        apart = (laws["D-ADMMS"] - laws["ADMM"]).abs().max()
        yield Verdict(f"no edges, {target}", {"largest difference": apart}, apart < SAME_W2)


def mode_beats_samplers(topologies: tuple[str, ...], table: pd.DataFrame) -> Iterator[Verdict]:
    """ADMM ends at least as near as every sampler."""
    for name in topologies:
        for target in TARGETS:
            finals = curves(table, name, target).iloc[-1][["ADMM", *SAMPLERS]]
            holds = finals["ADMM"] <= finals[SAMPLERS].min() + SAME_W2
            yield Verdict(f"{name}, {target}", finals, holds)


def tiny_variance(table: pd.DataFrame) -> Iterator[Verdict]:
    """No entry of the posterior covariance is above 0.001 in size."""
    largest = table["largest_entry"].iloc[0]
    yield Verdict("posterior", {"largest entry": largest}, largest <= 1e-3)


def curves(table: pd.DataFrame, topology: str, target: str) -> pd.DataFrame:
    """Exact W2 with a row per round and a column per method."""
    here = table[(table["topology"] == topology) & (table["target"] == target)]
    return here.pivot(index="round", columns="method", values="exact")


def rounds_to_fraction(by_method: pd.DataFrame) -> pd.Series:
    """The first round with at most a tenth of the W2 of the start, or infinity."""
    reached = by_method <= START_FRACTION * by_method.iloc[0]
    return reached.idxmax().astype(float).where(reached.any(), np.inf)


CLAIMS = (
    Claim(
        "On rings D-ADMMS converges faster than D-SGLD, D-SGHMC and D-ULA.",
        "Fewest rounds until W2 is a tenth of what it was, for one agent and for the average.",
        "fig-linear-*",
        faster_on_rings,
    ),
    Claim(
        "On rings an agent of D-ADMMS is nearer to the posterior than one of the baselines.",
        "Smallest W2 after the last round shown.",
        "fig-linear-*",
        partial(nearest_on_rings, "agent"),
    ),
    Claim(
        "On rings the average of D-ADMMS is nearer than a baseline's (shown, not stated).",
        "Smallest W2 after the last round shown.",
        "fig-linear-*",
        partial(nearest_on_rings, "average"),
    ),
    Claim(
        "D-ADMMS is slower on complete graphs than on rings.",
        "More rounds until one agent's W2 is a tenth of what it was at the start.",
        "fig-linear-*",
        slower_when_dense,
    ),
    Claim(
        "On complete graphs D-ADMMS is slower than a baseline.",
        "A baseline needs fewer rounds until one agent's W2 is a tenth of what it was.",
        "fig-linear-*",
        overtaken_when_dense,
    ),
    Claim(
        "Without edges ADMM and D-ADMMS are the same.",
        f"W2 from round 1 on differs by less than {SAME_W2:g}.",
        "fig-linear-*",
        same_without_edges,
    ),
    Claim(
        "With 100 agents ADMM is nearer to the posterior than every sampler.",
        "Smallest W2 after the last round shown, ring and no edges.",
        "fig-linear-100-*",
        partial(mode_beats_samplers, ("ring", "no edges")),
    ),
    Claim(
        "With 100 agents ADMM is nearest on the complete graph too (left out by the paper).",
        "Smallest W2 after the last round shown.",
        "fig-linear-100-*",
        partial(mode_beats_samplers, ("complete",)),
    ),
    Claim(
        "With 100 agents the entries of the posterior covariance are at most 0.001.",
        "The largest entry in size is at most 0.001.",
        "fig-linear-100-*",
        tiny_variance,
    ),
)
