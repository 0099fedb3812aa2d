"""The paper's claims about logistic regression, judged from the trials.

Accuracies are those of one agent after the last round that the paper shows, and count as equal
within `TIE`, the size of their sampling error.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from starlings.experiments.judging import BASELINES, SAMPLERS, Claim, Verdict

LAST_ROUNDS = {5: 29, 20: 19, 50: 19}
"""Of the paper's curves, by the number of agents."""
TIE = 0.002
NEARLY = 0.99
ALIKE = 1e-4
"""The solvers of the proximal steps stop this near to each other, at most."""


def most_accurate_on_rings(table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS is at least as accurate as every baseline."""
    finals = last_of(table, "ring", "accuracy, agent 0")[SAMPLERS]
    yield Verdict("ring", finals, finals["D-ADMMS"] >= finals[BASELINES].max() - TIE)


def soonest_on_rings(table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS is the first to be nearly as accurate as anybody becomes."""
    by_method = curves(table, "ring", "accuracy, agent 0")[SAMPLERS]
    reached = by_method >= NEARLY * by_method.iloc[-1].max()
    speeds = reached.idxmax().where(reached.any(), float("inf")).astype(float)
    yield Verdict("ring", speeds, speeds["D-ADMMS"] <= speeds[BASELINES].min())


def steadiest_on_rings(table: pd.DataFrame) -> Iterator[Verdict]:
    """The accuracy of D-ADMMS varies least over the trials."""
    finals = last_of(table, "ring", "accuracy sd, agent 0")[SAMPLERS]
    yield Verdict("ring", finals, finals["D-ADMMS"] <= finals[BASELINES].min())


def mode_is_most_accurate(table: pd.DataFrame) -> Iterator[Verdict]:
    """ADMM is at least as accurate as D-ADMMS."""
    for name in ("complete", "ring", "no edges"):
        finals = last_of(table, name, "accuracy, agent 0")[["ADMM", "D-ADMMS"]]
        yield Verdict(name, finals, finals["ADMM"] >= finals["D-ADMMS"] - TIE)


def same_without_edges(table: pd.DataFrame) -> Iterator[Verdict]:
    """ADMM and D-ADMMS label the same rows alike from the first round on."""
    by_method = curves(table, "no edges", "accuracy, agent 0").iloc[1:]
    apart = (by_method["D-ADMMS"] - by_method["ADMM"]).abs().max()
    yield Verdict("no edges", {"largest difference": apart}, apart < ALIKE)


def worse_when_dense(table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS is less accurate on the complete graph than on the ring."""
    names = ("complete", "ring")
    finals = {n: last_of(table, n, "accuracy, agent 0")["D-ADMMS"] for n in names}
    yield Verdict("one agent", finals, finals["complete"] < finals["ring"] - TIE)


def has_posterior_variance(table: pd.DataFrame) -> Iterator[Verdict]:
    """After all rounds the variances of D-ADMMS are the posterior's within a factor of two."""
    here = table[(table["graph"] == "ring") & (table["quantity"] == "variance ratio, agent 0")]
    finals = here[here["round"] == here["round"].max()].set_index("method")["value"]
    yield Verdict("ring", finals, 0.5 <= finals["D-ADMMS"] <= 2)


def curves(table: pd.DataFrame, graph: str, quantity: str) -> pd.DataFrame:
    """One quantity over the rounds of the paper, with a column per method."""
    shown = table["round"] <= LAST_ROUNDS[int(table["agents"].iloc[0])]
    here = table[(table["graph"] == graph) & (table["quantity"] == quantity) & shown]
    return here.pivot(index="round", columns="method", values="value")


def last_of(table: pd.DataFrame, graph: str, quantity: str) -> pd.Series:
    """One quantity after the last round of the paper, by method."""
    return curves(table, graph, quantity).iloc[-1]


LOGISTIC_CLAIMS = (
    Claim(
        "Logistic: on rings D-ADMMS has the highest accuracy of the samplers.",
        f"Highest accuracy after the last round that the paper shows (to {TIE:g}).",
        "fig-logistic",
        most_accurate_on_rings,
    ),
    Claim(
        "Logistic: on rings D-ADMMS needs the fewest rounds.",
        f"First at {NEARLY:.0%} of the accuracy that the best sampler ends with.",
        "fig-logistic",
        soonest_on_rings,
    ),
    Claim(
        "Logistic: on rings the deviation is smallest for D-ADMMS.",
        "Smallest standard deviation over the trials after the last round that the paper shows.",
        "fig-logistic",
        steadiest_on_rings,
    ),
    Claim(
        "Logistic: ADMM is at least as accurate as D-ADMMS.",
        f"After the last round that the paper shows (to {TIE:g}).",
        "fig-logistic",
        mode_is_most_accurate,
    ),
    Claim(
        "Logistic: without edges ADMM and D-ADMMS are the same.",
        f"Accuracies from round 1 on differ by less than {ALIKE:g}.",
        "fig-logistic",
        same_without_edges,
    ),
    Claim(
        "Logistic: D-ADMMS declines on the complete graph.",
        f"Less accurate there than on the ring, by more than {TIE:g}.",
        "fig-logistic",
        worse_when_dense,
    ),
    Claim(
        "Logistic: the samples of D-ADMMS are of the posterior (implied, not shown).",
        "After all our rounds the variance ratio of one agent on the ring is between 0.5 and 2.",
        "fig-logistic",
        has_posterior_variance,
    ),
)
