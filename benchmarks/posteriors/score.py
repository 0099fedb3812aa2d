"""How far the draws of every agent are from the reference.

With reference mean m, standard deviation s and covariance C, an agent's mean m', and covariance C':

    per reported parameter   |m' - m| / s,   s' / s,   W2 / s by the quantiles of the reference
    jointly, unconstrained   |C^-1/2 (m' - m)| / sqrt(dim),   eigenvalues of C^-1/2 C' C^-1/2
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from starlings.diagnostics import statistics

from .cases import Case
from .draws import Draws


@dataclass(frozen=True)
class Score:
    """Each figure for the worst agent and parameter, and what the draws cost."""

    mean_error: float
    sd_ratio_least: float
    sd_ratio_most: float
    w2: float
    mahalanobis: float
    eigenvalue_least: float
    eigenvalue_most: float
    effective_draws: float
    """Effective draws of the worst agent and parameter, over all chains."""
    r_hat: float
    """The largest R-hat of an agent and parameter: nested where chains began in groups, and
    otherwise rank-normalised split R-hat."""
    network_rounds: int | None
    """Network rounds, all included; None for a method without rounds."""
    bytes_sent: float | None
    """Bytes sent by all agents together, all included; None if nothing is sent."""
    seconds: float | None
    """CPU seconds of a run where nothing is compiled; None if it was not timed."""
    first_seconds: float | None
    """CPU seconds of the first run, in which programs are compiled; None if it was not timed."""


def score(case: Case, draws: Draws) -> Score:
    """Compare all agents with the reference."""
    reported, free = both_scales(case, draws)
    effective, r_hat = convergence(reported, draws.superchains)
    return Score(
        **marginal_figures(_pooled(reported), *marginals_of(case)),
        **joint_figures(_pooled(free), case.reference["unconstrained"]),
        effective_draws=effective,
        r_hat=r_hat,
        network_rounds=draws.network_rounds,
        bytes_sent=draws.bytes_sent,
        seconds=draws.seconds,
        first_seconds=draws.first_seconds,
    )


def worst_w2(case: Case, draws: Draws) -> float:
    """The W2 of the worst agent and parameter."""
    reported, _ = both_scales(case, draws)
    return marginal_figures(_pooled(reported), *marginals_of(case))["w2"]


def effective_draws(case: Case, draws: Draws) -> float:
    """The effective draws of the worst agent and parameter."""
    return convergence(both_scales(case, draws)[0])[0]


def marginals_of(case: Case) -> tuple[dict[str, Any], list[float]]:
    """The reference of single parameters, and the levels of its quantiles."""
    return case.reference["constrained"], case.reference["quantile_levels"]


def both_scales(case: Case, draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Draws as (chain, draw, agent, entry): what is reported, and the unconstrained vector."""
    blocks = case.problem.parameters.blocks
    with jax.enable_x64(True):
        flat = {k: jnp.asarray(v.reshape(-1, *v.shape[3:])) for k, v in draws.named.items()}
        reported = np.asarray(jax.jit(jax.vmap(case.model.reported))(flat))
        free = [b.bijection._inverse(flat[k]).reshape(-1, b.size) for k, b in blocks.items()]
        unconstrained = np.concatenate([np.asarray(part) for part in free], axis=1)
    return reported.reshape(*draws.lead, -1), unconstrained.reshape(*draws.lead, -1)


def marginal_figures(
    draws: np.ndarray, reference: dict[str, Any], levels: list[float]
) -> dict[str, float]:
    """Compare draws (agent, draw, parameter) with the marginals of the reference."""
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    ratios = draws.std(axis=1) / sd
    quantiles = np.moveaxis(np.quantile(draws, levels, axis=1), 0, -1)
    grid = [reference["quantile_grid"][name] for name in reference["parameters"]]
    errors = quantiles - np.array(grid)
    return {
        "mean_error": float(np.max(np.abs(draws.mean(axis=1) - mean) / sd)),
        "sd_ratio_least": float(ratios.min()),
        "sd_ratio_most": float(ratios.max()),
        "w2": float(np.max(np.sqrt(np.mean(errors**2, axis=-1)) / sd)),
    }


def joint_figures(draws: np.ndarray, reference: dict[str, Any]) -> dict[str, float]:
    """Compare draws (agent, draw, coordinate) with mean and covariance of the reference."""
    root = np.linalg.cholesky(np.array(reference["covariance"]))
    white = np.linalg.solve(root, np.swapaxes(draws - np.array(reference["mean"]), 1, 2))
    spectra = np.array([np.linalg.eigvalsh(np.atleast_2d(np.cov(agent))) for agent in white])
    lengths = np.linalg.norm(white.mean(axis=2), axis=1) / np.sqrt(white.shape[1])
    return {
        "mahalanobis": float(lengths.max()),
        "eigenvalue_least": float(spectra.min()),
        "eigenvalue_most": float(spectra.max()),
    }


def convergence(draws: np.ndarray, superchains: np.ndarray | None = None) -> tuple[float, float]:
    """The smallest bulk effective sample size and the largest R-hat of (chain, draw, ...)."""
    found = statistics.convergence(draws, superchains)
    return float(found.ess_bulk.min()), float(found.rhat.max())


def _pooled(draws: np.ndarray) -> np.ndarray:
    """(chain, draw, agent, entry) -> (agent, chain and draw, entry)."""
    return np.moveaxis(draws, 2, 0).reshape(draws.shape[2], -1, draws.shape[3])
