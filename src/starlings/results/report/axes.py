"""Axes: where a value is in a picture, and at which round numbers there are ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

LOG_STEPS = (1.0, 2.0, 5.0)
"""Round numbers of a decade, at which a logarithmic axis has ticks."""
MOST_TICKS = 7
"""Ticks of an axis, at most."""
EDGE = 0.03
"""Part of the axis at each end without ticks, whose labels would not fit."""


@dataclass(frozen=True)
class Axis:
    """A range of values, on a scale that is linear in what it shows."""

    low: float
    """The value at the left end, on the scale: the logarithm, for a logarithmic axis."""
    high: float
    """The value at the right end, on the scale."""
    is_log: bool = False
    """Whether the labels are exponentials of the values."""

    @classmethod
    def around(cls, values: np.ndarray, is_log: bool = False, margin: float = 0.06) -> Axis:
        """An axis that has some values, with a margin as a part of its length."""
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if known.size else (-1.0, 1.0)
        span = high - low or abs(high) or 1.0
        return cls(low - margin * span, high + margin * span, is_log)

    def place(self, value: float) -> float:
        """Where a value is: 0 at the left end, 1 at the right end."""
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Places between 0 and 1, and the labels there, which do not overlap."""
        values = self._log_ticks() if self.is_log else _linear_ticks(self.low, self.high)
        placed = [(self.place(math.log(v) if self.is_log else v), f"{v:,.7g}") for v in values]
        inside = [(place, label) for place, label in placed if EDGE < place < 1 - EDGE]
        return inside[:: max(1, -(-len(inside) // MOST_TICKS))]

    def _log_ticks(self) -> list[float]:
        """Round numbers of a logarithmic axis, 1 among them; linear ones, if it is short."""
        low, high = math.exp(max(self.low, -700)), math.exp(min(self.high, 700))
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        inside = [s * 10.0**d for d in decades for s in LOG_STEPS if low <= s * 10.0**d <= high]
        if len(inside) < 3:
            return [value for value in _linear_ticks(low, high) if value > 0]
        if len(inside) <= MOST_TICKS:
            return inside
        powers = [10.0**d for d in decades if low <= 10.0**d <= high]
        step = -(-len(powers) // MOST_TICKS)
        return powers[powers.index(1.0) % step :: step] if 1.0 in powers else powers[::step]


def _linear_ticks(low: float, high: float) -> list[float]:
    """Between three and seven round numbers."""
    rough = (high - low) / 7
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * s for s in (1, 2, 5, 10) if size * s >= rough)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [round((first + k) * step, 12) for k in range(count)]
