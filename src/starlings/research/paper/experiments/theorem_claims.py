"""What the paper's theorem is taken to promise, judged from its own numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from starlings.research.paper.claims import Claim, Verdict

USEFUL = 10
"""A bound is called useful if it is at most this many times the distance that it bounds."""


def condition_holds(table: pd.DataFrame) -> Iterator[Verdict]:
    """The contraction factor of the theorem is below one."""
    for case, first in _cases(table):
        yield Verdict(case, {"a - 1": first["a"] - 1}, first["a"] < 1)


def bound_is_useful(table: pd.DataFrame) -> Iterator[Verdict]:
    """What the bound falls to is near the distance that the iterates come to."""
    for case, last in _cases(table):
        if last["a"] < 1:
            numbers = {"limit of the bound": last["limit"], "true distance": last["true"]}
            yield Verdict(case, numbers, last["limit"] <= USEFUL * last["true"])


def _cases(table: pd.DataFrame) -> Iterator[tuple[str, pd.Series]]:
    """Every case by its title, with the row of its last round."""
    for case, rows in table.groupby("case", sort=False):
        yield str(case), rows.iloc[-1]


CLAIMS = (
    Claim(
        "The convergence theorem applies to D-ADMMS.",
        "Its condition a < 1 holds, at the best rho in the worked examples.",
        "fig-theorem",
        condition_holds,
    ),
    Claim(
        "The theorem bounds how far D-ADMMS stays from the posterior (implied: a useful bound).",
        f"Where a < 1, the limit of the bound is at most {USEFUL} times the true distance.",
        "fig-theorem",
        bound_is_useful,
    ),
)
