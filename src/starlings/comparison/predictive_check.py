"""Posterior predictive checks: does the model make data like those of each site?

For draws s = 1..S of a site's own agent, the site simulates outcomes y_s of its own rows, and
compares a statistic T of them with that of the outcomes that it has:

    tail probability = 2 min(P(T(y_s) >= T(y)), P(T(y_s) <= T(y))), at most 1               (1)

Times until an event are simulated as long as the site's rows were watched (see `censoring`).
Near 0, the model does not describe what T measures: too many zeros, say, or too long tails. Of
outcomes 0 or 1, rows are also grouped by their expected probability, and the share of ones of each
group is compared with what the model says (calibration).

A site makes them alone, from its rows. Only statistics leave it: means, standard deviations, shares
and, of sites with many rows, quantiles, none of which is the entry of a single row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from starlings.comparison.censoring import Watching
from starlings.comparison.site_likelihood import site_draws
from starlings.problem import Problem
from starlings.problem.shards import Rows, count_rows
from starlings.results.answers.prediction import BLOCK_NUMBERS, Predictor
from starlings.results.answers.unlikely import is_unlikely
from starlings.results.result import Result
from starlings.results.tables import ROW_HEADING, AnswerTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MIN_ROWS_FOR_QUANTILES = 50
"""Rows of a site below which quantiles are not told: they would be near to entries of rows."""
GROUP_ROWS = 10
"""Rows of a group of the calibration, at least."""
MOST_GROUPS = 10
"""Groups of the calibration, at most: deciles."""
QUANTILES = {"10% quantile": 0.1, "median": 0.5, "90% quantile": 0.9}
"""Quantiles of the outcomes that are compared, by name."""
COUNTS = ("poisson", "negative_binomial", "binomial")
"""Families of counts, whose quantiles jump from one number to the next."""
BINARY = ("logistic", "binomial")
"""Families of outcomes whose probabilities can be calibrated."""
Statistics = dict[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]]


class CheckTable(AnswerTable):
    """The table of a predictive check; its rows are named after site and statistic."""

    def _printed(self, width: int | None) -> list[str]:
        return [str(c) for c in self.columns if c not in ("site", "statistic")]


@dataclass(frozen=True)
class PredictiveCheck:
    """Statistics of the outcomes of every site, and of simulated ones; print it."""

    table: AnswerTable
    """One row for each site and statistic: `observed`, and `mean`, `sd`, `5%` and `95%` of the
    simulated ones, and `tail_probability`, eq. (1)."""
    calibration: pd.DataFrame
    """One row for each site and group of rows: `expected` and `observed` share of ones, the range
    `low` to `high` of nine in ten simulated shares, and `rows`. Empty for other outcomes."""

    @property
    def suspicious(self) -> pd.DataFrame:
        """The rows of the table whose tail probability is too small to be chance, among so many."""
        return self.table[is_unlikely(self.table["tail_probability"])]

    def __repr__(self) -> str:
        return repr(self.table)

    def figure(self) -> Figure:
        """Draw it: a row for each statistic and site, needs the extra `plots`."""
        from starlings.comparison.predictive_figure import draw

        return draw(self.table)


def predictive_check(
    problem: Problem, result: Result, draws: int = 500, seed: int = 0
) -> PredictiveCheck:
    """Compare the outcomes of every site with outcomes that the model simulates for its rows.

    Of a regression only. It computes where the rows are, and sends nothing. In a problem with the
    rows of one site, it is that site's own check. `result.with_tables(predictive_check=...)` keeps
    it for the report, and then its statistics are wherever the result goes.

    Args:
        problem: the model and the rows of every site, or of some.
        result: draws of this problem.
        draws: how many times the outcomes are simulated.
        seed: the same seed gives the same outcomes.
    """
    parts, groups = [], []
    for number, (site, rows) in enumerate(problem.shards.items()):
        if count_rows(rows) == 0:
            continue  # a hub
        own = site_draws(result, site).expand_dims(agent=[site], axis=2)
        predictor = Predictor.of(result.attrs, own, site, draws)
        rng = np.random.default_rng([seed, number])
        table, calibration = _of_site(predictor, rows, rng)
        parts.append(table.assign(site=site))
        groups.append(calibration.assign(site=site))
    return PredictiveCheck(_check_table(pd.concat(parts)), pd.concat(groups, ignore_index=True))


def _check_table(found: pd.DataFrame) -> AnswerTable:
    """The statistics of all sites, in the order of columns that is printed."""
    names = [
        f"{site}: {statistic}" for statistic, site in zip(found.index, found["site"], strict=True)
    ]
    columns = ["observed", "mean", "sd", "5%", "95%", "tail_probability"]
    both = found.assign(statistic=found.index)[["site", "statistic", *columns]]
    table = CheckTable(both.set_axis(names))
    table.attrs[ROW_HEADING] = "site and statistic"
    return table


def _of_site(
    predictor: Predictor, rows: Rows, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The statistics of one site, and its calibration."""
    statistics = _statistics(predictor.model.family.name, rows)
    groups = _Groups.of(predictor, rows)
    found: dict[str, list[np.ndarray]] = {name: [] for name in statistics}
    shares: list[np.ndarray] = []
    for simulated in _simulations(predictor, rows, rng):
        for name, statistic in statistics.items():
            found[name].append(statistic(simulated))
        shares.append(groups.shares(simulated["y"]))
    table = pd.DataFrame(
        {
            name: _compared(float(statistic(_observed(rows))[0]), np.concatenate(found[name]))
            for name, statistic in statistics.items()
        }
    ).T
    return table, groups.compared(np.concatenate(shares))


