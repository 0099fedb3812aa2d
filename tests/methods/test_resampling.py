"""Draws from weighted candidates: systematic resampling, and an exact independence chain."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import starlings as st
from starlings.errors import CandidateError
from starlings.methods.proposal import Proposal
from starlings.methods.resampling import (
    _bit_reversed,
    _independence_chain,
    _thinned,
    blocks_of,
    metropolis,
    resampled,
    systematic,
)
from tests.methods.test_weights import drawn, log_gamma_density
from tests.problems import skewed_problem

OFFSETS = (np.arange(2000) + 0.5) / 2000
"""A grid of the uniform number of systematic resampling."""


@pytest.fixture(scope="module")
def found():
    """Uneven candidates in two batches: 96 of the first proposal, and 160 of a wider one."""
    first = Proposal.standard(2, is_diagonal=True)
    wider = Proposal(np.array([-0.5, 0.0]), 1.5 * np.ones(2), heavy_share=0.5)
    return drawn(log_gamma_density, (first, 96), (wider, 160))


def counted(log_weights, draws, offset):
    return np.bincount(systematic(log_weights, draws, offset), minlength=len(log_weights))


# Systematic resampling


@pytest.mark.parametrize("draws", [1, 7, 50])
def test_a_candidate_is_drawn_as_often_as_its_weight_says(draws):
    logs = np.random.default_rng(0).normal(size=20)
    expected = draws * np.exp(logs) / np.exp(logs).sum()
    counts = np.array([counted(logs, draws, offset) for offset in OFFSETS])
    assert (counts.sum(axis=1) == draws).all()
    assert (np.abs(counts - expected) < 1).all()
    # a count is constant but for two jumps, so that the grid misses two cells of it at most
    np.testing.assert_allclose(counts.mean(axis=0), expected, atol=2 / len(OFFSETS))


def test_weighted_means_are_kept_on_average_over_offsets():
    random = np.random.default_rng(1)
    logs, values = random.normal(size=30), random.normal(size=30)
    weights = np.exp(logs) / np.exp(logs).sum()
    means = [values[systematic(logs, 12, offset)].mean() for offset in OFFSETS]
    largest = np.abs(values).sum() * 2 / len(OFFSETS) / 12  # of the grid, as above
    assert np.mean(means) == pytest.approx(weights @ values, abs=largest)


@pytest.mark.parametrize("offset", [2.0**-54, 0.5, 1 - 2.0**-53])
def test_candidates_without_weight_are_never_drawn(offset):
    logs = np.full(1001, -np.inf)
    logs[100:900] = np.log(np.random.default_rng(0).uniform(size=800)) - 800
    numbers = systematic(logs, 500, offset)
    assert numbers.min() >= 100
    assert numbers.max() < 900


def test_one_candidate_with_all_the_weight():
    assert systematic(np.array([-np.inf, 3.0, -np.inf]), 4, 0.5).tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("length", [*range(1, 18), 64, 100])
def test_reversed_binary_order_is_a_permutation(length):
    numbers = np.arange(5, 5 + length)
    turned = _bit_reversed(numbers)
    assert sorted(turned) == numbers.tolist()
    half = (length + 1) // 2
    assert ((turned[:half] - 5) % 2 == 0).all()  # even numbers come before odd ones


@pytest.mark.parametrize("chains", [1, 3, 4])
def test_chains_have_candidates_of_their_own_from_every_batch(found, chains):
    blocks = blocks_of(found, chains)
    assert sorted(np.concatenate(blocks)) == list(range(256))
    for block in blocks:
        assert abs(np.sum(block < 96) - 96 / chains) < 1
        assert abs(np.sum(block >= 96) - 160 / chains) < 1


@pytest.mark.parametrize("method", [resampled, metropolis])
def test_chains_share_no_candidate(found, method):
    numbers = method(found, 2, 16, seed=1)
    assert numbers.shape == (2, 16)
    members = [set(chain) for chain in numbers]
    assert sum(map(len, members)) == len(set.union(*members))
    for chain, block in zip(members, blocks_of(found, 2), strict=True):
        assert chain <= set(block)
    np.testing.assert_array_equal(numbers, method(found, 2, 16, seed=1))
    assert (numbers != method(found, 2, 16, seed=2)).any()


def test_chains_whose_blocks_would_be_small_share_all_candidates(found):
    """The draws of all chains together are those of one chain of as many draws."""
    together = resampled(found, 64, 1, seed=1)
    assert together.shape == (64, 1)
    weights = np.exp(found.smoothed_log_weights)
    counts = np.bincount(together.ravel(), minlength=256)
    assert np.all(np.abs(counts - 64 * weights) < 1)
    with pytest.raises(CandidateError, match="for 64 chains; ask for fewer `chains`"):
        metropolis(found, 64, 1, seed=1)


def test_a_chain_is_drawn_by_the_smoothed_weights_of_its_block(found):
    """Within one of what they say, and in any order."""
    numbers, logs = resampled(found, 2, 40, seed=3), found.smoothed_log_weights
    for chain, block in zip(numbers, blocks_of(found, 2), strict=True):
        weights = np.exp(logs[block])
        counts = np.bincount(chain, minlength=256)[block]
        assert (np.abs(counts - 40 * weights / weights.sum()) < 1).all()
        places = [block.tolist().index(number) for number in chain]
        assert places != sorted(places)


def test_resampled_means_are_unbiased_over_seeds(found):
    logs, points, seeds = found.smoothed_log_weights, found.points[:, 0], 400
    blocks = blocks_of(found, 2)
    expected = [np.exp(logs[b]) @ points[b] / np.exp(logs[b]).sum() for b in blocks]
    means = np.array([points[resampled(found, 2, 20, s)].mean(axis=1) for s in range(seeds)])
    errors = means.std(axis=0, ddof=1) / np.sqrt(seeds)
    assert (np.abs(means.mean(axis=0) - expected) < 4 * errors).all()


def test_draws_follow_one_another_at_random():
    proposal = Proposal.standard(1, is_diagonal=True)
    even = drawn(lambda z: -0.5 * np.sum(z**2, axis=1), (proposal, 8192))
    draws = even.points[resampled(even, 4, 1000, seed=0), 0]
    for chain in draws:
        correlation = np.corrcoef(chain[:-1], chain[1:])[0, 1]
        assert abs(correlation) < 4 / np.sqrt(1000)


# The independence chain


def test_the_chain_by_hand():
    logs = np.log([1.0, 2.0, 0.5, 4.0, 1.0])
    chances = np.array([0.9, 0.4, 0.3, 0.2, 0.25])
    # starts at 1, where the running sum of weights passes a quarter of 8.5
    # 0: 0.9 < 1/2? no; 1: itself; 2: 0.3 < 1/4? no; 3: yes; 4: 0.25 < 1/4? no
    assert _independence_chain(logs, 0.25, chances).tolist() == [1, 1, 1, 3, 3]
    chances[4] = 0.24
    assert _independence_chain(logs, 0.25, chances).tolist() == [1, 1, 1, 3, 4]


def test_candidates_of_no_weight_are_never_accepted():
    logs = np.array([-np.inf, 0.0, -np.inf, 1.0, -np.inf])
    visited = _independence_chain(logs, 1e-9, np.full(5, 1e-300))
    assert visited.tolist() == [1, 1, 1, 3, 3]


def test_the_chain_has_the_transitions_and_the_law_that_theory_says():
    """Four states, proposed with probabilities q, of a posterior p: weights are p / q.

    T_rs = q_s min(1, w_s / w_r) for s != r leaves p invariant exactly; transitions of a long chain
    are counted, and the variance of its visits is that of the exact matrix.
    """
    q, p, steps = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4]), 60_000
    w = p / q
    exact = q * np.minimum(1, w / w[:, None])
    np.fill_diagonal(exact, 0)
    exact += np.diag(1 - exact.sum(axis=1))
    np.testing.assert_allclose(p @ exact, p, rtol=1e-14)

    random = np.random.default_rng(0)
    states = random.choice(4, size=steps, p=q)
    visited = states[_independence_chain(np.log(w)[states], 0.5, random.uniform(size=steps))]
    counts = np.zeros((4, 4))
    np.add.at(counts, (visited[:-1], visited[1:]), 1)
    visits = counts.sum(axis=1, keepdims=True)
    errors = np.sqrt(exact * (1 - exact) / visits)
    assert (np.abs(counts / visits - exact) <= 4.5 * errors).all()

    fundamental = np.linalg.inv(np.eye(4) - exact + p)
    for s in range(4):  # the central limit theorem of a Markov chain
        centred = (np.arange(4) == s) - p[s]
        variance = 2 * p @ (centred * (fundamental @ centred)) - p @ centred**2
        assert abs(np.mean(visited == s) - p[s]) < 4.5 * np.sqrt(variance / steps)


def test_the_chain_of_candidates_is_the_chain_of_their_weights(found):
    """Every second state of a chain of 128 candidates, without smoothing; the last is kept."""
    draws, whole = metropolis(found, 2, 64, seed=5), metropolis(found, 2, 128, seed=5)
    np.testing.assert_array_equal(draws, whole[:, 1::2])
    logs = found.log_weights
    for chain, block in zip(whole, blocks_of(found, 2), strict=True):
        assert set(chain) <= set(block)
        moves = chain[1:][chain[1:] != chain[:-1]]
        assert len(moves) == len(set(moves))  # each candidate is proposed once
        assert logs[chain].mean() > logs[block].mean()


def test_the_last_states_of_a_chain_are_kept_evenly_spaced():
    chain = np.arange(10)
    assert _thinned(chain, 3).tolist() == [3, 6, 9]
    assert _thinned(chain, 10).tolist() == chain.tolist()
    assert _thinned(chain, 1).tolist() == [9]
    with pytest.raises(CandidateError, match="of 11 draws needs as many candidates, got 10"):
        _thinned(chain, 11)


@pytest.fixture(scope="module")
def skewed():
    """A skewed posterior of one coefficient: draws, and its density on a grid."""
    problem = skewed_problem()
    options = {"method": "weights-metropolis", "draws": 2000, "seed": 3}
    result = st.sample(problem, st.Network.ring(5), **options)
    rows, grid = problem.pooled().shards["pooled"], np.linspace(-12, 6, 40_001)
    rates = np.exp(np.outer(grid, rows["x"][:, 0]))
    logs = stats.poisson.logpmf(rows["y"], rates).sum(axis=1)
    logs += stats.norm.logpdf(grid, scale=10**0.5)
    density = np.exp(logs - logs.max())
    return result, grid, density / integrate.trapezoid(density, grid)


def test_the_exact_chain_has_the_law_of_a_skewed_posterior(skewed):
    """By quadrature: moments and quantiles within four of the errors that the chain itself has."""
    result, grid, density = skewed
    draws = result.posterior["beta"].values[:, :, 0, 0]
    exact = integrate.trapezoid(grid * density, grid)
    square = integrate.trapezoid((grid - exact) ** 2 * density, grid)
    skewness = integrate.trapezoid(((grid - exact) / square**0.5) ** 3 * density, grid)
    assert skewness < -0.4
    effective = float(result.summary()["ess_bulk"].iloc[0])
    assert effective > 1000
    assert abs(draws.mean() - exact) < 4 * np.sqrt(square / effective)
    cumulated = integrate.cumulative_trapezoid(density, grid, initial=0)
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        quantile = np.interp(level, cumulated, grid)
        error = np.sqrt(level * (1 - level) / effective)
        assert abs(np.mean(draws < quantile) - level) < 4 * error


def test_the_exact_chain_says_so_in_its_result(skewed):
    result = skewed[0]
    assert result.attrs["method"] == "weights-metropolis"
    assert '"draws_by": "metropolis"' in result.attrs["sampler_settings"]
    stays = np.diff(result.posterior["beta"].values[:, :, 0, 0], axis=1) == 0
    assert stays.any()
    np.testing.assert_array_equal(np.diff(result.sample_stats["log_weight"], axis=1)[stays], 0)
