"""Ordinal outcomes: levels with an order and no distances, by proportional odds.

With ascending cut points c_1 < ... < c_{K-1} between K levels, numbered from 0,

    P(y >= k) = s(eta - c_k),     s(t) = 1 / (1 + exp(-t))                                  (1)

so that, with c_0 minus infinity and c_K infinite,

    P(y = k) = s(c_{k+1} - eta) s(eta - c_k) (1 - exp(c_k - c_{k+1}))                       (2)

which has no difference of nearly equal numbers. A factor with an infinite cut point is 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from starlings.models._logistic import softplus
from starlings.models.families.checks import check_counts, check_rows
from starlings.models.families.family import Columns, Family, outcome
from starlings.models.families.ordered import Ordered
from starlings.problem.parameters import Parameter


@dataclass(frozen=True)
class Ordinal(Family):
    """Levels in an order, such as "none", "mild" and "severe", with proportional odds, eq. (1).

    Outcomes are codes 0, ..., K - 1. The odds of a level above k are exp(eta - c_k), whatever k:
    exp of a coefficient is an odds ratio of higher levels. The parameters `cutpoints` are the
    intercepts, so that `x` has none. The expected outcome is the mean of the codes; `probabilities`
    has one for each level.
    """

    name = "ordinal"
    title = "ordinal (proportional odds)"
    link = "eta is the logarithm of the odds of a higher level, against those where it is 0"
    ratio = "odds ratio"
    levels_of_outcome = None
    intercepts = MappingProxyType({"cutpoints": -1.0})
    levels: tuple[str, ...] = ()
    """The names of the levels, from the lowest to the highest; () if they are not known yet."""

    def __post_init__(self) -> None:
        levels = () if isinstance(self.levels, str) else tuple(map(str, self.levels))
        is_wrong = isinstance(self.levels, str) or len(levels) == 1
        if is_wrong or len(set(levels)) < len(levels):
            raise ValueError(
                "`levels` must be at least two different names, from the lowest level to the "
                f"highest, got {self.levels!r}."
            )
        object.__setattr__(self, "levels", levels)

    def with_levels(self, levels: Sequence[str]) -> Ordinal:
        """This family for outcomes with these levels."""
        return Ordinal(tuple(levels))

    def parameters(self) -> dict[str, Parameter]:
        """`cutpoints`, named after the levels below and above, such as "none|mild"."""
        if not self.levels:
            raise ValueError(
                "the family 'ordinal' has no `levels`; give their names, from the lowest to the "
                "highest."
            )
        names = tuple(f"{a}|{b}" for a, b in zip(self.levels, self.levels[1:], strict=False))
        return {"cutpoints": Parameter((len(names),), labels=names, transform=Ordered())}

    def default_priors(self, outcome_mean: float, outcome_scale: float) -> dict[str, str]:
        """Levels that may be rare."""
        return {"cutpoints": "student_t(3, 0, 2.5)"}

    def _check(self, columns: Mapping[str, np.ndarray], called: Mapping[str, str]) -> None:
        y, last = columns["y"], len(self.levels) - 1
        if not self.levels:  # checked again when they are known
            return check_counts(y, called["y"])
        valid = (y >= 0) & (y <= last) & (y == np.round(y))
        remedy = f"they stand for {', '.join(map(repr, self.levels))}"
        check_rows(y, valid, called["y"], f"one of the codes 0 to {last}; {remedy}")

    def log_density(self, p: Mapping[str, Any], eta: jax.Array, row: Columns) -> jax.Array:
        """The logarithm of eq. (2)."""
        level, cuts = outcome(row, eta), p["cutpoints"]
        below, above = _entry(cuts, level - 1), _entry(cuts, level)
        is_first, is_last = level <= 0, level >= len(self.levels) - 1
        gap = jnp.where(is_first | is_last, 1.0, above - below)
        from_below = jnp.where(is_first, 0.0, -softplus(below - eta))
        from_above = jnp.where(is_last, 0.0, -softplus(eta - above))
        between = jnp.where(is_first | is_last, 0.0, _log_one_minus_exp(gap))
        return from_below + from_above + between  # (2)

    def probabilities(self, p: Mapping[str, Any], eta: Any) -> np.ndarray:
        """The probability of every level, (draw, row, level)."""
        above = self._above(self._beside_rows(p), np.asarray(eta, float))
        ends = [np.ones((*above.shape[:-1], 1)), above, np.zeros((*above.shape[:-1], 1))]
        return -np.diff(np.concatenate(ends, -1))

    def _mean(self, p: Mapping[str, Any], eta: np.ndarray, columns: Columns) -> np.ndarray:
        return self._above(p, eta).sum(-1)

    def _above(self, p: Mapping[str, Any], eta: np.ndarray) -> np.ndarray:
        """P(y >= k) for k = 1, ..., K - 1 along the last axis, eq. (1)."""
        return expit(eta[..., None] - p["cutpoints"])

    def _draw(
        self, rng: np.random.Generator, p: Mapping[str, Any], eta: np.ndarray, columns: Columns
    ) -> np.ndarray:
        latent = eta + rng.logistic(size=eta.shape)
        return (latent[..., None] > p["cutpoints"]).sum(-1).astype(float)


def _entry(vector: jax.Array, number: jax.Array) -> jax.Array:
    """The entry of a vector with this number, or 0 if there is none; it broadcasts over rows."""
    is_it = number[..., None] == jnp.arange(vector.shape[-1])
    return jnp.sum(jnp.where(is_it, vector, 0.0), -1)


def _log_one_minus_exp(gap: jax.Array) -> jax.Array:
    """log(1 - exp(-gap)) of a positive gap; a gap that rounds to 0 counts as the smallest one."""
    return jnp.log(-jnp.expm1(-jnp.maximum(gap, jnp.finfo(gap.dtype).tiny)))
