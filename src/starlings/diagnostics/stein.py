"""Is the law right? Stein's identities, which need no reference draws and no coordinator.

Integration by parts: for draws z of the law proportional to exp(-F), a unit vector v, the entry
y = v'(z - c) of z in its direction, and any smooth function h that does not outgrow the density,

    E[h(y) v'grad F(z) - h'(y)] = 0                                                         (1)

With the summed gradient G_m = sum_j grad f_j(z_m) at the draws m of one agent, g = v'G, and
w = exp(-y^2 / 8 var y), four such functions give numbers with mean zero if the law is right:

    u_1 = g,   u_2 = y g - 1,   u_3 = w g - w',   u_4 = y w g - (y w)'                      (2)

The last two count little where draws are far out, so that steep gradients there cannot drown the
others. What is wrong with y follows by regression (Mira, Solgi and Imparato 2013, who remove noise
that way): with a and b the coefficients of the least squares fits of y and of y^2 by u,

    shift   = a'mean(u) / s,      the mean of the draws less the right one, in sd           (3)
    stretch = var y / s^2,        their variance over the right one                         (4)
    s^2     = var y - b'mean(u) - (a'mean(u))^2

For a Gaussian posterior in coordinates of unit curvature y = g and y^2 = u_2 + 1, so that (3) and
(4) are exact; for others they are as good as the fits. There is one v for each coordinate x_j of
the model: with x = c + L z, v is row j of L, over its length.

Standard errors follow from the autocorrelations r_t of the series that (3) and (4) average, over
all chains: with V their variance, n their number and tau = 2 sum_t r_t - 1, summed in pairs while
the pairs are positive and falling, and at least 1,

    error = sqrt(V tau / n)                                                                 (5)

A departure counts if it is beyond both a practical limit and `sigmas` errors: four, or more where
so many numbers are looked at that four would happen by chance; and twice that where the errors are
so large that they are not well known themselves.

The identities do not see everything: not a mode that no chain has been to, nor a wrong correlation
of two coordinates, nor a wrong shape that keeps (2). A fit that explains a share R^2 of the
variance of y, or of y^2, sees that share of an error. Where that leaves too much unseen, or there
are few effective draws, the answer is "undecided".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

MAX_SHIFT = 0.1
"""Largest error of a mean that does not matter in practice, in posterior sd."""
MAX_STRETCH = 0.1
"""Largest relative error of a variance that does not matter in practice."""
UNDECIDED_ERROR = 0.5
"""Departure, in the units of `MAX_SHIFT` and `MAX_STRETCH`: if a larger one could be chance, the
identities decide nothing."""
MIN_VARIANCE_RATIO = 0.01
"""Lower bound of the right variance that (4) estimates, over the variance of the draws."""
MIN_DRAWS_FOR_ERROR = 4
"""Draws of a chain below which standard errors are unknown."""
MIN_CHAINS_FOR_ERROR = 16
"""Chains from which on their means give an error, however few draws each of them has."""
TINY = np.finfo(float).tiny
"""The smallest normal number, which keeps denominators positive."""


class Departure(NamedTuple):
    """A number that should be zero, where it was found, and its standard error."""

    agent: str
    coordinate: str
    value: float
    error: float


@dataclass(frozen=True)
class Stein:
    """Equations (3) and (4) of some agents, with errors; arrays are (agent, coordinate)."""

    agents: list[str]
    coordinates: list[str]
    draws: int
    """Number of draws of each agent that were used, over all chains."""
    shift: np.ndarray
    shift_error: np.ndarray
    shift_seen: np.ndarray
    """Share R^2 of the variance of y that the identities explain."""
    stretch: np.ndarray
    stretch_error: np.ndarray
    stretch_seen: np.ndarray
    """Share R^2 of the variance of y^2 that the identities explain."""
    rounds: int
    """Rounds of messages that the sums over the network took."""
    messages: int
    """Messages sent by all agents together."""
    floats: int
    """Numbers in those messages."""
    kinds: dict[str, int] = field(default_factory=dict)
    """Numbers of its own that each agent sent or put into sums, by what they are."""
    senders: dict[str, list[str]] = field(default_factory=dict)
    """The names of the agents that sent numbers of a kind, where not all did."""

    @property
    def sigmas(self) -> float:
        """Number of standard errors that a departure must exceed to count."""
        return max(4.0, float(-ndtri(0.005 / (2 * self.shift.size))))

    @property
    def worst_shift(self) -> Departure:
        """The largest error of a mean, in posterior sd; if some are beyond chance, of those."""
        return self._worst(self.shift, self.shift_error, MAX_SHIFT)

    @property
    def worst_stretch(self) -> Departure:
        """The largest relative error of a variance; if some are beyond chance, of those."""
        return self._worst(self.stretch - 1, self.stretch_error, MAX_STRETCH)

    @property
    def resolution(self) -> tuple[float, float]:
        """Errors of a mean and of a variance that the identities would detect at any coordinate."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shift, stretch = (
                self.shift_error / self.shift_seen,
                self.stretch_error / self.stretch_seen,
            )
        return self.sigmas * shift.max(), self.sigmas * stretch.max()

    @property
    def violations(self) -> list[str]:
        """Sentences that say what is wrong with the law; empty if nothing is known to be wrong."""
        shift, stretch = self.worst_shift, self.worst_stretch
        found = []
        if self._is_beyond(shift.value, shift.error, MAX_SHIFT):
            found.append(
                f"the mean of {shift.coordinate} at agent {shift.agent} is off by about "
                f"{abs(shift.value):.2g} sd (standard error {shift.error:.1g})"
            )
        if self._is_beyond(stretch.value, stretch.error, MAX_STRETCH):
            ratio = np.sqrt(max(0.0, 1 + stretch.value))
            found.append(
                f"the sd of {stretch.coordinate} at agent {stretch.agent} is about {ratio:.2f} "
                "times what it should be (standard error "
                f"{stretch.error / (2 * max(ratio, 0.01)):.1g})"
            )
        return found

    @property
    def undecided(self) -> bool:
        """Whether no violation was found only because the standard errors are too large."""
        return not self.violations and not np.max(self.resolution) <= UNDECIDED_ERROR

    def __str__(self) -> str:
        if self.violations:
            return "Stein's identities fail"
        mean, variance = self.resolution
        if not np.isfinite(mean + variance):
            return "undecided by Stein's identities (too few draws, or infinite gradients)"
        if self.undecided:
            return (
                f"undecided by Stein's identities (errors of {mean:.2f} sd in a mean or "
                f"{variance / 2:.0%} in an sd could hide)"
            )
        return (
            f"Stein's identities hold (an error of {mean:.2f} sd in a mean or {variance / 2:.0%} "
            "in an sd would show)"
        )

    def record(self) -> dict[str, Any]:
        """Return all fields as JSON can represent them."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(self).items()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Stein:
        """Create the object from what `record` returned."""
        fields = {k: np.array(v) for k, v in record.items() if k.startswith(("shift", "stretch"))}
        return cls(**{**record, **fields})

    def _is_beyond(self, value: Any, error: Any, limit: float) -> Any:
        chance = self.sigmas * np.asarray(error)
        chance = np.where(chance <= UNDECIDED_ERROR, chance, 2 * chance)
        return (np.abs(value) > limit) & (np.abs(value) > chance)

    def _worst(self, values: np.ndarray, errors: np.ndarray, limit: float) -> Departure:
        size = np.nan_to_num(np.abs(values))
        beyond = self._is_beyond(values, errors, limit)
        candidates = np.where(beyond, size, 0.0) if beyond.any() else size
        i, k = np.unravel_index(candidates.argmax(), candidates.shape)
        here = (self.agents[i], self.coordinates[k])
        return Departure(*here, float(values[i, k]), float(errors[i, k]))


class Found(NamedTuple):
    """A shift or a stretch, its standard error, and the share R^2 that the identities explain."""

    value: float
    error: float
    seen: float


def departures(y: np.ndarray, g: np.ndarray) -> tuple[Found, Found]:
    """Compute (3) and (4) for draws y (chain, draw) in one direction with gradients g."""
    y = y - y.mean()
    u, variance = zero_means(y, g), y.var()
    if not has_errors(*y.shape) or not np.all(np.isfinite(g)):
        return Found(0.0, np.nan, 0.0), Found(1.0, np.nan, 0.0)
    if not variance > TINY:  # draws that do not vary: their variance is zero, whatever is right
        return Found(0.0, np.nan, 0.0), Found(0.0, 0.0, 1.0)
    mean, square = explained(y, u), explained(y**2, u)
    right = max(variance - square.value - mean.value**2, MIN_VARIANCE_RATIO * variance)
    unit = np.sqrt(right)
    shift = Found(mean.value / unit, mean.error / unit, mean.seen)  # (3)
    return shift, Found(variance / right, square.error / right, square.seen)  # (4)


def has_errors(chains: int, draws: int) -> bool:
    """Return whether Monte Carlo errors are known of so many chains of so many draws."""
    return draws >= MIN_DRAWS_FOR_ERROR or chains >= MIN_CHAINS_FOR_ERROR


def zero_means(y: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Compute (2), with shape (chain, draw, 4)."""
    spread = max(4 * y.var(), TINY)
    with np.errstate(over="ignore", invalid="ignore"):
        w = np.exp(-(y**2) / (2 * spread))
        slope = -y * w / spread
        return np.stack([g, y * g - 1, w * g - slope, y * w * g - (w + y * slope)], axis=-1)


