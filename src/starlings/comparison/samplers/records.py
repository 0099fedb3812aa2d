"""The rows of a comparison's tables, one outcome after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from starlings.comparison.samplers.choosing import Judged
from starlings.comparison.samplers.costs import COSTS, costs
from starlings.comparison.samplers.judging import Judge, Outcome
from starlings.comparison.samplers.measures import MEASURES
from starlings.comparison.samplers.named import Named
from starlings.comparison.samplers.places import AS_GIVEN, place_name
from starlings.samplers import Sampler

KEYS = ("sampler", "setting")
"""The columns by which the rows of all tables belong together."""
ABOUT = ("title", "family", "network", "settings", "by")
"""Columns of the table that say what was run: `by` is "law" or "simulation"."""
EFFORT = ("tried", "relaxation", "spent_rounds", "seconds_per_round", "compile_seconds")
"""Columns of the table: candidates that were tried, rounds in which the slowest mode shrinks by a
factor e, rounds that tuning took, and seconds of all chains together."""
TABLE = (*KEYS, *ABOUT, *MEASURES, *COSTS, *EFFORT, "bias", "reason")
"""The columns of the table; costs are those to the target."""
CURVES = (*KEYS, "source", *COSTS, *MEASURES, "error")
"""The columns of the curves; `error` is the Monte Carlo error of the worst agent's distance."""
CANDIDATES = (*KEYS, "settings", *MEASURES, "round", "relaxation", "reason")
"""The columns of the candidates."""
TEXT = {*KEYS, *ABOUT, "source", "bias", "reason"}
"""The columns that are text; the others are numbers."""


class Records:
    """The rows of all tables so far."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._rows: list[dict[str, Any]] = []
        self._curves: list[pd.DataFrame] = []
        self._candidates: list[dict[str, Any]] = []

    def add(self, outcome: Outcome) -> None:
        """Add what became of a trial."""
        trial, best = outcome.trial, outcome.choice.best
        keys: dict[str, Any] = {"sampler": trial.name, "setting": trial.setting}
        chains = outcome.simulated
        pace = np.nan if chains is None else chains.seconds_per_round
        reached = np.array([] if np.isnan(best.reached) else [best.reached], int)
        to_target: Any = costs(trial, outcome.sampler, reached, pace, chains).to_dict("records")
        row = {
            **keys,
            **_about(type(outcome.sampler), trial.place.name),
            "settings": settings_text(outcome.sampler),
            "by": "simulation" if outcome.exact is None else "law",
            **_distances(best),
            **(to_target[0] if to_target else {}),
            "tried": len(outcome.choice.tried),
            "relaxation": best.relaxation,
            "spent_rounds": trial.spent.rounds,
            "seconds_per_round": pace,
            "compile_seconds": np.nan if chains is None else chains.compile_seconds,
            "reason": best.reason,
        }
        self._rows.append(row)
        self._candidates += [
            {
                **keys,
                "settings": settings_text(each.sampler),
                **_distances(each),
                "round": each.reached,
                "relaxation": each.relaxation,
                "reason": each.reason,
            }
            for each in outcome.choice.tried
        ]
        self._curves += [curve.assign(**keys) for curve in self._curves_of(outcome, pace)]

    def fail(self, wanted: Named, setting: str, error: Exception) -> None:
        """Add a sampler that cannot be compared, with the reason."""
        self._rows.append(
            {
                "sampler": wanted.name,
                "setting": setting,
                **_about(wanted.kind, place_name(wanted.kind)),
                "reason": " ".join(str(error).split()),
            }
        )

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
        """The table, the curves and the candidates."""
        curves: Any = [row for curve in self._curves for row in curve.to_dict("records")]
        return (
            _frame(self._rows, TABLE),
            _frame(curves, CURVES),
            _frame(self._candidates, CANDIDATES),
        )

    def _curves_of(self, outcome: Outcome, pace: float) -> list[pd.DataFrame]:
        found = []
        law, chains = outcome.exact, outcome.simulated
        if law is not None:
            found.append(("law", law.rounds, law.distances, np.zeros(len(law.rounds))))
        if chains is not None and len(chains.rounds):
            found.append(("simulation", chains.rounds, chains.distances, chains.errors))
        return [
            costs(outcome.trial, outcome.sampler, rounds, pace, chains).assign(
                source=source, **dict(zip(MEASURES, distances.T, strict=True)), error=errors
            )
            for source, rounds, distances, errors in found
        ]


def family_of_sampler(kind: type[Sampler]) -> str:
    """The family of a class in figures: what it needs, or else what it does in a round."""
    if (place := place_name(kind)) != AS_GIVEN:
        return place
    if kind.step_field is not None:
        return "gradient steps"
    return "proximal steps" if "rho" in _fields(kind) else "other"


def _fields(kind: type[Sampler]) -> set[str]:
    return set(getattr(kind, "__dataclass_fields__", {}))


def settings_text(sampler: Sampler) -> str:
    """The settings in one line, numbers with four digits, without those that are None."""
    return ", ".join(
        f"{name}={_text(value)}" for name, value in sampler.settings().items() if value is not None
    )


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.4g}"
    return str(value)


def _about(kind: type[Sampler], place: str) -> dict[str, Any]:
    card = kind.card
    return {
        "title": card.title,
        "family": family_of_sampler(kind),
        "network": place,
        "bias": card.bias,
    }


def _distances(judged: Judged) -> dict[str, float]:
    return {n: v if np.isfinite(v) else np.nan for n, v in zip(MEASURES, judged.limit, strict=True)}


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    """A table with these columns, of texts and of numbers, which are finite or nan."""

    def column(name: str) -> pd.Series:
        if name in TEXT:
            return pd.Series([row.get(name, "") for row in rows], dtype=object)
        numbers = np.array([row.get(name, np.nan) for row in rows], dtype=float)
        return pd.Series(np.where(np.isfinite(numbers), numbers, np.nan))

    return pd.DataFrame({name: column(name) for name in columns})
