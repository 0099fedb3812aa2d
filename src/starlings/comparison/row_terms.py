"""Leave-one-out cross-validation of every row by Pareto-smoothed importance sampling, PSIS-LOO
(Vehtari, Gelman and Gabry 2017; Vehtari, Simpson, Gelman, Yao and Gabry 2024).

With l_rs the log-likelihood of row r at draw s = 1..S, draws of the posterior without row r are
those of the posterior with weights exp(-l_rs). The largest weights are replaced by quantiles of a
Pareto distribution of shape k_r that is fitted to them, and w_rs are the weights that result, with
sum 1:

    elpd_r = log sum_s w_rs exp(l_rs)           log predictive density of a row left out    (1)
    lppd_r = log (1/S) sum_s exp(l_rs)          the same of a row not left out              (2)
    p_r    = lppd_r - elpd_r                    effective number of parameters              (3)

The term of a row is not reliable if

    k_r > min(1 - 1 / log10(S), 0.7)                                                        (4)
"""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from starlings.comparison.site_likelihood import log_likelihood_blocks
from starlings.problem import Problem

MIN_DRAWS = 100
"""Draws of an agent, over all chains, below which no tail can be fitted."""
MAX_SHAPE = 0.7
"""Shape of the Pareto distribution above which a term needs too many draws to be reliable."""


class RowTerms(NamedTuple):
    """What one site knows of its rows and sends to nobody; each array has shape (row,)."""

    elpd: np.ndarray
    """Eq. (1), in nats."""
    p_loo: np.ndarray
    """Eq. (3)."""
    is_unreliable: np.ndarray
    """Eq. (4)."""


def shape_limit(draws: int) -> float:
    """Return the shape of the Pareto distribution up to which a term is reliable, eq. (4).

    >>> round(shape_limit(100), 3), shape_limit(4000)
    (0.5, 0.7)
    """
    return min(1 - 1 / math.log10(draws), MAX_SHAPE)  # (4)


def row_terms(problem: Problem, site: str, vectors: np.ndarray) -> RowTerms:
    """Compute the terms of a site's rows at the flat vectors (chain, draw, dim) of its agent."""
    draws = math.prod(vectors.shape[:2])
    if draws < MIN_DRAWS:
        raise ValueError(
            f"`result` must have at least {MIN_DRAWS} draws over all chains, got {draws}; ask for "
            "more `draws`."
        )
    efficiency = relative_efficiency(vectors)
    blocks = log_likelihood_blocks(problem, site, vectors)
    found = [terms_of_block(block, efficiency) for block in blocks]
    return RowTerms(*(np.concatenate(column) for column in zip(*found, strict=True)))


def terms_of_block(log_likelihoods: np.ndarray, efficiency: float) -> RowTerms:
    """Compute the terms of some rows from their log-likelihoods (row, draw)."""
    from arviz_stats.base import array_stats  # a second of imports, which few programs need

    draws = log_likelihoods.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows whose likelihood is the same at all draws
        weights, shape = array_stats.psislw(log_likelihoods, r_eff=efficiency, axis=-1)
    elpd = logsumexp(weights + log_likelihoods, axis=1)  # (1)
    lppd = logsumexp(log_likelihoods, axis=1) - math.log(draws)  # (2)
    return RowTerms(elpd, lppd - elpd, shape > shape_limit(draws))  # (3)


def relative_efficiency(vectors: np.ndarray) -> float:
    """Return the effective sample size over the number of draws, on average over the parameters.

    PSIS smooths a longer tail of draws that depend on each other; 1 where it is not known.
    """
    from arviz_stats.base import array_stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # draws that do not vary: 0 / 0 is NaN
        sizes = array_stats.ess(vectors, method="mean", chain_axis=0, draw_axis=1)
    known = sizes[np.isfinite(sizes)]
    return float(known.mean()) / math.prod(vectors.shape[:2]) if len(known) > 0 else 1.0