def explained(target: np.ndarray, u: np.ndarray) -> Found:
    """Fit a target (chain, draw) by u; return the mean of the fit, its error, and R^2."""
    unit = np.maximum(u.std(axis=(0, 1)), TINY)
    scaled = ((u - u.mean(axis=(0, 1))) / unit).reshape(-1, u.shape[-1])
    centred = target.ravel() - target.mean()
    coefficients = np.linalg.lstsq(scaled, centred, rcond=1e-10)[0]
    fit = u @ (coefficients / unit)
    mean, error = mean_and_error(fit[..., None])
    return Found(float(mean[0]), float(error[0]), float(fit.var() / max(centred.var(), TINY)))


def mean_and_error(series: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over (chain, draw) of series (..., chain, draw, entry) and its error (5).

    With fewer than `MIN_DRAWS_FOR_ERROR` draws a chain the error comes from the spread of the
    chains' means, and is NaN if there are fewer than `MIN_CHAINS_FOR_ERROR` of them.
    """
    chains, draws = series.shape[-3:-1]
    means = series.mean(axis=-2)
    mean = means.mean(axis=-2)
    if not has_errors(chains, draws):
        return mean, np.full_like(mean, np.nan)
    if draws < MIN_DRAWS_FOR_ERROR:
        return mean, means.std(axis=-2, ddof=1) / np.sqrt(chains)
    spectrum = np.fft.rfft(series - means[..., None, :], 2 * draws, axis=-2)
    within = np.fft.irfft(np.abs(spectrum) ** 2, axis=-2)[..., :draws, :].mean(-3) / draws
    between = means.var(axis=-2, ddof=1) if chains > 1 else np.zeros_like(mean)
    covariance = within + between[..., None, :]
    variance = covariance[..., 0, :]
    pairs = covariance[..., : draws // 2 * 2 : 2, :] + covariance[..., 1::2, :]
    falling = np.maximum(np.minimum.accumulate(pairs, axis=-2), 0.0)
    long_run = np.maximum(2 * falling.sum(axis=-2) - variance, variance)
    return mean, np.sqrt(long_run / (chains * draws))  # (5)
