"""Convergence and agreement of draws, as tables with one row for each entry of a parameter.

1. Convergence, of every agent and entry across the chains, by arviz-stats: rank-normalised split
   R-hat, and the effective sample sizes of the bulk and of the tails (Vehtari, Gelman, Simpson,
   Carpenter and Bürkner 2021), and the Monte Carlo standard error of the mean. Where the draws
   have recorded superchains, R-hat is the nested one (see `nested_rhat`).
2. Agreement between agents: with s the standard deviation of all draws of an entry, x_i the draws
   of agent i, and xbar the average of the agents at the same chain and draw,

       mean_range   = (largest - smallest of the agents' means) / s                             (1)
       disagreement = sqrt(mean of (x_i - xbar)^2) / s                                          (2)
       sd_ratio     = largest / smallest of the agents' standard deviations                     (3)

   These are NaN for variables of which every agent has its own.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from starlings.diagnostics.draws import (
    READ_LIMITS,
    ReadLimits,
    all_entries,
    entry_blocks,
    is_derived,
    is_local,
    split_along,
    thinning_step,
)
from starlings.diagnostics.moments import HalfChainMoments
from starlings.diagnostics.nested_rhat import nested_rhat, recorded_superchains

TAILS = (0.05, 0.95)
"""The quantiles whose effective sample sizes are those of the tails; the smaller one counts."""
CONSTANT_SD = 1e-12
"""Standard deviation, relative to the largest mean, up to which an entry counts as constant."""
MAX_DRAWS = 2**20
"""Draws of an entry, over all chains of one agent, from which convergence is computed: longer runs
are thinned to this number."""
MAX_DRAWS_QUICK = 2**18
"""The same number of draws for a quick check."""


class Convergence(NamedTuple):
    """Diagnostics of some entries; each array has shape (agent, entry)."""

    rhat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    mcse: np.ndarray
    """Monte Carlo standard error of the mean, in units of the parameter."""

    @property
    def ess(self) -> np.ndarray:
        """The smaller one of the two effective sample sizes."""
        return np.fmin(self.ess_bulk, self.ess_tail)


def convergence(values: np.ndarray, superchains: np.ndarray | None = None) -> Convergence:
    """Compute the diagnostics of draws (chain, draw, agent, entry); unknown ones are NaN.

    Args:
        values: the draws.
        superchains: for each chain the label of its superchain, for nested R-hat; None for the
            rank-normalised split R-hat.
    """
    from arviz_stats.base import array_stats  # a second of imports, which few programs need

    axes = {"chain_axis": 0, "draw_axis": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # draws that do not vary: 0 / 0 is NaN
        is_nested = superchains is not None
        return Convergence(
            nested_rhat(values, superchains) if is_nested else array_stats.rhat(values, **axes),
            array_stats.ess(values, method="bulk", **axes),
            array_stats.ess(values, method="tail", prob=TAILS, **axes),
            array_stats.mcse(values, method="mean", **axes),
        )


def least_effective_draws(values: np.ndarray) -> float:
    """Return the smallest effective sample size of an entry of draws (chain, draw, entry).

    Of the bulk, or twice that of the tails: quantiles need fewer effective draws than means.
    """
    from arviz_stats.base import array_stats

    axes = {"chain_axis": 0, "draw_axis": 1}
    bulk = array_stats.ess(values, method="bulk", **axes)
    tail = array_stats.ess(values, method="tail", prob=TAILS, **axes)
    return float(np.nan_to_num(np.minimum(bulk, 2 * tail)).min())


def convergence_table(
    posterior: xr.Dataset, quick: bool = False, limits: ReadLimits = READ_LIMITS
) -> pd.DataFrame:
    """Return R-hat, effective sample sizes and standard error of every entry at its worst agent.

    Args:
        posterior: the draws.
        quick: compute them for one agent per entry only, the one whose half-chains differ most.
        limits: how much is read into memory at once.
    """
    names, entries = posterior["agent"].values.astype(str), all_entries(posterior)
    if quick and posterior.sizes["draw"] > 1:  # a single draw has no halves
        agents = HalfChainMoments.read(posterior, limits).least_stationary_agents()[None]
        found = _of_one_agent_per_entry(posterior, agents[0], limits)
    else:
        agents = np.repeat(np.arange(len(names))[:, None], len(entries), axis=1)
        found = _of_all_agents(posterior, limits)
    entry, ess = np.arange(len(entries)), found.ess
    highest = np.where(np.isnan(found.rhat), np.inf, found.rhat).argmax(axis=0)
    fewest = np.where(np.isnan(ess), np.inf, ess).argmin(axis=0)
    columns = {
        "rhat": found.rhat[highest, entry],
        "rhat_agent": names[agents[highest, entry]],
        "ess": ess[fewest, entry],
        "ess_bulk": found.ess_bulk.min(axis=0),
        "ess_tail": found.ess_tail.min(axis=0),
        "ess_agent": names[agents[fewest, entry]],
        "mcse": found.mcse.max(axis=0),
    }
    return pd.DataFrame(columns, index=entries)


def _of_all_agents(posterior: xr.Dataset, limits: ReadLimits) -> Convergence:
    """Compute the diagnostics of every agent and entry."""
    parts, step = [], thinning_step(posterior, MAX_DRAWS)
    superchains = recorded_superchains(posterior.attrs)
    for some in split_along(posterior, "agent", limits.block_bytes * step):
        blocks = entry_blocks(some, step, limits)
        found = [np.stack(convergence(values, superchains)) for values in blocks]
        parts.append(np.concatenate(found, axis=-1))
    return Convergence(*np.concatenate(parts, axis=1))


def _of_one_agent_per_entry(
    posterior: xr.Dataset, agents: np.ndarray, limits: ReadLimits
) -> Convergence:
    """Compute the diagnostics of entry k at `agents[k]`; the arrays have shape (1, entry)."""
    step = thinning_step(posterior, MAX_DRAWS_QUICK)
    superchains = recorded_superchains(posterior.attrs)
    found = np.empty((len(Convergence._fields), 1, len(agents)))
    for agent in np.unique(agents):
        first = 0
        for values in entry_blocks(posterior.isel(agent=slice(agent, agent + 1)), step, limits):
            here = first + np.flatnonzero(agents[first : first + values.shape[-1]] == agent)
            if len(here) > 0:
                found[..., here] = np.stack(convergence(values[..., here - first], superchains))
            first += values.shape[-1]
    return Convergence(*found)


def agreement_table(posterior: xr.Dataset, limits: ReadLimits = READ_LIMITS) -> pd.DataFrame:
    """Return equations (1) to (3) for every entry; draws that do not vary at all agree.

    The column `is_constant` says whether an entry is constant by its nature: it does not vary, and
    either it is derived from the parameters or it is 0 or 1, as in a triangular matrix. Other draws
    that do not vary come from a chain that is stuck.
    """
    moments = HalfChainMoments.read(posterior, limits)
    means, variances = moments.by_agent()
    deviations = np.sqrt(variances)
    spread = np.sqrt(variances.mean(axis=0) + means.var(axis=0))
    unit = np.where(spread > 0, spread, 1.0)
    smallest = np.where(spread > 0, np.maximum(deviations.min(axis=0), 1e-9 * spread), 1.0)
    is_fixed = is_derived(posterior) | np.isin(means, (0.0, 1.0)).all(axis=0)
    columns = {
        "mean_range": np.ptp(means, axis=0) / unit,  # (1)
        "disagreement": np.sqrt(moments.mean_square_scatter()) / unit,  # (2)
        "sd_ratio": np.where(spread > 0, deviations.max(axis=0) / smallest, 1.0),  # (3)
        "is_constant": (spread <= CONSTANT_SD * np.abs(means).max(axis=0)) & is_fixed,
    }
    table = pd.DataFrame(columns, index=all_entries(posterior))
    table.loc[is_local(posterior), ["mean_range", "disagreement", "sd_ratio"]] = np.nan
    return table


def diagnostics_table(
    posterior: xr.Dataset, quick: bool = False, limits: ReadLimits = READ_LIMITS
) -> pd.DataFrame:
    """Return convergence and agreement of every entry.

    Entries that are constant by their nature are left out, unless all entries are.
    """
    agreement = agreement_table(posterior, limits)
    is_constant = agreement.pop("is_constant")
    table = convergence_table(posterior, quick, limits).join(agreement)
    return table if is_constant.all() else table[~is_constant]
