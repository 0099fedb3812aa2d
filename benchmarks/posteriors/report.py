"""The results as tables (`page` has the page of Markdown, `targets` the targets).

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
from statistics import NormalDist, fmean

from rich.console import Console

from ..tables import Grid
from .cases import BUILDERS, DIVISIONS
from .methods import METHODS, WITH_ROUNDS
from .results import Row, find
from .targets import FIGURES, TARGETS, speed, speed_over_nuts, verdicts

LEVELS = [(k + 0.5) / 200 for k in range(200)]
"""The levels of the quantiles of the reference."""
REFERENCE_DRAWS = 10_000
"""The draws of the reference."""
MEGABYTE = 1e6
"""Bytes."""

Cell = Callable[[Row], str]
"""Shows something of a row."""


def console_tables(rows: Sequence[Row], console: Console) -> None:
    """Print the tables of all rows."""
    for method in METHODS:
        for grid in (costs(rows, method), errors(rows, method)):
            _print(grid, console)
    for grid in (all_rounds(rows), all_w2(rows), summary(rows)):
        _print(grid, console)


def _print(grid: Grid, console: Console) -> None:
    if grid.rows:
        console.print(grid.rich())


def costs(rows: Sequence[Row], method: str) -> Grid:
    """What the draws of a method cost: a line for each case and division."""
    columns: dict[str, Cell] = {
        "method": lambda row: row["notes"].get("chosen", method),
        "network rounds": _shown("network_rounds", ",d"),
        "MB sent": _shown("bytes_sent", ",.1f", unit=MEGABYTE),
        "k-hat": lambda row: _number(row["notes"].get("pareto_k"), ".2f"),
        "draws": _shown("effective_draws", ",.0f"),
        "R-hat": _shown("r_hat", ".3f"),
        "first s": _shown("first_seconds", ",.1f"),
        "s": _shown("seconds", ",.2f"),
        "draws / s": lambda row: _number(speed(row), ",.0f"),
        "over NUTS": lambda row: _number(speed_over_nuts(rows, row), ",.2f"),
    }
    return _table(f"{method}: what the draws cost", rows, method, columns, words=3)


def errors(rows: Sequence[Row], method: str) -> Grid:
    """How far the draws of a method are from the reference, a line for each case and division."""
    columns: dict[str, Cell] = {
        "W2 (chance)": w2_cell,
        "mean": _shown("mean_error", ".3f"),
        "sd": _range("sd_ratio_least", "sd_ratio_most"),
        "Mahal.": _shown("mahalanobis", ".3f"),
        "eigenvalues": _range("eigenvalue_least", "eigenvalue_most"),
        "by chance": _chance_cell,
    }
    return _table(f"{method}: how far from the reference", rows, method, columns, words=2)


def _table(
    title: str, rows: Sequence[Row], method: str, columns: dict[str, Cell], words: int
) -> Grid:
    cells, notes = [], []
    for case in BUILDERS:
        for division in DIVISIONS:
            row = find(rows, case, division, method)
            if row is None:
                continue
            if "error" in row:
                notes.append(f"{case}, {division}: {row['error']}")
            else:
                cells.append([case, division, *(cell(row) for cell in columns.values())])
    return Grid(title, ["case", "division", *columns], cells, notes, words)


def _shown(key: str, form: str, unit: float = 1) -> Cell:
    def cell(row: Row) -> str:
        value = row.get(key)
        return _number(value if value is None or unit == 1 else value / unit, form)

    return cell


def _range(least: str, most: str) -> Cell:
    return lambda row: f"{row[least]:.3f} to {row[most]:.3f}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _chance_cell(row: Row) -> str:
    least, most = chance_eigenvalues(row["dim"], row["effective_draws"])
    return f"{least:.3f} to {most:.3f}"


def chance_eigenvalues(dim: int, draws: float) -> tuple[float, float]:
    """The least and the largest eigenvalue that so many perfect draws show, eq. (2)."""
    a, b = dim / draws, dim / REFERENCE_DRAWS
    edge = math.sqrt(a + b - a * b)
    return (max(1 - edge, 0.0) / (1 - b)) ** 2, ((1 + edge) / (1 - b)) ** 2


def all_w2(rows: Sequence[Row]) -> Grid:
    """The table of W2: a column for each method, a line for each case and division."""
    title = "W2 of the worst agent and parameter (in brackets: by chance alone)"
    return _by_method(title, rows, w2_cell, list(METHODS))


def all_rounds(rows: Sequence[Row]) -> Grid:
    """The table of network rounds: a column for each method that has them."""
    title = "Network rounds, all included"
    return _by_method(title, rows, _shown("network_rounds", ",d"), WITH_ROUNDS)


def _by_method(title: str, rows: Sequence[Row], cell: Cell, methods: Sequence[str]) -> Grid:
    """A column for each method that has been run."""
    shown = [name for name in methods if any(row["method"] == name for row in rows)]
    cells = []
    for case in BUILDERS:
        for division in DIVISIONS:
            found = [find(rows, case, division, name) for name in shown]
            if any(found):
                texts = ["" if row is None else _failure(row) or cell(row) for row in found]
                cells.append([case, division, *texts])
    return Grid(title, ["case", "division", *shown], cells, words=2)


def _failure(row: Row) -> str | None:
    """Why there are no figures, in few words; None where there are."""
    if "error" not in row:
        return None
    has_diverged = "diverged in round" in row["error"]
    return "diverged" if has_diverged else row["error"].split(" (")[0][:40]


def w2_cell(row: Row) -> str:
    """W2, and in brackets what as many perfect draws show."""
    return f"{row['w2']:.3f} ({chance_w2(row['effective_draws']):.3f})"


def chance_w2(draws: float) -> float:
    """The W2 that so many perfect draws show by chance, eq. (1)."""
    normal = NormalDist()
    spread = fmean(q * (1 - q) / normal.pdf(normal.inv_cdf(q)) ** 2 for q in LEVELS)
    return math.sqrt((1 / draws + 1 / REFERENCE_DRAWS) * spread)


def summary(rows: Sequence[Row]) -> Grid:
    """Which targets `auto` meets, and how many cases and divisions miss none."""
    cells, met = [], 0
    for case in BUILDERS:
        for division in DIVISIONS:
            row = find(rows, case, division, "auto")
            if row is not None:
                found = verdicts(rows, row)
                met += False not in found.values()
                cells.append([case, division, *_verdict_cells(rows, row, found)])
    notes = [f"No target missed in {met} of {len(cells)}."]
    return Grid("Which targets `auto` meets", ["case", "division", *FIGURES], cells, notes, words=2)


def _verdict_cells(rows: Sequence[Row], row: Row, found: dict[str, bool | None]) -> list[str]:
    if "error" in row:
        return ["missed"] * len(FIGURES)
    target = TARGETS[row["case"]]
    texts = {
        "network rounds": f"{row['network_rounds']:,} of {target.network_rounds:,}",
        "effective draws": f"{row['effective_draws']:,.0f}",
        "W2": f"{row['w2']:.3f}",
        "R-hat": f"{row['r_hat']:.3f}",
        "speed": f"{_number(speed_over_nuts(rows, row), ',.1f')} of {target.speed:g}",
    }
    marks = {True: " met", False: " **missed**", None: ""}
    return [texts[name] + marks[found[name]] for name in FIGURES]
