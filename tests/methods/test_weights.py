"""Importance weights: evidence, k-hat, refits, and the sums over the network behind them."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import loggamma

import starlings as st
from starlings.errors import CandidateError
from starlings.methods import weights as module
from starlings.methods.batches import (
    LARGEST_BATCH,
    may_go_on,
    missing,
    next_proposal,
    next_size,
    next_sizes,
    tempered,
    weighted_candidates,
)
from starlings.methods.proposal import FEWEST_FITTED, Proposal
from starlings.methods.weights import LARGEST_K, Batch, CandidateSums, WeightedCandidates
from starlings.network.gossip import Gossip
from starlings.runtime.buckets import grouped
from starlings.sampling import by_weights
from starlings.solvers.pooled import potential
from tests.problems import irregular_graph, skewed_problem, unequal_poisson_problem
from tests.unit.test_comparison import evidence_of

SKEWNESS = 1.5
"""Shape of a log-gamma posterior whose first candidates have a k-hat just above 0.5."""


def log_gamma_density(points):
    """Entries whose exponentials are gamma variables of shape `SKEWNESS`, not normalised.

    The mode is at zero, with unit curvature: z = sqrt(a) log(g / a) for g of shape a.
    """
    a = SKEWNESS
    return np.sum(np.sqrt(a) * points - a * np.exp(points / np.sqrt(a)), axis=1)


def log_gamma_evidence(dim):
    a = SKEWNESS
    return dim * (loggamma(a) - a * np.log(a) + np.log(a) / 2)


def drawn(log_density, *batches, seed=0):
    """Candidates from batches, each a proposal and a size, weighted by a log-density of points."""
    found = WeightedCandidates()
    for number, (proposal, size) in enumerate(batches):
        points = proposal.candidates(size, [seed, number])
        found = found.with_batch(proposal, Batch(points, -log_density(points)))
    return found


def with_log_weights(log_weights, dim=1):
    """Standard candidates with these log-weights."""
    proposal = Proposal.standard(dim, is_diagonal=False)
    points = proposal.candidates(len(log_weights), 0)
    potentials = -np.asarray(log_weights) - proposal.log_density(points)
    return WeightedCandidates().with_batch(proposal, Batch(points, potentials))


def adapted(log_density, dim, wanted=4000, batches=8, seed=0, found=None):
    """What `weighted_candidates` finds of a log-density, and after how many candidates it asked."""
    asked = []

    def is_worthwhile(so_far):
        asked.append(so_far)
        return len(so_far.sizes) < batches

    sums = SimpleNamespace(dim=dim, at=lambda points: Batch(points, -log_density(points)))
    found = WeightedCandidates() if found is None else found
    return weighted_candidates(sums, found, wanted, seed, False, is_worthwhile), asked


def candidate_sums(problem, network):
    with jax.enable_x64(True):
        agents = grouped(problem.agents(network))
        return CandidateSums(agents, Gossip(network), problem.dim, int(problem.num_rows.sum()))


# Evidence


@pytest.mark.parametrize("dim", [1, 2, 20])
def test_the_evidence_is_exact_where_the_proposal_is_the_posterior(dim):
    proposal = Proposal.standard(dim, is_diagonal=False)
    found = drawn(lambda z: proposal.log_density(z) - 7.5, (proposal, 256))
    assert found.log_evidence == pytest.approx((-7.5, 0.0), abs=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 20])
def test_the_evidence_of_a_gaussian(dim):
    """Its weights are N / q, which is below 1 / 0.8."""
    exact = dim / 2 * np.log(2 * np.pi)
    proposal = Proposal.standard(dim, is_diagonal=False)
    found = drawn(lambda z: -0.5 * np.sum(z**2, axis=1), (proposal, 8192))
    value, error = found.log_evidence
    assert error < 0.5 / 0.8 / np.sqrt(8192)
    assert value == pytest.approx(exact, abs=4 * error)
    assert np.exp(found.log_weights.max() - exact) <= 1 / 0.8
    assert found.pareto_k < 0
    assert found.is_trusted


def test_the_error_of_the_evidence_is_that_of_independent_candidates():
    """Candidates are more even than independent ones: over seeds the error is not larger."""
    proposal = Proposal.standard(3, is_diagonal=False)
    found = [drawn(log_gamma_density, (proposal, 1024), seed=s).log_evidence for s in range(40)]
    values, errors = np.array(found).T
    assert values.std(ddof=1) < 1.45 * errors.mean()  # four standard errors of a std of 40 values
    assert values.mean() == pytest.approx(log_gamma_evidence(3), abs=4 * errors.mean() / 40**0.5)
    weights = np.exp(drawn(log_gamma_density, (proposal, 1024)).log_weights)
    by_hand = weights.std(ddof=1) / np.sqrt(1024) / weights.mean()
    assert errors[0] == pytest.approx(by_hand, rel=1e-10)


def regression(units, noise_std, rows=40):
    """A linear regression with covariates in these units: design, outcomes and problem."""
    random = np.random.default_rng(4)
    X = random.normal(size=(rows, len(units))) @ (np.eye(len(units)) + 0.4) * units
    y = X @ (0.5 / np.asarray(units)) + noise_std * random.normal(size=rows)
    sites = random.choice(4, size=rows)
    options = {"noise_std": noise_std, "prior_std": 2.0, "intercept": False}
    return X, y, st.models.linear_regression(X, y, sites, **options)


@pytest.mark.parametrize(
    ("units", "noise_std"), [([1.0, 1.0, 1.0], 1.0), ([1e4, 1e-3, 1.0], 100.0)]
)
def test_the_evidence_of_a_linear_regression_in_any_units(units, noise_std):
    X, y, problem = regression(units, noise_std)
    exact = evidence_of(X, y, noise_std, 2.0)
    found = st.sample(problem, st.Network.ring(4), method="weights", draws=500).log_evidence
    assert found.value == pytest.approx(exact, abs=0.01)
    assert found.error < 0.01


def test_the_evidence_with_a_diagonal_metric(monkeypatch):
    """The metric of many parameters, here of three."""
    monkeypatch.setattr(potential, "LARGEST_DENSE_HESSIAN", 2)
    shapes, plain = [], by_weights._log_determinant

    def noted(run):
        shapes.append(run.coordinates.scale.shape)
        return plain(run)

    monkeypatch.setattr(by_weights, "_log_determinant", noted)
    X, y, problem = regression([1e4, 1e-3, 1.0], 100.0)
    found = st.sample(problem, st.Network.ring(4), method="weights", draws=500).log_evidence
    assert found.value == pytest.approx(evidence_of(X, y, 100.0, 2.0), abs=0.01)
    assert shapes == [(3,)]


@pytest.mark.slow
def test_the_evidence_of_a_regression_with_unknown_noise():
    """sigma is positive, so that its coordinate has a Jacobian; quadrature over sigma."""
    X, y, _ = regression([1.0, 1.0], 1.0)
    problem = st.models.linear_regression(
        X, y, np.arange(40) % 3, prior_std=2.0, noise_prior_std=3.0, intercept=False
    )
    reference = evidence_of(X, y, 1.0, 2.0)

    def density(sigma):
        prior = stats.halfnorm(scale=3.0).pdf(sigma)
        return prior * np.exp(evidence_of(X, y, sigma, 2.0) - reference)

    exact = reference + np.log(integrate.quad(density, 0.3, 4.0)[0])
    found = st.sample(problem, st.Network.path(3), method="weights").log_evidence
    assert found.value == pytest.approx(exact, abs=0.01)
    assert abs(found.value - exact) < 4 * found.error


# Several proposals


def test_weights_are_those_of_the_mixture_of_all_proposals():
    first = Proposal(np.zeros(2), np.ones(2))
    second = Proposal(np.array([3.0, -1.0]), np.array([[2.0, 0.0], [0.5, 1.0]]), 0.5)

    def log_density(z):
        return -np.sum(np.abs(z), axis=1)

    found = drawn(log_density, (first, 4), (second, 12))
    assert found.sizes == [4, 12]
    assert found.points.shape == (16, 2)
    for z, log_weight in zip(found.points, found.log_weights, strict=True):
        densities = [float(np.exp(q.log_density(z[None])[0])) for q in (first, second)]
        mixture = 4 / 16 * densities[0] + 12 / 16 * densities[1]
        assert np.exp(log_weight) == pytest.approx(np.exp(-np.abs(z).sum()) / mixture)
    before = found.without_last_batch()
    assert before.sizes == [4]
    np.testing.assert_array_equal(before.log_weights, drawn(log_density, (first, 4)).log_weights)


def test_two_proposals_know_both_modes_that_each_alone_misses():
    """3/4 N(-6, 1) and 1/4 N(6, 1), of which each proposal has one mode."""

    def log_density(z):
        parts = [np.log(0.75) + stats.norm.logpdf(z[:, 0], -6), np.log(0.25)]
        return np.logaddexp(parts[0], parts[1] + stats.norm.logpdf(z[:, 0], 6))

    left, right = (Proposal(np.array([m]), np.ones(1)) for m in (-6.0, 6.0))
    alone = drawn(log_density, (left, 1024)).log_evidence
    assert abs(alone[0] - np.log(0.75)) < 4 * alone[1]
    both = drawn(log_density, (left, 1024), (right, 512))
    value, error = both.log_evidence
    assert value == pytest.approx(0, abs=4 * error)
    mean = np.exp(both.smoothed_log_weights) @ both.points[:, 0]
    assert mean == pytest.approx(-0.75 * 6 + 0.25 * 6, abs=4 * 6 / np.sqrt(1024))


def test_batches_of_one_proposal_count_as_one():
    """The densities of a proposal are kept once, however often it is drawn from."""
    first, second = Proposal(np.zeros(1), np.ones(1)), Proposal(np.ones(1), 2 * np.ones(1))

    def log_density(z):
        return -np.abs(z[:, 0])

    found = drawn(log_density, (first, 64), (second, 32), (first, 16), (second, 16))
    assert (found.sizes, found.drawn_from) == ([64, 32, 16, 16], [0, 1, 0, 1])
    assert found.log_densities.shape == (2, 128)
    mixture = np.logaddexp(
        np.log(80 / 128) + first.log_density(found.points),
        np.log(48 / 128) + second.log_density(found.points),
    )
    np.testing.assert_allclose(found.log_weights, log_density(found.points) - mixture)
    without = found.without_last_batch()
    assert (without.sizes, without.drawn_from) == ([64, 32, 16], [0, 1, 0])
    assert without.log_densities.shape == (2, 112)
    alone = without.without_last_batch().without_last_batch()
    assert (len(alone.proposals), alone.log_densities.shape) == (1, (1, 64))
    points = second.candidates(32, 5)
    halves = [Batch(part, -log_density(part)) for part in np.split(points, 2)]
    at_once = found.with_batch(second, *halves)
    one_by_one = found.with_batch(second, halves[0]).with_batch(second, halves[1])
    assert at_once.sizes == one_by_one.sizes
    np.testing.assert_array_equal(at_once.log_weights, one_by_one.log_weights)


# k-hat


def test_k_hat_is_that_of_the_tail():
    """Weights with exactly the quantiles of a Pareto law."""
    for k in (0.2, 0.45, 0.48, 0.52, 0.55, 0.9):
        found = with_log_weights(-k * np.log((np.arange(8192) + 0.5) / 8192))
        error = (1 + k) / np.sqrt(3 * np.sqrt(8192))  # of a fit to as many in the tail
        assert found.pareto_k == pytest.approx(k, abs=error)
        assert found.is_trusted == (k < LARGEST_K)


@pytest.mark.parametrize("freedom", [5.0, 3.85, 3.15, 2.0])
def test_k_hat_of_posteriors_with_heavier_tails_than_the_proposal(freedom):
    """Weights t_nu / t_7 grow as r^(7 - nu), and r has the tail r^-7: k = (7 - nu) / 7.

    3.85 and 3.15 degrees of freedom have k = 0.45 and k = 0.55.
    """
    heavy = Proposal(np.zeros(1), np.ones(1), heavy_share=1 - 1e-9)
    found = drawn(lambda z: stats.t.logpdf(z[:, 0], freedom), (heavy, 2**16))
    k = (7 - freedom) / 7
    assert found.pareto_k == pytest.approx(k, abs=3 * (1 + k) / np.sqrt(3 * 2**8))
    assert found.is_trusted == (k < 0.5)


def test_smoothed_weights_sum_to_one_and_keep_all_but_the_tail():
    found = with_log_weights(-0.6 * np.log(np.random.default_rng(0).uniform(size=4096)))
    smoothed, plain = found.smoothed_log_weights, found.log_weights
    assert np.exp(smoothed).sum() == pytest.approx(1)
    order, tail = np.argsort(plain), int(3 * np.sqrt(4096))
    body = (smoothed - plain)[order[:-tail]]
    np.testing.assert_allclose(body, body[0], atol=1e-12)
    assert smoothed.max() - body[0] <= plain.max()
    assert (np.diff(smoothed[order[-tail:]]) >= 0).all()


def test_k_hat_of_even_weights_is_that_of_their_largest():
    """A plateau with a few weights that stand out by a fifth, of which a fit makes k-hat = 5."""
    plateau = 1 - 1e-9 * np.arange(8192.0) ** 2 / 8192
    plateau[:6] = np.linspace(1.05, 1.2, 6)
    found = with_log_weights(np.log(plateau))
    largest = 1.2 / plateau.mean()
    assert found.pareto_k == pytest.approx(np.log(largest) / np.log(8192), rel=1e-10)
    normalised = found.log_weights - np.log(plateau.sum())
    np.testing.assert_allclose(found.smoothed_log_weights, normalised, atol=1e-12)
    plateau[:6] *= 20  # now single candidates matter
    assert with_log_weights(np.log(plateau)).pareto_k > 1


def test_effective_number():
    even = with_log_weights(np.random.default_rng(0).normal(scale=1e-3, size=1000))
    assert even.effective_number == pytest.approx(1000, rel=1e-5)
    found = with_log_weights(np.random.default_rng(1).normal(size=1000))
    weights = np.exp(found.smoothed_log_weights)
    assert found.effective_number == pytest.approx(weights.sum() ** 2 / np.sum(weights**2))
    assert not found.suffice(1000)
    assert found.suffice(300) == found.is_trusted


def test_one_good_k_hat_is_not_trusted_after_a_refit():
    found, asked = adapted(log_gamma_density, 1)
    assert [k.pareto_k < LARGEST_K for k in (*asked, found)] == [False, True, True]
    assert [k.is_trusted for k in (*asked, found)] == [False, False, True]
    assert asked[1].effective_number > 4000  # so that only trust was missing
    assert found.sizes == [8192, 8192, 8192]
    assert found.proposals[0].scale == 1
    assert found.drawn_from == [0, 1, 1]
    assert len(found.log_densities) == 2
    value, error = found.log_evidence
    assert value == pytest.approx(log_gamma_evidence(1), abs=4 * error)


def test_a_good_first_k_hat_is_trusted_at_once_and_more_candidates_are_of_the_same():
    wanted = 9000

    def log_density(z):
        return np.sum(2 * np.sqrt(5) * z - 20 * np.exp(z / np.sqrt(20)) + 1, axis=1)

    found, asked = adapted(log_density, 10, wanted)
    assert asked == []
    assert len(found.sizes) == 1
    more, asked = adapted(log_density, 10, 2 * found.effective_number, found=found)
    assert len(asked) >= 1
    assert len(more.sizes) > 1
    assert more.proposals == found.proposals
    assert set(more.drawn_from) == {0}
    np.testing.assert_array_equal(more.points[: len(found.points)], found.points)
    assert more.is_trusted


def test_candidates_depend_on_the_seed_and_the_batch_only():
    def points(**options):
        return adapted(log_gamma_density, 1, **options)[0].points

    np.testing.assert_array_equal(points(), points(batches=5))
    np.testing.assert_array_equal(points(batches=1), points()[:8192])
    assert not np.isin(points(seed=1), points()).any()


# What is drawn next


def test_sizes_of_batches():
    none = WeightedCandidates()
    assert [next_size(none, wanted) for wanted in (1, 32, 33, 4000, 10**7)] == [
        64,
        64,
        128,
        8192,
        LARGEST_BATCH,
    ]
    good = with_log_weights(np.random.default_rng(2).normal(scale=0.8, size=1024))
    share = good.effective_number / 1024
    assert good.pareto_k < LARGEST_K
    assert 0.3 < share < 0.8
    missing = 1.3 * (4000 - good.effective_number) / share
    assert next_size(good, 4000) == 2 ** int(np.ceil(np.log2(missing))) > 2 * 4000
    assert next_size(good, 10) == 64  # not less than a first batch
    bad = with_log_weights(-0.9 * np.log(np.arange(1.0, 1025)))
    assert not bad.pareto_k < LARGEST_K
    assert next_size(bad, 4000) == next_size(none, 4000)


def test_many_missing_candidates_are_drawn_in_as_many_batches_as_there_were():
    good = with_log_weights(np.random.default_rng(2).normal(scale=0.3, size=1024))
    assert missing(good, 10**7) == pytest.approx(
        1.3 * 10**7 * 1024 / good.effective_number, rel=0.01
    )
    assert next_sizes(good, 10**7) == [LARGEST_BATCH]
    more = good.with_batch(good.last_proposal, *7 * [Batch(good.points, good.potentials)])
    assert next_sizes(more, 10**7) == 8 * [LARGEST_BATCH]
    assert next_sizes(more, 2.5 * LARGEST_BATCH) == 4 * [LARGEST_BATCH]
    assert next_sizes(more, 10_000) == [next_size(more, 10_000)]
    assert next_sizes(WeightedCandidates(), 10**7) == [LARGEST_BATCH]
    bad = with_log_weights(-0.9 * np.log(np.arange(1.0, 1025)))
    assert (missing(bad, 10**7), next_sizes(bad, 10**7)) == (0, [LARGEST_BATCH])


@pytest.mark.parametrize("batches", [7, 8, 9])
def test_only_refits_are_limited_by_their_number(batches):
    bad = with_log_weights(-0.9 * np.log(np.arange(1.0, 1025)))
    good = with_log_weights(np.random.default_rng(2).normal(scale=0.3, size=1024))
    for found, expected in ((bad, batches < 8), (good, True)):
        again = (batches - 1) * [Batch(found.points, found.potentials)]
        found = found.with_batch(found.last_proposal, *again)
        assert may_go_on(found, 10**6) == expected


def test_flattened_weights_are_worth_enough_to_fit_a_covariance():
    uneven = with_log_weights(4 * np.random.default_rng(0).normal(size=4096), dim=5)
    assert uneven.effective_number < FEWEST_FITTED * 5
    flat = tempered(uneven, 5)
    assert flat.sum() == pytest.approx(1)
    assert 1 / np.sum(flat**2) >= FEWEST_FITTED * 5
    logs = uneven.smoothed_log_weights
    powers = np.polyfit(logs, np.log(flat), 1)
    np.testing.assert_allclose(np.log(flat), np.polyval(powers, logs), atol=1e-9)
    steps = np.log(powers[0]) / np.log(0.8)
    assert steps == pytest.approx(round(steps), abs=1e-9)
    earlier = np.exp(logs * powers[0] / 0.8)  # one step less would not have been enough
    assert earlier.sum() ** 2 / np.sum(earlier**2) < FEWEST_FITTED * 5
    even = with_log_weights(np.random.default_rng(0).normal(size=4096), dim=5)
    np.testing.assert_allclose(tempered(even, 5), np.exp(even.smoothed_log_weights))


def test_the_next_proposal():
    first = next_proposal(WeightedCandidates(), 3, True)
    np.testing.assert_array_equal([first.centre, first.scale], [np.zeros(3), np.ones(3)])
    bad = with_log_weights(-0.9 * np.log(np.arange(1.0, 4097)), dim=2)
    fitted = Proposal.fitted(bad.points, tempered(bad, 2), False)
    found = next_proposal(bad, 2, False)
    np.testing.assert_array_equal(found.centre, fitted.centre)
    np.testing.assert_array_equal(found.scale, fitted.scale)
    assert next_proposal(bad, 2, True).scale.shape == (2,)


# Undefined potentials


def test_candidates_of_infinite_potential_have_no_weight():
    """A normal law cut off at zero: half of the candidates, and half of the evidence."""

    def log_density(z):
        return np.where(z[:, 0] > 0, -0.5 * np.sum(z**2, axis=1), -np.inf)

    found, asked = adapted(log_density, 2)
    assert (found.sizes, asked) == ([8192], [])
    assert found.is_trusted
    value, error = found.log_evidence
    assert value == pytest.approx(np.log(np.pi), abs=4 * error)
    is_inside = found.points[:, 0] > 0
    assert 4000 < found.effective_number < is_inside.sum() < 4200
    assert (found.smoothed_log_weights[~is_inside] == -np.inf).all()
    assert np.exp(found.smoothed_log_weights).sum() == pytest.approx(1)


def test_all_candidates_of_infinite_potential_end_the_search():
    def log_density(z):
        return np.full(len(z), -np.inf)

    found, asked = adapted(log_density, 2)
    assert (found.sizes, asked) == ([8192], [])
    assert (found.pareto_k, found.effective_number) == (np.inf, 0.0)
    assert not found.suffice(1)
    again, asked = adapted(log_density, 2, found=found)  # as a resumed run does
    assert again is found
    assert asked == []


@pytest.mark.parametrize("finite", [1, 5, 24])
def test_few_candidates_of_finite_potential_still_make_a_proposal(finite):
    """In ten dimensions they span no covariance, and no tail can be fitted to them."""
    logs = np.full(2048, -np.inf)
    logs[:finite] = np.random.default_rng(0).normal(size=finite)
    found = with_log_weights(logs, dim=10)
    assert found.pareto_k == np.inf
    assert 0 < found.effective_number <= finite
    proposal = next_proposal(found, 10, False)
    assert np.isfinite(proposal.log_density(found.points)).all()


@pytest.mark.parametrize("difference", [3.0, 28.0, 100.0, 1000.0])
def test_weights_that_underflow_have_no_good_k_hat(difference):
    """All but a few weights are zero in floating point; a tail of zeros must not look light."""
    found = with_log_weights(-difference * np.arange(4096), dim=2)
    assert found.pareto_k > 1
    assert found.effective_number < 2.1
    assert next_proposal(found, 2, False) is not found.proposals[0]
    assert next_size(found, 4000) == 8192


# Sums over the network


@pytest.mark.slow
def test_sums_are_the_pooled_potential_in_blocks_of_any_size(monkeypatch):
    problem, network = unequal_poisson_problem(), st.Network(irregular_graph())
    sums, pooled = candidate_sums(problem, network), problem.pooled()
    points = np.random.default_rng(0).normal(size=(600, 3))
    with jax.enable_x64(True):
        whole = sums.at(points).potentials
        expected = [pooled.potential(point) for point in points[:3]]
        np.testing.assert_allclose(whole[:3], expected, rtol=1e-12)
        for candidates in (1, 7):
            monkeypatch.setattr(module, "BLOCK_BYTES", 8 * sums.num_rows * candidates)
            np.testing.assert_allclose(sums.at(points).potentials, whole, rtol=1e-12)


def test_a_batch_is_one_sum_of_a_number_for_each_candidate_and_two_more():
    network = st.Network(irregular_graph())
    sums = candidate_sums(unequal_poisson_problem(), network)
    with jax.enable_x64(True):
        sums.at(np.zeros((100, 3)))
    ledger, messages = sums.gossip.ledger, int(sums.gossip.messages_by_agent.sum())
    assert ledger.rounds == sums.gossip.rounds_per_sum
    assert (ledger.messages, ledger.floats) == (messages, messages * 102)


def undefined_problem():
    """The first of three sites has no finite potential above one, the second none below minus one.

    At the third it is -inf below minus two, where the density is not defined either.
    """

    def log_likelihood(p, row):
        x = p["x"]
        outside = jnp.where(row["site"] == 0, jnp.where(x > 1, -jnp.inf, 0.0), 0.0)
        outside += jnp.where(row["site"] == 1, jnp.where(x < -1, jnp.nan, 0.0), 0.0)
        outside += jnp.where(row["site"] == 2, jnp.where(x < -2, jnp.inf, 0.0), 0.0)
        return outside - 0.5 * x**2

    shards = [{"site": [float(site)]} for site in range(3)]
    return st.Problem(log_likelihood, lambda p: 0.0, {"x": ()}, shards)


@pytest.mark.parametrize("network", [st.Network.path(3), st.Network.complete(3)], ids=str)
def test_what_is_undefined_at_one_site_is_infinite_at_all(network):
    points = np.array([[-3.0], [-1.5], [-0.5], [0.0], [0.5], [1.5]])
    with jax.enable_x64(True):
        found = candidate_sums(undefined_problem(), network).at(points)
    np.testing.assert_allclose(found.potentials, [np.inf, np.inf, 0.375, 0.0, 0.375, np.inf])
    assert found.undefined == 3  # NaN at -3 and -1.5, and a density that is infinite at -3


def test_undefined_potentials_are_counted_by_batch():
    first, second = Proposal(np.zeros(1), np.ones(1)), Proposal(np.ones(1), np.ones(1))
    points = first.candidates(64, 0)
    found = WeightedCandidates().with_batch(first, Batch(points, points[:, 0], 3))
    assert found.undefined_share == 3 / 64
    found = found.with_batch(second, Batch(points, points[:, 0]), Batch(points, points[:, 0], 6))
    assert (found.undefined, found.undefined_share) == ([3, 0, 6], 9 / 192)
    assert found.without_last_batch().undefined == [3, 0]
    assert WeightedCandidates().undefined_share == 0


def test_sites_that_draw_other_candidates_are_noticed(monkeypatch):
    sums, plain = candidate_sums(skewed_problem(), st.Network.path(5)), Gossip.sum

    def another_site(self, parts, *what):
        parts = np.array(parts)
        parts[2, -1] += 1e-6
        return plain(self, parts, *what)

    monkeypatch.setattr(Gossip, "sum", another_site)
    points = Proposal.standard(1, is_diagonal=False).candidates(64, 0)
    with jax.enable_x64(True), pytest.raises(CandidateError, match="with the same `seed`"):
        sums.at(points)
