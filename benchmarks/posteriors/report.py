"""The results as tables, and which targets are met (`page` has the page of Markdown).

n perfect draws of a Gaussian are not at distance zero from the law they come from: the quantile at
level q has the variance q (1 - q) / (n phi(z_q)^2) in units of the law's, z_q the normal quantile
and phi the normal density. Against a reference that is itself of n_0 draws, by chance alone

    W2 = sqrt((1/n + 1/n_0) mean_q q (1 - q) / phi(z_q)^2)                                     (1)

of one parameter; the worst of several is somewhat larger. The eigenvalues of a covariance in d
dimensions, whitened by that of the reference, then spread (Wachter 1980) with a = d/n and b = d/n_0
over

    ((1 -+ sqrt(a + b - a b)) / (1 - b))^2                                                     (2)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import NamedTuple

from rich.console import Console

from ..tables import Grid
from .cases import BUILDERS, DIVISIONS
from .methods import DECENTRALISED, METHODS
from .results import Row


class Target(NamedTuple):
    """The range in which a figure should be, both ends included."""

    low: float
    high: float


TARGETS = {
    "w2": Target(0.0, 0.08),
    "mean_error": Target(0.0, 0.05),
    "sd_ratio_least": Target(0.96, 1.04),
    "sd_ratio_most": Target(0.96, 1.04),
    "mahalanobis": Target(0.0, 0.05),
    "eigenvalue_least": Target(0.9, 1.1),
    "eigenvalue_most": Target(0.9, 1.1),
    "rounds_per_effective_draw": Target(0.0, 25.0),
}
LARGEST_SORTED_OVER_RANDOM = 1.5
"""The target: the largest ratio of W2 under the sorted division to W2 under the random one."""
LEVELS = [(k + 0.5) / 200 for k in range(200)]
"""The levels of the quantiles of the reference."""
REFERENCE_DRAWS = 10_000
"""The draws of the reference."""

HEADINGS = {
    ("agents",): ("agents", "d"),
    ("dim",): ("dim", "d"),
    ("mean_error",): ("mean", ".3f"),
    ("sd_ratio_least", "sd_ratio_most"): ("sd", ".3f"),
    ("w2",): ("W2", ".3f"),
    ("mahalanobis",): ("Mahal.", ".3f"),
    ("eigenvalue_least", "eigenvalue_most"): ("eigenvalues", ".3f"),
    ("effective_draws",): ("draws", ",.0f"),
    ("rounds_per_effective_draw",): ("rounds", ".1f"),
    ("bytes_per_effective_draw",): ("bytes", ",.0f"),
    ("r_hat",): ("R-hat", ".3f"),
}
"""The columns of a table by the figures that they show: one, or the least and the most."""


@dataclass(frozen=True)
class Verdict:
    """Which targets are met in one case and division."""

    missed: list[str]
    """The figures of `tuned` that are outside their targets."""
    best: bool | None
    """Whether no other decentralised method has a smaller W2; None if there is none to compare."""
    sorted_over_random: float | None
    """W2 of `tuned` under the sorted division over that under the random one."""


def judge(rows: Sequence[Row], case: str, division: str) -> Verdict | None:
    """Compare the rows of one case and division with the targets; None without `tuned`."""
    by_method = {row["method"]: row for row in rows if _at(row, case, division)}
    tuned = by_method.pop("tuned", None)
    if tuned is None:
        return None
    rivals = [_w2(by_method[name]) for name in DECENTRALISED if name in by_method]
    return Verdict(
        missed_targets(tuned),
        _w2(tuned) <= min(rivals) if rivals else None,
        _sorted_over_random(rows, case),
    )


def missed_targets(row: Row) -> list[str]:
    """The figures of a row that are outside their targets; all of them if there are no figures."""
    if "error" in row:
        return list(TARGETS)
    measured = {key: target for key, target in TARGETS.items() if row[key] is not None}
    return [key for key, (low, high) in measured.items() if not low <= row[key] <= high]


def _sorted_over_random(rows: Sequence[Row], case: str) -> float | None:
    found = {r["division"]: _w2(r) for r in rows if r["case"] == case and r["method"] == "tuned"}
    if set(found) != set(DIVISIONS) or not all(map(math.isfinite, found.values())):
        return None
    return found["sorted"] / found["random"]


def _w2(row: Row) -> float:
    return math.inf if "error" in row else row["w2"]


def _at(row: Row, case: str, division: str) -> bool:
    return (row["case"], row["division"]) == (case, division)


def console_tables(rows: Sequence[Row], console: Console) -> None:
    """Print the tables of all rows."""
    for method in METHODS:
        for division in DIVISIONS:
            _print(figures(rows, method, division), console)
    _print(comparison(rows), console)
    _print(costs(rows), console)
    _print(summary(rows), console)


def _print(grid: Grid, console: Console) -> None:
    if grid.rows:
        console.print(grid.rich())


def figures(rows: Sequence[Row], method: str, division: str) -> Grid:
    """All figures of one method and division, a line for each case."""
    cells, notes = [], []
    for case in BUILDERS:
        for row in rows:
            if _at(row, case, division) and row["method"] == method:
                shown = [_figure(row, *column) for column in HEADINGS.items()]
                cells.append([case, *shown, _chance_cell(row)])
                notes += [f"{case}: {row['error']}"] if "error" in row else []
    headings = ["case", *(heading for heading, _ in HEADINGS.values()), "eigenvalues by chance"]
    return Grid(f"{method}, {division} division", headings, cells, notes)


def _figure(row: Row, keys: tuple[str, ...], heading: tuple[str, str]) -> str:
    values = [row.get(key) for key in keys]
    if None in values:
        return "-"
    missed = set(keys) & set(missed_targets(row))
    return " to ".join(format(value, heading[1]) for value in values) + (" *" if missed else "")


def _chance_cell(row: Row) -> str:
    if "error" in row:
        return "-"
    least, most = chance_eigenvalues(row["dim"], row["effective_draws"])
    return f"{least:.3f} to {most:.3f}"


def chance_eigenvalues(dim: int, draws: float) -> tuple[float, float]:
    """The least and the largest eigenvalue that so many perfect draws show, eq. (2)."""
    a, b = dim / draws, dim / REFERENCE_DRAWS
    edge = math.sqrt(a + b - a * b)
    return (max(1 - edge, 0.0) / (1 - b)) ** 2, ((1 + edge) / (1 - b)) ** 2


def comparison(rows: Sequence[Row]) -> Grid:
    """The table of W2: a column for each method, a line for each case and division."""
    title = "W2 of the worst agent and parameter (in brackets: by chance alone)"
    return _by_method(title, rows, _w2_cell)


def costs(rows: Sequence[Row]) -> Grid:
    """The table of rounds: a column for each method with rounds, a line for each case."""
    return _by_method("Rounds for an effective draw", rows, _rounds_cell, DECENTRALISED)


def _by_method(
    title: str, rows: Sequence[Row], cell: Callable[[Row], str], methods: Sequence[str] = METHODS
) -> Grid:
    cells = []
    for case in BUILDERS:
        for division in DIVISIONS:
            found = {row["method"]: row for row in rows if _at(row, case, division)}
            if found:
                shown = [cell(found[name]) if name in found else "" for name in methods]
                cells.append([case, division, *shown])
    return Grid(title, ["case", "division", *methods], cells, words=2)


def _w2_cell(row: Row) -> str:
    if "error" in row:
        has_diverged = "diverged in round" in row["error"]
        return "diverged" if has_diverged else row["error"].split(" (")[0][:40]
    return f"{row['w2']:.3f} ({chance_w2(row['effective_draws']):.3f})"


def _rounds_cell(row: Row) -> str:
    return "-" if "error" in row else f"{row['rounds_per_effective_draw']:,.0f}"


def chance_w2(draws: float) -> float:
    """The W2 that so many perfect draws show by chance, eq. (1)."""
    normal = NormalDist()
    spread = fmean(q * (1 - q) / normal.pdf(normal.inv_cdf(q)) ** 2 for q in LEVELS)
    return math.sqrt((1 / draws + 1 / REFERENCE_DRAWS) * spread)


def summary(rows: Sequence[Row]) -> Grid:
    """The table of verdicts, with how many cases and divisions miss no target."""
    settings = [(case, division) for case in BUILDERS for division in DIVISIONS]
    verdicts = {setting: judge(rows, *setting) for setting in settings}
    judged = {setting: verdict for setting, verdict in verdicts.items() if verdict is not None}
    cells = [[*setting, *_verdict_cells(verdict)] for setting, verdict in judged.items()]
    met = sum(not verdict.missed for verdict in judged.values())
    headings = [
        "case",
        "division",
        "targets missed by tuned",
        "best decentralised",
        "sorted / random",
    ]
    notes = [f"No target missed in {met} of {len(judged)}."]
    return Grid("Which targets are met", headings, cells, notes, words=4)


def _verdict_cells(verdict: Verdict) -> list[str]:
    missed = [h for keys, (h, _) in HEADINGS.items() if set(keys) & set(verdict.missed)]
    best = {True: "yes", False: "no", None: "-"}[verdict.best]
    ratio = verdict.sorted_over_random
    too_large = ratio is not None and ratio > LARGEST_SORTED_OVER_RANDOM
    shown = "-" if ratio is None else f"{ratio:.2f}" + (" *" if too_large else "")
    return [", ".join(missed) or "none", best, shown]
