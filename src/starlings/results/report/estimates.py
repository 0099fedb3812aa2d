"""The forest plot: every coefficient, by the network and by each site alone, with its numbers.

Medians and intervals of 95 % are those of the draws. Ratios are exponentials of them: the scale of
the picture is then logarithmic, so that 2 and 1/2 are as far from 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from markupsafe import Markup

from starlings.diagnostics.draws import all_entries, entry_blocks, shared, without_derived
from starlings.results.answers.model import COEFFICIENTS
from starlings.results.parameter_table import pooled_table
from starlings.results.report import svg
from starlings.results.report.axes import Axis
from starlings.results.report.labels import CURVE, TIMES, label_in_words, own_label
from starlings.results.report.question import RATIO_OF, Question
from starlings.results.report.units import PER, in_unit, units, with_unit
from starlings.results.text_table import with_meaningful_digits

QUANTILES = {"2.5%": 0.025, "50%": 0.5, "97.5%": 0.975}
"""The ends and the middle of an interval."""
MOST_ENTRIES = 20
"""Coefficients of the plot; of more, those that are most certain not to be zero."""
MOST_LANES = 12
"""Sites that have a line of their own for every coefficient; more are dots on one line."""
ALONE_REACH = 0.7
"""How far beyond the intervals of the network the axis goes for sites alone, in its length."""
LARGEST_RATIO = 40.0
"""Length of a common axis over the shortest interval, above which each has a scale of its own."""
MANY, FEW = 10_000.0, 0.001
"""Ratios beyond these are not written as numbers."""
INTERCEPTS = ("Intercept", "intercept")


@dataclass(frozen=True)
class Line:
    """One interval of the plot."""

    name: str
    picture: Markup
    numbers: str
    interval: str


@dataclass(frozen=True)
class Entry:
    """One coefficient."""

    name: str
    network: Line
    direction: str
    """Which way it goes and how certain that is, in words; empty where there is no zero."""
    alone: list[Line] = field(default_factory=list)
    many: Markup | None = None
    """The estimates of many sites alone, as dots."""
    spread: str = ""
    """The lowest and the highest of them, in words."""


@dataclass(frozen=True)
class Forest:
    """The plot, as lines of a table."""

    entries: list[Entry]
    axis: Markup | None
    """The axis of all entries; None if each has a scale of its own."""
    left_out: int
    """Entries that are in the complete table only, beside parts of curves."""
    curves: list[str]
    """Columns that enter as curves."""
    ratio: str | None
    sites_alone: list[str]
    failed: list[str]
    """Sites that alone have no answer."""

    @property
    def has_products(self) -> bool:
        """Whether the effect of a covariate depends on another one."""
        return any(TIMES in entry.name for entry in self.entries)

    @property
    def has_units(self) -> bool:
        """Whether a coefficient is for a change by more than one."""
        return any(PER in entry.name for entry in self.entries)

    @property
    def has_lanes(self) -> bool:
        """Whether every site has a line of its own."""
        return 0 < len(self.sites_alone) <= MOST_LANES


def forest(question: Question, posterior: xr.Dataset, alone: pd.DataFrame | None) -> Forest:
    """Return the plot of a result.

    Args:
        question: what was asked.
        posterior: the draws.
        alone: the estimates of every site alone; None if there are none.
    """
    shown = _shown(question, posterior)
    table = pooled_table(shown, QUANTILES)
    table["positive"] = _share_above_zero(shown)
    table = table[~table.index.isin([f"{COEFFICIENTS}[{name}]" for name in INTERCEPTS])]
    table, curves = _without_curves(table)
    chosen = _chosen(table)
    known, failed = _by_entry(alone)
    unit = units(chosen) if question.is_regression else dict.fromkeys(chosen.index, 1)
    parts = [in_unit(chosen.loc[[name]], unit[name]) for name in chosen.index]
    chosen = pd.concat(parts) if parts else chosen
    known = {name: in_unit(own, unit.get(name, 1)) for name, own in known.items()}
    plot = _Plot(question, chosen, known, unit)
    entries = [plot.entry(name) for name in chosen.index]
    sites = [] if alone is None else list(dict.fromkeys(alone["site"][alone["entry"] != ""]))
    axis = None if plot.has_own_scales else svg.axis_lane(plot.axis_of(None))
    left_out = len(table) - len(chosen)
    return Forest(entries, axis, left_out, curves, question.ratio, sites, failed)


def _shown(question: Question, posterior: xr.Dataset) -> xr.Dataset:
    """The coefficients of a regression, or else all parameters."""
    if question.is_regression:
        return posterior[[COEFFICIENTS]]
    return without_derived(shared(posterior), ())


def _share_above_zero(posterior: xr.Dataset) -> np.ndarray:
    blocks = [(v.reshape(-1, v.shape[-1]) > 0).mean(axis=0) for v in entry_blocks(posterior)]
    found = np.concatenate(blocks)
    assert len(found) == len(all_entries(posterior))
    return found


def _without_curves(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The entries that mean something one by one, and the columns that the others are of."""
    found = {name: CURVE.match(own_label(str(name))) for name in table.index}
    columns = [match["column"].strip() for match in found.values() if match]
    kept = table[[found[name] is None for name in table.index]]
    return (kept, list(dict.fromkeys(columns))) if len(kept) else (table, [])


def _chosen(table: pd.DataFrame) -> pd.DataFrame:
    """The entries that are shown, in their order."""
    if len(table) <= MOST_ENTRIES:
        return table
    spread = table["sd"].replace(0.0, np.inf)
    certain = (table["50%"].abs() / spread).rank(ascending=False, method="first")
    return table[certain <= MOST_ENTRIES]


