"""How a claim is judged: a criterion that a table of numbers meets or does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import pandas as pd

BASELINES = ["D-SGLD", "D-SGHMC", "D-ULA"]
"""The samplers that the paper compares D-ADMMS with."""
SAMPLERS = ["D-ADMMS", *BASELINES]


class Verdict(NamedTuple):
    """Whether a claim holds in one setting, and the numbers that say so."""

    setting: str
    numbers: Mapping[str, float] | pd.Series
    holds: bool


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and the criterion by which it is judged."""

    text: str
    criterion: str
    applies_to: str
    """A pattern of the names of experiments, such as "fig-linear-*"."""
    judge: Callable[[pd.DataFrame], Iterator[Verdict]]
    together: bool = False
    """Whether it compares experiments, so that all their tables are judged as one."""

    def tables(self, by_name: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
        """The tables to be judged, by the names of the experiments they are from."""
        mine = {n: table for n, table in by_name.items() if fnmatchcase(n, self.applies_to)}
        if not self.together or not mine:
            return mine
        return {", ".join(mine): pd.concat(mine.values(), ignore_index=True)}


def judge(claims: Iterable[Claim], tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Each claim on each table that it applies to, by the name of the experiment."""
    rows = [
        {
            "claim": claim.text,
            "criterion": claim.criterion,
            "experiment": name,
            "setting": verdict.setting,
            "numbers": ", ".join(f"{k}: {_number(v)}" for k, v in verdict.numbers.items()),
            "holds": bool(verdict.holds),
        }
        for claim in claims
        for name, table in claim.tables(tables).items()
        for verdict in claim.judge(table)
    ]
    columns = ["claim", "criterion", "experiment", "setting", "numbers", "holds"]
    return pd.DataFrame(rows, columns=columns)


def summarise(judged: pd.DataFrame) -> pd.DataFrame:
    """One line per claim: in how many settings it holds."""
    counts = judged.groupby(["claim", "criterion"], sort=False)["holds"].agg(["sum", "count"])
    verdicts = [_verdict(int(holding), int(count)) for holding, count in counts.to_numpy()]
    return counts.reset_index()[["claim", "criterion"]].assign(verdict=verdicts)


def coverage(table: pd.DataFrame) -> float:
    """The share of Monte Carlo points within the 95 % band of their estimator."""
    slack = 1e-9 * table["expected"]
    inside = table["monte_carlo"].between(table["low"] - slack, table["high"] + slack)
    return float(inside.mean())


def _number(value: float) -> str:
    return f"{value:.3g}" if np.isfinite(value) else "never"


def _verdict(holding: int, count: int) -> str:
    if holding == count:
        return "holds"
    return f"holds in {holding} of {count} settings" if holding else "does not hold"
