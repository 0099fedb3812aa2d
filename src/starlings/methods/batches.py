"""Batches of candidates, one after another, until their weights suffice.

The first batch is drawn around the mode. Where k-hat is good, and only the number of effective
candidates is not, further ones come from the same proposal; where it is bad, the next proposal is
fitted to the weighted candidates so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from starlings.methods.proposal import FEWEST_FITTED, Proposal
from starlings.methods.weights import LARGEST_K, Batch, CandidateSums, WeightedCandidates
from starlings.random.addresses import shared_words

CANDIDATES_PER_DRAW = 2
"""Candidates of the first batch for one effective draw that is asked for."""
MOST_BATCHES = 8
"""Number of batches after which the weights are given up if k-hat is bad."""
MARGIN = 1.3
"""Factor by which missing candidates are increased."""
MOST_PER_DRAW = 64
"""Candidates for one effective draw that is asked for, beyond which the weights are given up where
k-hat is good."""
LARGEST_BATCH = 2**17
"""Largest number of candidates in one batch."""


def weighted_candidates(
    sums: CandidateSums,
    found: WeightedCandidates,
    wanted: float,
    seed: int,
    is_diagonal: bool,
    is_worthwhile: Callable[[WeightedCandidates], bool],
    is_stopped: Callable[[], bool] = lambda: False,
) -> WeightedCandidates:
    """Batch after batch until the weights suffice, or further ones are not worthwhile.

    Args:
        sums: the sums over the network.
        found: the candidates so far; none at the beginning.
        wanted: effective draws that are asked for.
        seed: of all candidates.
        is_diagonal: whether covariances are fitted as diagonal matrices.
        is_worthwhile: whether another batch is drawn; it may save the candidates.
        is_stopped: asked after every batch, whether `is_worthwhile` should be asked at once.
    """
    while not found.sizes or (
        found.is_defined and not found.suffice(wanted) and is_worthwhile(found)
    ):
        proposal, parts = next_proposal(found, sums.dim, is_diagonal), list[Batch]()
        for number in next_sizes(found, wanted):
            scramble = shared_words(seed, "candidates", len(found.sizes) + len(parts) + 1)[-1]
            points = proposal.candidates(number, scramble)
            parts.append(sums.at(points))
            if is_stopped():
                break
        found = found.with_batch(proposal, *parts)
    return found


def next_proposal(found: WeightedCandidates, dim: int, is_diagonal: bool) -> Proposal:
    """The first proposal, or one that is fitted to the candidates so far."""
    if not found.sizes:
        return Proposal.standard(dim, is_diagonal)
    if found.pareto_k < LARGEST_K:  # only more of the same is needed
        return found.last_proposal
    return Proposal.fitted(found.points, tempered(found, dim), is_diagonal)


def tempered(found: WeightedCandidates, dim: int) -> np.ndarray:
    """Smoothed weights, flattened until they are worth enough candidates to fit a covariance."""
    logs, power = found.smoothed_log_weights, 1.0
    while True:
        scaled = power * logs
        scaled = scaled - logsumexp(scaled)
        if np.exp(-logsumexp(2 * scaled)) >= FEWEST_FITTED * dim or power < 0.1:
            return np.exp(scaled)
        power *= 0.8


def next_size(found: WeightedCandidates, wanted: float) -> int:
    """Candidates of the next batch: those that are missing, and a few more."""
    least = max(CANDIDATES_PER_DRAW * wanted, missing(found, wanted), 64)
    return int(min(2 ** np.ceil(np.log2(least)), LARGEST_BATCH))


def next_sizes(found: WeightedCandidates, wanted: float) -> list[int]:
    """Candidates of the next batches, before k-hat is looked at again.

    There is one batch, unless k-hat is good and many candidates are missing. There are no more
    than before then, so that k-hat is computed a few times only.
    """
    size = next_size(found, wanted)
    batches = math.ceil(missing(found, wanted) / LARGEST_BATCH)
    return [size] * max(1, min(batches, len(found.sizes)))


def missing(found: WeightedCandidates, wanted: float) -> float:
    """Candidates that are missing for `wanted` effective ones, where k-hat is good; else none."""
    if not found.sizes or not found.pareto_k < LARGEST_K:
        return 0.0
    share = found.effective_number / len(found.points)
    return max(0.0, MARGIN * (wanted - found.effective_number) / share)


def may_go_on(found: WeightedCandidates, wanted: float) -> bool:
    """Whether further batches may be drawn: not after too many refits, or candidates."""
    if not found.pareto_k < LARGEST_K:
        return len(found.sizes) < MOST_BATCHES
    most = max(MOST_BATCHES * LARGEST_BATCH, MOST_PER_DRAW * wanted)
    return len(found.points) + missing(found, wanted) <= most
