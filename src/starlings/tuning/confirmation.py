"""Is the Gaussian approximation at the mode right? Importance weights tell, by one sum.

Candidates z_s from about N(0, I), in tuned coordinates, are weighted by the posterior of all rows
(see `starlings.methods.weights`). Where Pareto's k-hat is good, their weighted mean and covariance
are those of the posterior, and say whether the coordinates fit (see `pilot`). It replaces a pilot
run, of many rounds, wherever it can; how far the agents are apart, only a run can tell.
"""

from __future__ import annotations

import numpy as np

from starlings.methods.proposal import Proposal
from starlings.methods.weights import LARGEST_K, CandidateSums, WeightedCandidates
from starlings.network.gossip import Gossip
from starlings.problem import Problem
from starlings.random.addresses import shared_words
from starlings.runtime.buckets import grouped
from starlings.tuning.moments import Moments, fit
from starlings.tuning.tuning import Tuning

NUM_CANDIDATES = 1024
"""Candidates by which the approximation is judged."""


def is_confirmed(problem: Problem, tuning: Tuning, gossip: Gossip, seed: int) -> bool:
    """Whether weighted candidates have the mean and the covariance of N(0, I)."""
    moved = problem.affine(tuning.centre, tuning.scale)
    agents, is_diagonal = grouped(moved.agents(gossip.network)), tuning.scale.ndim == 1
    sums = CandidateSums(agents, gossip, moved.dim, int(moved.num_rows.sum()))
    proposal = Proposal.standard(moved.dim, is_diagonal)
    points = proposal.candidates(NUM_CANDIDATES, shared_words(seed, "confirmation", 1)[0])
    found = WeightedCandidates().with_batch(proposal, sums.at(points))
    if not np.isfinite(found.potentials).any() or not found.pareto_k < LARGEST_K:
        return False
    weights = np.exp(found.smoothed_log_weights)
    mean = weights @ points
    deviations = (points - mean) * np.sqrt(weights)[:, None]
    covariance = (deviations**2).sum(axis=0) if is_diagonal else deviations.T @ deviations
    return fit(Moments(mean, covariance, found.effective_number))
