"""Runs in which every site integrates its own parameters out, and draws them at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from starlings.errors import CandidateError
from starlings.methods.marginal import (
    LARGEST_ERROR,
    MOST_CHECKED,
    NODES,
    OwnDraws,
    quadrature_error,
)
from starlings.methods.resampling import systematic
from starlings.sampling.on_sums import SumsRun


def record_candidates(run: SumsRun, positions: np.ndarray) -> None:
    """Record positions (draw, chain, shared) of candidates, with what the agents draw themselves.

    Args:
        run: the run, whose candidates have been drawn.
        positions: in the coordinates of the candidates.
    """
    problem = run.request.problem
    if not problem.num_local:
        run.record(positions)
        return
    own = OwnDraws.of(problem, run.gossip, run.request.seed, positions.shape[1])
    for number, position in enumerate(run.unscaled(positions)):
        run.record(own.completed(position, number)[None])


def error_at_candidates(run: SumsRun) -> float:
    """The error of the quadrature at draws from the candidates so far; infinite if none weighs.

    It is found once: the choice of the method remembers it.
    """
    found = run.candidates
    if not found.is_defined:
        return np.inf
    if "quadrature_error" not in run.choice:
        numbers = systematic(found.smoothed_log_weights, MOST_CHECKED, 0.5)
        points = run.unscaled(found.points[np.unique(numbers)])
        error = quadrature_error(run.request.problem, run.gossip, points)
        run.choice["quadrature_error"] = error
    return float(run.choice["quadrature_error"])


def is_exact_enough(error: float) -> bool:
    """Whether a quadrature with this error is trusted."""
    return error <= LARGEST_ERROR


def require_quadrature(run: SumsRun) -> None:
    """Refuse weights of potentials that are not known well enough."""
    if not run.request.problem.num_local:
        return
    error = error_at_candidates(run)
    if not is_exact_enough(error):
        raise CandidateError(
            "the parameters of some site cannot be integrated out by quadrature: with more nodes "
            f"the log-posterior of the shared ones changes by up to {error:.2g} nats (trusted up to "
            f'{LARGEST_ERROR:g}). Use method="hmc", which draws all parameters together.'
        )


def recorded(run: SumsRun, error: float) -> dict[str, Any]:
    """What a result says of the quadrature."""
    nodes = NODES[run.request.problem.num_local]
    return {"quadrature_nodes": nodes, "quadrature_error": float(error)}