def _observed(rows: Rows) -> dict[str, np.ndarray]:
    """The outcomes of a site, as one simulation."""
    return {name: np.asarray(rows[name], float)[None] for name in ("y", "event") if name in rows}


def _simulations(
    predictor: Predictor, rows: Rows, rng: np.random.Generator
) -> Iterator[dict[str, np.ndarray]]:
    """Outcomes of all rows, some draws at a time, each column (draw, row)."""
    size = max(1, BLOCK_NUMBERS // count_rows(rows))
    observed = {name: np.asarray(rows[name], float) for name in ("y", "event") if name in rows}
    watching = Watching.of(observed["y"], observed["event"]) if "event" in rows else None
    for first in range(0, predictor.num_draws, size):
        y = predictor.part(slice(first, first + size)).outcomes_at(rows, rng)
        if watching is None:
            yield {"y": y}
        else:
            until = watching.draw(rng, len(y))
            yield {"y": np.minimum(y, until), "event": (y <= until).astype(float)}


def _statistics(family: str, rows: Rows) -> Statistics:
    """The statistics that say something of the outcomes of a family."""
    if family == "logistic":
        return {"share of ones": lambda s: s["y"].mean(axis=-1)}
    found: Statistics = {}
    if "event" in rows:
        found["share with the event"] = lambda s: s["event"].mean(axis=-1)
    found |= {"mean": lambda s: s["y"].mean(axis=-1), "sd": lambda s: s["y"].std(axis=-1)}
    if family in COUNTS:
        found["share of zeros"] = lambda s: (s["y"] == 0).mean(axis=-1)
    if count_rows(rows) >= MIN_ROWS_FOR_QUANTILES and family not in (*COUNTS, "ordinal"):
        found |= {name: _quantile(level) for name, level in QUANTILES.items()}
    return found


def _quantile(level: float) -> Callable[[Mapping[str, np.ndarray]], np.ndarray]:
    return lambda simulated: np.quantile(simulated["y"], level, axis=-1)


def _compared(observed: float, simulated: np.ndarray) -> dict[str, float]:
    """A statistic of the outcomes beside that of the simulated ones."""
    above, below = (simulated >= observed).mean(), (simulated <= observed).mean()
    low, high = np.quantile(simulated, (0.05, 0.95))
    return {
        "observed": observed,
        "mean": simulated.mean(),
        "sd": simulated.std(),
        "5%": low,
        "95%": high,
        "tail_probability": min(1.0, 2 * min(above, below)),  # (1)
    }


@dataclass(frozen=True)
class _Groups:
    """Rows of a site with about the same expected probability."""

    rows: list[np.ndarray]
    """The numbers of the rows of each group, in the order of their probabilities."""
    expected: np.ndarray
    """The expected share of ones of each group."""
    y: np.ndarray
    trials: np.ndarray

    @classmethod
    def of(cls, predictor: Predictor, rows: Rows) -> _Groups:
        """The groups of a site: none, if outcomes are not binary or rows too few."""
        y = np.asarray(rows["y"], float)
        trials = np.asarray(rows.get("trials", np.ones(len(y))), float)
        if predictor.model.family.name not in BINARY or len(y) < 2 * GROUP_ROWS:
            return cls([], np.empty(0), y, trials)
        expected = predictor.expected_at(rows) / np.maximum(trials, 1)
        order = np.argsort(expected, kind="stable")
        groups = np.array_split(order, min(MOST_GROUPS, len(y) // GROUP_ROWS))
        means = [(expected * trials)[g].sum() / trials[g].sum() for g in groups]
        return cls(groups, np.array(means), y, trials)

    def shares(self, y: np.ndarray) -> np.ndarray:
        """The share of ones of each group, (draw, group)."""
        found = [y[..., g].sum(axis=-1) / self.trials[g].sum() for g in self.rows]
        return np.stack(found, axis=-1) if found else np.empty((len(y), 0))

    def compared(self, shares: np.ndarray) -> pd.DataFrame:
        """The observed shares beside the simulated ones."""
        low, high = np.quantile(shares, (0.05, 0.95), axis=0)
        columns: dict[str, Any] = {"expected": self.expected, "low": low, "high": high}
        columns["observed"] = self.shares(self.y[None])[0]
        columns["rows"] = [len(group) for group in self.rows]
        return pd.DataFrame(columns)
