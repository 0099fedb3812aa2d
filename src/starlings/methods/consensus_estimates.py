"""Estimates and their errors from weighted particles in a sequence of ties.

Particles are weighted draws z of the laws with l_0 > l_1 > ... of `consensus_sequence`, with
weights W_i of sum one and integrals Z_k. Each descends from one of the first particles, its
ancestor, and those were independent. For a function h of z, with m = sum_i W_i h(z_i) in one l,

    p_a = sum over the particles i of ancestor a of W_i (h(z_i) - m)                        (1)

are the parts of its error, and sum_a p_a^2 estimates its variance (Lee, Whiteley 2018). After r
draws of n particles by their weights, with the sum S_a of the weights of one ancestor's,

    1 - (n / (n - 1))^(r + 1) (1 - sum_a S_a^2)                                             (2)

estimates the relative variance of Z_k / Z_0. Estimates in all l have the ancestors in common. Their
regression on l (`estimate_at_zero`) is linear, and what it makes of the parts are the parts of the
estimate at l = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from starlings.diagnostics.extrapolation import AtZero, estimate_at_zero
from starlings.network.ledger import Ledger

Function = Callable[[np.ndarray], np.ndarray]
"""What is estimated of positions z, (particle, dim) -> (particle, ...)."""


class Estimates(NamedTuple):
    """What is expected of a function of z, in every l of a sequence."""

    estimate: np.ndarray
    """m, (tie, ...)."""
    error: np.ndarray
    """Its standard error, (tie, ...)."""
    parts: np.ndarray
    """The parts of its error, eq. (1), (tie, ancestor, ...)."""


@dataclass(frozen=True, eq=False)
class ConsensusSequence:
    """Weighted particles in every l, as `starlings.consensus_sequence` returns them."""

    strengths: np.ndarray
    """l_0 > l_1 > ..., (tie,)."""
    positions: np.ndarray
    """z in unconstrained coordinates, (tie, particle, dim)."""
    weights: np.ndarray
    """W_i, (tie, particle)."""
    ancestors: np.ndarray
    """The number of the first particle from which each descends, (tie, particle)."""
    log_ratios: np.ndarray
    """The logarithms of Z_k / Z_0, (tie,)."""
    resampled: np.ndarray
    """Whether particles were drawn by their weights on the way to each l, (tie,)."""
    sent: Ledger
    """What hub and sites have sent."""

    @property
    def effective_numbers(self) -> np.ndarray:
        """1 / sum_i W_i^2, (tie,)."""
        return 1 / np.sum(self.weights**2, axis=1)

    @property
    def log_ratio_errors(self) -> np.ndarray:
        """The standard errors of `log_ratios`, eq. (2), (tie,)."""
        number, drawn = self.weights.shape[1], np.cumsum(self.resampled)
        pairs = zip(self.ancestors, self.weights, strict=True)
        shares = np.array([np.bincount(*pair, minlength=number) for pair in pairs])
        apart = 1 - np.sum(shares**2, axis=1)
        return np.sqrt(np.maximum(1 - (number / (number - 1)) ** (drawn + 1) * apart, 0))  # (2)

    @property
    def surviving(self) -> np.ndarray:
        """Ancestors with descendants, (tie,): errors are those of so few, and rough below 100."""
        return np.array([len(np.unique(each)) for each in self.ancestors])

    def estimates(self, function: Function = np.asarray) -> Estimates:
        """What is expected of a function of z, by default of z itself, with its error.

        Args:
            function: from positions (particle, dim), unconstrained, to (particle, ...).
        """
        values = np.array([function(z) for z in self.positions], float)
        weights = self.weights.reshape(*self.weights.shape, *[1] * (values.ndim - 2))
        means = np.sum(weights * values, axis=1)
        apart, parts = weights * (values - means[:, None]), np.zeros_like(values)
        for part, ancestor, own in zip(parts, self.ancestors, apart, strict=True):
            np.add.at(part, ancestor, own)  # (1)
        return Estimates(means, np.sqrt(np.sum(parts**2, axis=1)), parts)

    def at_zero(self, function: Function = np.asarray, largest: float = np.inf) -> AtZero:
        """The same at l = 0: in the posterior, but for a bias of second order in l.

        Args:
            function: from positions (particle, dim), unconstrained, to (particle, ...).
            largest: ties with larger l are left out of the regression: further away a line fits
                less, and nearer by there are fewer estimates.
        """
        found = self.estimates(function)
        variances = found.error**2
        parts = estimate_at_zero(self.strengths, found.parts, variances[:, None], largest).estimate
        at_zero = estimate_at_zero(self.strengths, found.estimate, variances, largest)
        return AtZero(at_zero.estimate, np.sqrt(np.sum(parts**2, axis=0)))
