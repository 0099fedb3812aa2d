"""The paper's claims about logistic regression, judged from the trials.

Accuracies are those of one agent after the last round that the paper shows, and count as equal
within `TIE`, the size of their sampling error.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from starlings.research.paper.claims import BASELINES, SAMPLERS, Claim, Verdict

LAST_ROUNDS = {5: 29, 20: 19, 50: 19}
"""The last round of the paper's curves, by the number of agents."""
POSTERIOR_ROUNDS = 300
"""Rounds after which the variances of five agents are near their limit; more agents need more."""
TIE = 0.002
"""The largest difference of two accuracies that count as equal."""
NEARLY = 0.99
"""The share of the best accuracy whose round measures speed."""
SAME_ACCURACY = 1e-4
"""The largest difference of accuracies that comes from the tolerance of proximal steps."""


def most_accurate_on_rings(table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS is at least as accurate as every baseline."""
    finals = last_of(table, "ring", "accuracy, agent 0")[SAMPLERS]
    yield Verdict("ring", finals, finals["D-ADMMS"] >= finals[BASELINES].max() - TIE)


def soonest_on_rings(table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS is the first to be nearly as accurate as anybody becomes."""
    by_method = curves(table, "ring", "accuracy, agent 0")[SAMPLERS]
    reached = by_method >= NEARLY * by_method.iloc[-1].max()
    speeds = reached.idxmax().astype(float).where(reached.any(), float("inf"))
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
    yield Verdict("no edges", {"largest difference": apart}, apart < SAME_ACCURACY)


def worse_when_dense(table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS is less accurate on the complete graph than on the ring."""
    names = ("complete", "ring")
    finals = {n: last_of(table, n, "accuracy, agent 0")["D-ADMMS"] for n in names}
    yield Verdict("one agent", finals, finals["complete"] < finals["ring"] - TIE)


def worse_with_more_agents(table: pd.DataFrame) -> Iterator[Verdict]:
    """D-ADMMS falls behind exact draws the more, the more agents there are."""
    is_ours = (table["method"] == "D-ADMMS") & (table["quantity"] == "accuracy, agent 0")
    ours = table[is_ours & (table["round"] == min(LAST_ROUNDS.values()))]
    exact = table[(table["method"] == "posterior") & (table["quantity"] == "accuracy")]
    accuracies = ours.pivot(index="agents", columns="graph", values="value")
    behind = accuracies.sub(exact.set_index("agents")["value"], axis=0).sort_index()
    for graph in ("complete", "ring") if len(behind) > 1 else ():
        numbers = behind[graph].rename(lambda size: f"N = {size}")
        yield Verdict(graph, numbers, behind[graph].diff().max() < -TIE)


def has_posterior_variance(table: pd.DataFrame) -> Iterator[Verdict]:
    """The variances of D-ADMMS are the posterior's within a factor of two; no verdict if quick."""
    here = table[(table["graph"] == "ring") & (table["quantity"] == "variance ratio, agent 0")]
    finals = here[here["round"] == POSTERIOR_ROUNDS].set_index("method")["value"]
    if not finals.empty:
        yield Verdict("ring", finals, 0.5 <= finals["D-ADMMS"] <= 2)


def curves(table: pd.DataFrame, graph: str, quantity: str) -> pd.DataFrame:
    """One quantity over the rounds of the paper, with a column per method."""
    shown = table["round"] <= LAST_ROUNDS[int(table["agents"].iloc[0])]
    here = table[(table["graph"] == graph) & (table["quantity"] == quantity) & shown]
    return here.pivot(index="round", columns="method", values="value")


def last_of(table: pd.DataFrame, graph: str, quantity: str) -> pd.Series:
    """One quantity after the last round of the paper, by method."""
    return curves(table, graph, quantity).iloc[-1]


CLAIMS = (
    Claim(
        "Logistic: on rings D-ADMMS has the highest accuracy of the samplers.",
        f"Highest accuracy after the last round that the paper shows (to {TIE:g}).",
        "fig-logistic-*",
        most_accurate_on_rings,
    ),
    Claim(
        "Logistic: on rings D-ADMMS needs the fewest rounds.",
        f"First at {NEARLY:.0%} of the accuracy that the best sampler ends with.",
        "fig-logistic-*",
        soonest_on_rings,
    ),
    Claim(
        "Logistic: on rings the deviation is smallest for D-ADMMS.",
        "Smallest standard deviation over the trials after the last round that the paper shows.",
        "fig-logistic-*",
        steadiest_on_rings,
    ),
    Claim(
        "Logistic: ADMM is at least as accurate as D-ADMMS.",
        f"After the last round that the paper shows (to {TIE:g}).",
        "fig-logistic-*",
        mode_is_most_accurate,
    ),
    Claim(
        "Logistic: without edges ADMM and D-ADMMS are the same.",
        f"Accuracies from round 1 on differ by less than {SAME_ACCURACY:g}.",
        "fig-logistic-*",
        same_without_edges,
    ),
    Claim(
        "Logistic: D-ADMMS declines on the complete graph.",
        f"Less accurate there than on the ring, by more than {TIE:g}, with 20 and 50 agents.",
        "fig-logistic-[25]0",
        worse_when_dense,
    ),
    Claim(
        "Logistic: D-ADMMS performs worse as the number of agents grows.",
        f"After {min(LAST_ROUNDS.values())} rounds its accuracy, less that of exact draws (the "
        f"rows differ), falls by more than {TIE:g} with every step of N.",
        "fig-logistic-*",
        worse_with_more_agents,
        together=True,
    ),
    Claim(
        "Logistic: the samples of D-ADMMS are of the posterior (implied, not shown).",
        f"After {POSTERIOR_ROUNDS} rounds the variance ratio of one of five agents on the ring is "
        "between 0.5 and 2.",
        "fig-logistic-5",
        has_posterior_variance,
    ),
)
