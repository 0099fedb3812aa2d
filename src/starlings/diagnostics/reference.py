"""Distance of draws from reference draws of the same posterior, such as those of a pooled run.

For every agent and entry: the error of the mean, the ratios of the standard deviations and
variances, the share of the reference inside the agent's central 50 % and 90 % intervals, and

    W2 = sqrt(mean_q (quantile_q(draws) - quantile_q(reference))^2) / s_reference               (1)

For all entries jointly, each in units of its s_reference: the mean and the largest W2 of their
projections on random directions (sliced W2). No distance between finite samples is zero. The Monte
Carlo floor is the distance of as many draws of the reference as there are effective draws from the
rest of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from starlings.diagnostics.draws import Draws, by_site, without_derived

QUANTILE_LEVELS = (np.arange(200) + 0.5) / 200
"""The probabilities q of the quantiles in equation (1)."""
COVERAGE_LEVELS = (0.5, 0.9)
"""The probabilities of the central intervals whose coverage is computed."""
NUM_DIRECTIONS = 200
"""Number of random directions on which draws are projected for the sliced W2."""
DIRECTIONS_SEED = 0
"""Seed of those directions."""


def compare(posterior: xr.Dataset, reference: Mapping[str, Any]) -> pd.DataFrame:
    """Compare the draws of every agent and entry with reference draws, one row for each.

    Of values that every site has for itself, the reference has an array (draw, site, ...).
    """
    tables = [_compared(*found) for found in _with_reference(posterior, reference)]
    return pd.concat(tables, ignore_index=True)


def _compared(draws: Draws, known: np.ndarray) -> pd.DataFrame:
    rows = [
        {
            "parameter": entry,
            "agent": agent,
            **_scores(draws.values[:, :, i, k].ravel(), known[:, k]),
        }
        for k, entry in enumerate(draws.entries)
        for i, agent in enumerate(draws.agents)
    ]
    return pd.DataFrame(rows)


def _scores(draws: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    spread = reference.std()
    ratio = draws.std() / spread
    scores = {
        "mean_error": abs(draws.mean() - reference.mean()) / spread,
        "sd_ratio": ratio,
        "variance_ratio": ratio**2,
        "w2": _w2(np.quantile(draws, QUANTILE_LEVELS), np.quantile(reference, QUANTILE_LEVELS))
        / spread,  # (1)
    }
    for level in COVERAGE_LEVELS:
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
        scores[f"coverage_{level:.0%}"] = float(np.mean((low <= reference) & (reference <= high)))
    return scores


def sliced_w2(
    posterior: xr.Dataset, reference: Mapping[str, Any], effective_draws: float
) -> pd.DataFrame:
    """Compare the joint distribution of every agent with the reference, one row for each agent.

    The columns `mean` and `largest` are over the directions. `floor_mean` and `floor_largest` are
    the Monte Carlo floors, computed from `effective_draws` of the reference, or from half of the
    reference if it has fewer than twice as many.
    """
    found = _with_reference(posterior, reference)
    return pd.concat([_sliced(draws, known, effective_draws) for draws, known in found])


def _sliced(draws: Draws, known: np.ndarray, effective_draws: float) -> pd.DataFrame:
    centre, spread = known.mean(axis=0), known.std(axis=0)
    known = (known - centre) / spread
    own = np.moveaxis((draws.values - centre) / spread, 2, 0)
    count = int(np.clip(np.nan_to_num(effective_draws), 1, len(known) // 2))
    random = np.random.default_rng(DIRECTIONS_SEED)
    directions = random.normal(size=(NUM_DIRECTIONS, len(spread)))
    scores = np.array([_along(own @ u, known @ u, count) for u in directions])
    mean, largest = scores.mean(axis=0), scores.max(axis=0)
    columns = {
        "mean": mean[:-1],
        "largest": largest[:-1],
        "floor_mean": mean[-1],
        "floor_largest": largest[-1],
    }
    return pd.DataFrame(columns, index=draws.agents)


def _along(own: np.ndarray, known: np.ndarray, count: int) -> np.ndarray:
    """Return (1) of every agent in one direction and, last, of `count` draws of the reference."""
    whole, some, rest = (
        np.quantile(x, QUANTILE_LEVELS) for x in (known, known[:count], known[count:])
    )
    agents = [_w2(np.quantile(draws, QUANTILE_LEVELS), whole) for draws in own]
    return np.array([*agents, _w2(some, rest)]) / known.std()


def _w2(own: np.ndarray, known: np.ndarray) -> float:
    """Return the W2 between two distributions given by their quantiles at `QUANTILE_LEVELS`."""
    return float(np.sqrt(np.mean((own - known) ** 2)))


def _with_reference(
    posterior: xr.Dataset, reference: Mapping[str, Any]
) -> list[tuple[Draws, np.ndarray]]:
    """Return the draws, and the reference as (draw, entry) in the same order, both checked.

    First those of shared parameters and then, if there are any, those of single sites.
    """
    posterior = without_derived(posterior, besides=reference)
    missing = sorted(set(map(str, posterior.data_vars)) - set(reference))
    if missing:
        raise ValueError(f"`reference` has no draws of {missing}; add them by parameter name.")
    return [_matched(part, reference) for part in by_site(posterior)]


def _matched(posterior: xr.Dataset, reference: Mapping[str, Any]) -> tuple[Draws, np.ndarray]:
    parts = [_flat(str(name), v, reference[str(name)]) for name, v in posterior.data_vars.items()]
    lengths = {len(known) for known in parts}
    if len(lengths) > 1:
        raise ValueError(
            f"`reference` has parameters with different numbers of draws: {sorted(lengths)}; give "
            "the same number for each."
        )
    return Draws.from_posterior(posterior), np.concatenate(parts, axis=1)


def _flat(name: str, variable: xr.DataArray, given: Any) -> np.ndarray:
    """Return the reference draws of one parameter as (draw, entry), checked."""
    known = np.asarray(given, float)
    if known.ndim == 0:
        raise ValueError(
            f"`reference` of {name!r} must hold draws, one per first index, got one number."
        )
    known = known.reshape(len(known), -1)
    size = int(np.prod(variable.shape[3:]))
    if known.shape[1] != size:
        raise ValueError(
            f"`reference` of {name!r} has {known.shape[1]} entries a draw, not {size} as the "
            "posterior has."
        )
    if not np.all(np.isfinite(known)) or not np.all(np.ptp(known, axis=0) > 0):
        raise ValueError(
            f"`reference` of {name!r} must have finite draws that vary; check where they come from."
        )
    return known