def _by_entry(alone: pd.DataFrame | None) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """The estimates of the sites by entry, and the sites that have none."""
    if alone is None:
        return {}, []
    failed = alone["site"][alone["entry"] == ""].tolist()
    known = alone[alone["entry"] != ""]
    return {str(entry): own.set_index("site") for entry, own in known.groupby("entry")}, failed


@dataclass(frozen=True)
class _Plot:
    question: Question
    table: pd.DataFrame
    alone: Mapping[str, pd.DataFrame]
    unit: Mapping[str, int]

    @property
    def is_ratio(self) -> bool:
        return self.question.ratio is not None

    @property
    def reference(self) -> float | None:
        """Where nothing changes; nothing is known of it but for regressions."""
        return 0.0 if self.question.is_regression else None

    @property
    def has_own_scales(self) -> bool:
        """Whether entries are too different for one axis, or have different units."""
        widths = self.table["97.5%"] - self.table["2.5%"]
        values = self._ends(list(self.table.index))
        return bool(np.ptp(values) > LARGEST_RATIO * widths.min())

    def _ends(self, names: list[str]) -> np.ndarray:
        """The ends of the intervals of the network, and where nothing changes."""
        values = self.table.loc[names, ["2.5%", "97.5%"]].to_numpy().ravel()
        return values if self.reference is None else np.append(values, self.reference)

    def axis_of(self, entry: str | None) -> Axis:
        """The axis of one entry, or of all for None."""
        names = list(self.table.index) if entry is None else [entry]
        values = self._ends(names)
        low, high = np.nanmin(values), np.nanmax(values)
        reach = ALONE_REACH * (high - low) / 2
        parts = [
            own[["2.5%", "97.5%"]].to_numpy().ravel() for n, own in self.alone.items() if n in names
        ]
        others = np.clip(np.concatenate(parts), low - reach, high + reach) if parts else values
        ends = np.concatenate([values, others])
        if entry is not None and self.reference is not None:  # zero in the middle
            ends = np.append(ends, -ends)
        return Axis.around(ends, self.is_ratio)

    def entry(self, name: str) -> Entry:
        """One entry with all of its lines."""
        row: Any = self.table.loc[name]
        axis = self.axis_of(name if self.has_own_scales else None)
        others = self.alone.get(name)
        line = self._line("All sites together", axis, row, "network")
        title, direction = self._title(name), self._direction(row["positive"])
        if others is None:
            return Entry(title, line, direction)
        if len(others) <= MOST_LANES:
            lines = [self._line(str(s), axis, own, "alone") for s, own in others.iterrows()]
            return Entry(title, line, direction, lines)
        middles = others["50%"].to_numpy()
        picture = svg.dots(axis, middles.tolist(), self.reference)
        ends = numbers_in_words(_range(middles), float(np.nanstd(middles)), self.is_ratio)
        return Entry(title, line, direction, [], picture, " to ".join(ends))

    def _line(self, name: str, axis: Axis, row: Any, kind: str) -> Line:
        low, middle, high = (float(row[column]) for column in QUANTILES)
        picture = svg.lane(axis, (low, middle, high), kind, self.reference)
        if not math.isfinite(middle):
            return Line(name, picture, "–", "no estimate")
        texts = numbers_in_words([middle, low, high], float(row["sd"]), self.is_ratio)
        return Line(name, picture, texts[0], f"{texts[1]} to {texts[2]}")

    def _title(self, name: str) -> str:
        if not self.question.is_regression:
            return name
        label = label_in_words(own_label(name), self.question.levels)
        return with_unit(label, self.unit[name])

    def _direction(self, positive: float) -> str:
        """Which way it goes, with its probability."""
        if self.reference is None:
            return ""
        what = RATIO_OF.get(self.question.ratio or "", "")
        is_up = positive >= 0.5
        certain = positive if is_up else 1 - positive
        words = ("longer" if is_up else "shorter") if what == "time" else _word(is_up)
        number = "over 99.9" if certain > 0.999 else f"{100 * certain:.3g}"
        text = f"{words} {what}".strip() + f" (probability {number}\u00a0%)"
        return text if certain >= 0.975 else f"unclear: {text}"


def numbers_in_words(values: list[float], spread: float, is_ratio: bool) -> list[str]:
    """Numbers, or ratios, with the decimals that mean something.

    Args:
        values: the numbers; the logarithms of ratios. The first one is typical of them.
        spread: their standard deviation.
        is_ratio: whether they are the logarithms of what is to be written.
    """
    if not is_ratio:
        return [with_meaningful_digits(v, 3 * spread).replace("-", "−") for v in values]
    ratio = math.exp(min(max(values[0], -700.0), 700.0))
    decimals = 1 - math.floor(math.log10(max(ratio * spread, 1e-9)))
    return [_ratio(value, max(2, min(4, decimals))) for value in values]


def _ratio(log_ratio: float, decimals: int) -> str:
    """A ratio with fewer decimals the larger it is; words for what is far from 1."""
    if log_ratio > math.log(MANY):
        return f"over {MANY:,.0f}"
    if log_ratio < math.log(FEW):
        return f"under {FEW:g}"
    ratio = math.exp(log_ratio)
    fewer = max(0, math.floor(math.log10(ratio)))
    return f"{ratio:,.{max(0, decimals - fewer)}f}"


def _word(is_up: bool) -> str:
    return "higher" if is_up else "lower"


def _range(values: np.ndarray) -> list[float]:
    return [float(np.nanmin(values)), float(np.nanmax(values))]
