"""Runs in which every site integrates its own parameters out, and draws them at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from starlings.errors import CandidateError
from starlings.methods.hierarchical import HierarchicalChains
from starlings.methods.hmc import SummedChains
from starlings.methods.marginal import (
    LARGEST_ERROR,
    MOST_EVALUATIONS,
    POINTS,
    MarginalChains,
    OwnDraws,
    can_integrate,
    quadrature_error,
    surveyed,
)
from starlings.methods.proposal import Proposal
from starlings.methods.resampling import systematic
from starlings.sampling.on_sums import SumsRun


def choose_nodes(run: SumsRun) -> None:
    """Choose the nodes of the quadrature near the mode, unless it has been done, or has no use."""
    problem = run.request.problem
    if not can_integrate(problem) or run.coordinates is None or "nodes" in run.choice:
        return
    near = Proposal(np.zeros(problem.num_shared), np.eye(problem.num_shared), heavy_share=0.0)
    points = run.unscaled(near.candidates(POINTS, 0))
    run.choice |= surveyed(problem, run.gossip, points)._asdict()
    run.save()


def is_affordable(run: SumsRun, points: float) -> bool:
    """Whether potentials can be integrated at so many points within minutes, at every process."""
    problem = run.request.problem
    if not problem.num_local:
        return True
    evaluations = points * run.choice["rows"] * run.nodes**problem.num_local
    return evaluations <= MOST_EVALUATIONS * run.request.network.communicator.size


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
        numbers = systematic(found.smoothed_log_weights, POINTS, 0.5)
        points = run.unscaled(found.points[numbers])
        error = quadrature_error(run.request.problem, run.gossip, points, run.nodes)
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
            f"the log-posterior of the shared ones changes by up to {error:.2g} nats (trusted up "
            f'to {LARGEST_ERROR:g}). Use method="hmc", which draws all parameters together.'
        )


def sums_of(run: SumsRun, chains: int, is_marginal: bool) -> SummedChains:
    """The sums for chains of HMC: of all potentials, and of local parameters what stays at sites.

    Args:
        run: the run.
        chains: the number of chains.
        is_marginal: whether local parameters are integrated out.
    """
    problem, gossip, seed = run.problem, run.gossip, run.request.seed
    if not problem.num_local:
        return SummedChains.of(problem, gossip)
    if is_marginal:
        own = OwnDraws.of(problem, gossip, seed, chains)
        return MarginalChains.completed_by(run.summed, gossip, own, run.unscaled)
    return HierarchicalChains.at_sites(problem, gossip, run.coordinates, seed, chains)


def integrals_at(run: SumsRun, draws: np.ndarray) -> dict[str, Any]:
    """What a result says of the quadrature, measured at draws (..., shared) by one sum."""
    problem = run.request.problem
    points = draws.reshape(-1, problem.num_shared)
    return recorded(run, quadrature_error(problem, run.gossip, points, run.nodes))


def recorded(run: SumsRun, error: float) -> dict[str, Any]:
    """What a result says of the quadrature."""
    return {"quadrature_nodes": run.nodes, "quadrature_error": float(error)}
