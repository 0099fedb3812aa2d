"""Nested R-hat: have many short chains converged? (Margossian, Hoffman, Sountsov, Riou-Durand,
Vehtari and Gelman 2022)

Split R-hat asks each chain to forget its start and to run long enough for a precise mean of its
own. With many short chains only the first matters. The chains come in K superchains of M chains
each, and all chains of a superchain start at the same point. With x_kmt draw t = 1..n of chain m of
superchain k, xbar_km the mean of a chain, xbar_k that of a superchain, and var_j the sample
variance over the index j (with a divisor of one less than the number of values),

    B   = var_k xbar_k                         between superchains                          (1)
    B_k = var_m xbar_km,  0 if M = 1           between the chains of superchain k           (2)
    W_k = mean_m var_t x_kmt,  0 if n = 1      within the chains of superchain k            (3)
    W   = mean_k (B_k + W_k)                   within superchains                           (4)
    nested R-hat = sqrt(1 + B / W)                                                          (5)

As long as the chains remember their common start, the means of the superchains differ, and (5) is
large. In stationarity chains are independent. With s the standard deviation of the draws and tau
the autocorrelation time of a chain, in draws and at most n, B is about s^2 tau / (M n). W is about
s^2 (n^2 - tau) / (n^2 - n), which is s^2 for n = 1 or large n, and at most 3/2 s^2, since (2) and
(3) both count the scatter of a chain's mean. So one expects no more than about

    nested R-hat = sqrt(1 + tau / (M n))                                                    (6)

A limit of 1.01 hence asks for M n / tau of about 50 independent draws in each superchain, and for
no long chains: with n = 1, M = 50 chains are enough.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from starlings.errors import check_count, check_positive

SUPERCHAINS = "superchains"
"""The attribute of a result with a JSON list: for each chain the label of its superchain."""


def nested_rhat(draws: Any, superchains: Any) -> np.ndarray:
    """Compute nested R-hat, eq. (5), of every entry; NaN where the draws do not vary.

    Args:
        draws: (chain, draw, ...).
        superchains: for each chain a whole number, the label of its superchain. All superchains
            have the same number of chains, and there are at least two of them.

    >>> draws = np.array([[1.0], [3.0], [2.0], [4.0]])
    >>> nested_rhat(draws, [0, 0, 1, 1]).round(6).item()
    1.118034
    """
    values = np.asarray(draws, float)
    grouped = values[_chains_by_superchain(superchains, values)]  # (k, m, t, ...)
    if grouped.shape[1] == grouped.shape[2] == 1:
        raise ValueError(
            "`draws` has one chain of one draw in each superchain, of which no variance can be "
            "computed; start more chains at each point."
        )
    chain_means = grouped.mean(axis=2)
    between = chain_means.mean(axis=1).var(axis=0, ddof=1)  # (1)
    within = (_variance(chain_means, 1) + _variance(grouped, 2).mean(axis=1)).mean(axis=0)  # (4)
    with np.errstate(divide="ignore", invalid="ignore"):  # draws that do not vary: 0 / 0 is NaN
        return np.sqrt(1 + between / within)  # (5)


def stationary_nested_rhat(chains: int, draws: int = 1, autocorrelation_time: float = 1.0) -> float:
    """Return about the largest nested R-hat that is expected in stationarity, eq. (6).

    Args:
        chains: the number M of chains in each superchain.
        draws: the number n of draws of each chain.
        autocorrelation_time: tau, in draws; 1 for independent draws.

    >>> round(stationary_nested_rhat(50), 4)
    1.01
    """
    check_count(1, chains=chains, draws=draws)
    check_positive(autocorrelation_time=autocorrelation_time)
    return float(np.sqrt(1 + autocorrelation_time / (chains * draws)))  # (6)


def recorded_superchains(attrs: Mapping[str, Any]) -> np.ndarray | None:
    """Return the labels that a result has recorded; None if there are fewer than two superchains.

    Args:
        attrs: the attributes of the result or of its draws.
    """
    labels = np.asarray(json.loads(attrs.get(SUPERCHAINS, "[]")))
    return labels if len(np.unique(labels)) > 1 else None


def rhat_name(attrs: Mapping[str, Any]) -> str:
    """Return what the R-hat of these draws is called in messages."""
    return "R-hat" if recorded_superchains(attrs) is None else "nested R-hat"


def _variance(values: np.ndarray, axis: int) -> np.ndarray:
    """Compute the sample variance along an axis, 0 for a single value: eqs. (2) and (3)."""
    if values.shape[axis] == 1:
        return np.zeros_like(values.take(0, axis))
    return values.var(axis=axis, ddof=1)


def _chains_by_superchain(superchains: Any, values: np.ndarray) -> np.ndarray:
    """Return the numbers of the chains of each superchain, with shape (superchain, chain)."""
    labels = np.asarray(superchains)
    if values.ndim < 2 or 0 in values.shape[:2]:
        raise ValueError(f"`draws` must have shape (chain, draw, ...), got {values.shape}.")
    if labels.shape != values.shape[:1] or labels.dtype.kind not in "iu":
        raise ValueError(
            f"`superchains` must be one whole number for each of {len(values)} chains, got "
            f"{labels.dtype} of shape {labels.shape}."
        )
    found, counts = np.unique(labels, return_counts=True)
    if len(found) < 2 or len(set(counts)) > 1:
        raise ValueError(
            "`superchains` must name at least two superchains of equally many chains, got "
            f"{dict(zip(found.tolist(), counts.tolist(), strict=True))} chains by label."
        )
    return np.argsort(labels, kind="stable").reshape(len(found), -1)
