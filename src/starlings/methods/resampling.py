"""Draws from weighted candidates: chains of equally weighted draws.

Chain c uses the c-th block of the candidates of every batch and no other, so that chains do not
share candidates, unless blocks would be small: see `FEWEST_PER_CHAIN`. Within a block with weights
w_s that sum to one,

    resampling       the m-th draw is the candidate s at which the running sum of weights passes
                     (m + u) / draws, with one uniform number u                                 (1)
    Metropolis       the candidates, in random order, are proposals; candidate s replaces the
                     present one r with the probability min(1, w_s / w_r)                       (2)

(1) takes smoothed weights. Its running sum is over the candidates in the order of their reversed
binary numbers: in a Sobol sequence those that then follow one another are near each other, in the
first coordinates at least, so that it leaves out single ones of many, and no region. The draws are
then put into random order.

(2) takes the weights as they are and has the posterior as its exact law, whatever the proposal,
once it has forgotten its start, which is drawn by (1).
"""

from __future__ import annotations

import numpy as np

from starlings.errors import CandidateError
from starlings.methods.weights import WeightedCandidates
from starlings.random.addresses import shared_uniforms

FEWEST_PER_CHAIN = 100
"""Effective candidates of a chain's block, below which its weights, normalised by themselves, would
bias its draws."""


def resampled(found: WeightedCandidates, chains: int, draws: int, seed: int) -> np.ndarray:
    """The numbers of the candidates that are drawn by eq. (1), (chain, draw)."""
    uniforms = shared_uniforms(seed, "resampling", chains * (draws + 1)).reshape(chains, -1)
    if found.effective_number < FEWEST_PER_CHAIN * chains:
        return _dealt_out(found, chains, draws, uniforms)
    drawn = []
    for numbers, (offset, *places) in zip(blocks_of(found, chains), uniforms, strict=True):
        picked = numbers[systematic(found.smoothed_log_weights[numbers], draws, offset)]
        drawn.append(picked[np.argsort(places)])
    return np.array(drawn)


def _dealt_out(
    found: WeightedCandidates, chains: int, draws: int, uniforms: np.ndarray
) -> np.ndarray:
    """Draws by eq. (1) from all candidates at once, dealt out to chains of few draws."""
    numbers = blocks_of(found, 1)[0]
    offset, places = uniforms[0, 0], uniforms[:, 1:].ravel()
    picked = numbers[systematic(found.smoothed_log_weights[numbers], chains * draws, offset)]
    return picked[np.argsort(places)].reshape(chains, draws)


def systematic(log_weights: np.ndarray, draws: int, offset: float) -> np.ndarray:
    """Indices of candidates, eq. (1), with `offset` the uniform number u."""
    weights = np.exp(log_weights - log_weights.max())
    passed = np.cumsum(weights)
    places = (np.arange(draws) + offset) / draws
    return np.searchsorted(passed / passed[-1], places)  # (1)


def metropolis(found: WeightedCandidates, chains: int, draws: int, seed: int) -> np.ndarray:
    """The numbers of the candidates at which independence chains are, eq. (2), (chain, draw).

    Candidates that are more than draws make burn-in and thinning.
    """
    if found.effective_number < FEWEST_PER_CHAIN * chains:
        raise CandidateError(
            f"each independence chain needs {FEWEST_PER_CHAIN} effective candidates, got "
            f"{found.effective_number:,.0f} for {chains} chains; ask for fewer `chains`, of more "
            "`draws`."
        )
    uniforms = shared_uniforms(seed, "resampling", chains + 2 * len(found.points))
    offsets, places, chances = np.split(uniforms, [chains, chains + len(found.points)])
    visited = []
    for numbers, offset in zip(blocks_of(found, chains), offsets, strict=True):
        numbers = numbers[np.argsort(places[numbers])]
        chain = _independence_chain(found.log_weights[numbers], offset, chances[numbers])
        visited.append(numbers[_thinned(chain, draws)])
    return np.array(visited)


def _independence_chain(log_weights: np.ndarray, offset: float, chances: np.ndarray) -> np.ndarray:
    """Where a chain is after each of its candidates, eq. (2)."""
    visited, limits = np.empty(len(log_weights), int), np.log(chances)
    present = systematic(log_weights, 1, offset)[0]
    for candidate, limit in enumerate(limits):
        if limit < log_weights[candidate] - log_weights[present]:  # (2)
            present = candidate
        visited[candidate] = present
    return visited


def _thinned(chain: np.ndarray, draws: int) -> np.ndarray:
    """`draws` evenly spaced states of a chain, the last ones."""
    thin, burn_in = divmod(len(chain), draws)
    if thin == 0:
        raise CandidateError(
            f"an independence chain of {draws} draws needs as many candidates, got {len(chain)}; "
            "ask for fewer draws."
        )
    return chain[burn_in + thin - 1 :: thin]


def blocks_of(found: WeightedCandidates, chains: int) -> list[np.ndarray]:
    """The numbers of the candidates of every chain: each batch is divided evenly."""
    ends = np.cumsum(found.sizes)
    parts = [
        [_bit_reversed(part) for part in np.array_split(np.arange(end - size, end), chains)]
        for end, size in zip(ends, found.sizes, strict=True)
    ]
    return [np.concatenate([batch[chain] for batch in parts]) for chain in range(chains)]


def _bit_reversed(numbers: np.ndarray) -> np.ndarray:
    """Consecutive numbers in the order of their reversed binary places.

    >>> _bit_reversed(np.arange(10, 18))
    array([10, 14, 12, 16, 11, 15, 13, 17])
    """
    places, reversed_places = np.arange(len(numbers)), np.zeros(len(numbers), int)
    for _ in range(max(len(numbers) - 1, 1).bit_length()):
        reversed_places = 2 * reversed_places + places % 2
        places = places // 2
    return numbers[np.argsort(reversed_places)]
