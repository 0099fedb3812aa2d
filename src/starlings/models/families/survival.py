"""Families of times until an event, of which some are only known to be longer (right-censored).

The column `y` is the time and `event` is 1 if the event happened then, and 0 if the row was last
seen without it. With the hazard h(t) and the cumulative hazard H(t) = int_0^t h, a row has

    log-likelihood = event log h(y) - H(y)                                                  (1)

    Weibull                 H(t) = (t / exp(eta))^shape                                     (2)
    PiecewiseExponential    h(t) = exp(log_hazard_k + eta)   for t in the interval k        (3)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gamma

from starlings.models.families._extremes import bounded_exp
from starlings.models.families.checks import check_times
from starlings.models.families.family import Columns, Family, outcome
from starlings.problem.parameters import Parameter


class _Survival(Family):
    """What all families of times share."""

    row_columns = ("event",)

    def _check(self, columns: Mapping[str, np.ndarray], called: Mapping[str, str]) -> None:
        check_times(columns, called)

    def simulated(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: Any, columns: Columns
    ) -> dict[str, np.ndarray]:
        """Times and events of rows that are watched as long as the observed ones were.

        The observed time of a row, with its event or without, is where watching ends.
        """
        times, end = self.draw(rng, p, eta, columns), np.asarray(columns["y"], float)
        return {"y": np.minimum(times, end), "event": (times <= end).astype(float)}


@dataclass(frozen=True)
class Weibull(_Survival):
    """Weibull times with accelerated failure, eq. (2), and the parameter `shape`.

    P(T > t) = exp(-(t / exp(eta))^shape). exp of a coefficient is a time ratio: 2 doubles all
    quantiles of the time. The hazards are proportional too, with exp(-shape coefficient) as hazard
    ratio. The hazard grows with time if `shape` is above 1. `mean` and `draw` are of whole times,
    as if nobody were censored.
    """

    name = "weibull"
    title = "Weibull (accelerated failure times)"
    link = "eta is the logarithm of the time that exp(-1), or 37 %, survive"
    ratio = "time ratio"

    def parameters(self) -> dict[str, Parameter]:
        """`shape`."""
        return {"shape": Parameter((), "positive")}

    def default_priors(self, outcome_mean: float, outcome_scale: float) -> dict[str, str]:
        """Hazards that fall, stay or grow."""
        return {"shape": "half_student_t(3, 2)"}

    def predictor_centre(self, outcome_mean: float) -> float:
        """The logarithm of the mean of the times, censored or not."""
        return float(np.log(outcome_mean))

    def log_density(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """Eq. (1): event (log shape - log y + s) - exp(s) with s = shape (log y - eta)."""
        log_time, event = jnp.log(outcome(row, eta)), outcome(row, eta, "event")
        log_cumulative = p["shape"] * (log_time - eta)  # log of (2)
        log_hazard = jnp.log(p["shape"]) - log_time + log_cumulative
        return event * log_hazard - bounded_exp(log_cumulative)  # (1)

    def _mean(self, p: Mapping[str, Any], eta: np.ndarray, columns: Columns) -> np.ndarray:
        return np.exp(eta) * gamma(1 + 1 / p["shape"])

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        return np.exp(eta) * rng.weibull(np.broadcast_to(p["shape"], eta.shape))


@dataclass(frozen=True)
class PiecewiseExponential(_Survival):
    """Proportional hazards with a baseline in steps, eq. (3), like Cox's model.

    The cut points 0 < c_1 < ... < c_{K-1} make K intervals (0, c_1], (c_1, c_2], ..., the last one
    without end. The parameters `log_hazard` are the logarithms of the hazard where eta = 0, per
    unit of time. They are the intercept, so that `x` has none. exp of a coefficient is a hazard
    ratio. Where y is in the interval j, and e_k is the time that the row was watched in interval k,

        log-likelihood = event (log_hazard_j + eta) - sum_k e_k exp(log_hazard_k + eta)     (4)

    `mean` and `draw` are of whole times, as if nobody were censored.
    """

    name = "piecewise_exponential"
    title = "piecewise exponential (proportional hazards)"
    link = "eta is the logarithm of the hazard against that of the baseline"
    ratio = "hazard ratio"
    intercepts = MappingProxyType({"log_hazard": 1.0})
    cuts: tuple[float, ...]
    """The cut points between intervals, ascending, in units of the time; () for one interval."""

    def __post_init__(self) -> None:
        try:
            cuts = tuple(float(cut) for cut in self.cuts)
        except (TypeError, ValueError):
            raise ValueError(f"`cuts` must be a list of times, got {self.cuts!r}.") from None
        if not np.all(np.isfinite(cuts)) or not np.all(np.diff((0.0, *cuts)) > 0):
            raise ValueError(f"`cuts` must be positive times in ascending order, got {cuts}.")
        object.__setattr__(self, "cuts", cuts)

    @property
    def intervals(self) -> tuple[str, ...]:
        """The intervals in words, such as "0 to 30" and "after 30"."""
        starts = (0.0, *self.cuts)
        bounded = [f"{a:g} to {b:g}" for a, b in zip(starts, self.cuts, strict=False)]
        return (*bounded, f"after {starts[-1]:g}")

    def parameters(self) -> dict[str, Parameter]:
        """`log_hazard`, one for each interval."""
        return {"log_hazard": Parameter((len(self.intervals),), labels=self.intervals)}

    def default_priors(self, outcome_mean: float, outcome_scale: float) -> dict[str, str]:
        """Around one event in the mean time, within a factor of 12 or, rarely, 150."""
        return {"log_hazard": f"normal({-np.log(outcome_mean):.3g}, 2.5)"}

    def log_density(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """Eq. (4)."""
        time, event = outcome(row, eta)[..., None], outcome(row, eta, "event")
        starts, widths = self._starts(eta.dtype), self._widths(eta.dtype)
        watched = jnp.clip(time - starts, 0, widths)
        is_in = (time > starts) & (time <= starts + widths)
        log_hazard = p["log_hazard"] + eta[..., None]
        total = jnp.sum(watched * bounded_exp(log_hazard), -1)
        return event * jnp.sum(jnp.where(is_in, log_hazard, 0), -1) - total  # (4)

    def _starts(self, dtype: Any = float) -> np.ndarray:
        """Where each interval begins."""
        return np.array((0.0, *self.cuts), dtype)

    def _widths(self, dtype: Any = float) -> np.ndarray:
        """The length of each interval, infinite for the last one."""
        starts = self._starts(dtype)
        return np.append(np.diff(starts), np.asarray(np.inf, dtype))

    def _mean(self, p: Mapping[str, Any], eta: np.ndarray, columns: Columns) -> np.ndarray:
        """sum_k exp(-H(start of k)) (1 - exp(-h_k width_k)) / h_k."""
        hazard = np.exp(p["log_hazard"])
        mean, cumulative = np.zeros(eta.shape), np.zeros(eta.shape)
        for k, width in enumerate(self._widths()):
            own = hazard[..., k] * np.exp(eta)
            mean += np.exp(-cumulative) * -np.expm1(-own * width) / own
            cumulative += own * width
        return mean

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        """The time at which the cumulative hazard is a number drawn from Exponential(1)."""
        hazard, left = np.exp(p["log_hazard"]), rng.exponential(size=eta.shape)
        time = np.zeros(eta.shape)
        for k, width in enumerate(self._widths()):
            own = hazard[..., k] * np.exp(eta)
            spent = np.minimum(left / own, width)
            time += spent
            left = np.maximum(left - own * width, 0)
        return time
