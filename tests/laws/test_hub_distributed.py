"""What Distributed SGLD and FSGLD draw from, by exact laws: walks too long, and the cure."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import starlings as st
from starlings.errors import NoLawError, StabilityError
from starlings.theory import Stacked, law
from starlings.theory.hub_distributed_laws import site_walks
from tests.laws.mixtures import iterates, moment_scores, stationary_of_mixture
from tests.laws.test_laws import z_scores
from tests.problems import logistic_rows, paper_problem

ALARM = 1e-5
SITES = 5


@pytest.fixture(scope="module")
def at_hub():
    return st.with_hub(paper_problem(SITES), prior="hub")


def langevin(problem, eta):
    """Mean and covariance of Langevin steps on the posterior: (H - eta H H / 2)^-1."""
    mean, covariance = problem.exact_posterior()
    H = np.linalg.inv(covariance)
    return mean, np.linalg.inv(H - eta / 2 * H @ H)


def after_visits(problem, network, sampler):
    """The stationary moments of the iterate after the visit of every site, in one cycle of all."""
    *_, before = law(problem, network, sampler).moments(400 * SITES)
    exact = law(problem, network, sampler).stationary()
    np.testing.assert_allclose(before.agent(0)[0], exact.agent(0)[0], rtol=1e-8)
    *moments, last = law(problem, network, sampler).moments(402 * SITES)
    return [m.agent(0) for m in [*moments, last][-2 * SITES + 1 :: 2]]


def test_long_walks_draw_from_local_posteriors(at_hub):
    """After 3000 steps a site has forgotten all others: prior, and its own rows S times."""
    problem, network = at_hub
    eta, shares = 0.004, np.full(SITES, 1 / SITES)
    sampler = st.DistributedSGLD(eta, 3000, visits="cyclic")
    quadratic, (target, covariance) = problem.quadratic, problem.exact_posterior()
    P, r = quadratic.hessian[0], quadratic.linear[0]
    local = []
    for site, (mean, spread) in enumerate(after_visits(problem, network, sampler)):
        G = P + quadratic.hessian[1 + site] / shares[site]
        wanted = np.linalg.solve(G, r + quadratic.linear[1 + site] / shares[site])
        np.testing.assert_allclose(mean, wanted, rtol=1e-9)
        np.testing.assert_allclose(spread, np.linalg.inv(G - eta / 2 * G @ G), rtol=1e-9)
        local.append(wanted)
    sd = np.sqrt(np.diag(covariance))
    assert np.max(np.abs(np.array(local) - target) / sd) > 2  # modes of sites are far away
    mixture = np.diag(covariance) + np.var(local, axis=0)
    assert np.max(np.sqrt(mixture) / sd) > 1.5  # and so the mixture is too wide


def test_the_bias_of_walks_grows_with_their_length_and_not_with_surrogates(at_hub):
    """FSGLD with exact surrogates is Langevin steps on the posterior, for every length of walks."""
    problem, network = at_hub
    eta, (target, covariance) = 0.004, problem.exact_posterior()
    mean, spread = langevin(problem, eta)
    sd, errors = np.sqrt(np.diag(covariance)), []
    for steps in (1, 10, 100):
        plain = st.DistributedSGLD(eta, steps, visits="cyclic")
        errors.append(np.abs(law(problem, network, plain).stationary().agent(0)[0] - target) / sd)
        for visits in ("cyclic", "random"):
            cured = law(problem, network, st.FSGLD(eta, steps, visits)).stationary()
            np.testing.assert_allclose(cured.agent(0)[0], mean, rtol=1e-9)
            np.testing.assert_allclose(cured.agent(0)[1], spread, rtol=1e-9)
    sizes = np.linalg.norm(errors, axis=1)
    assert 4 * sizes[0] < 2 * sizes[1] < sizes[2]


def test_half_a_correction_is_half_of_it(at_hub):
    """The drift of a step at a site is linear in the correction."""
    problem, network = at_hub
    s = Stacked.of(problem, network)
    sampler = st.DistributedSGLD(0.004)
    none, half, full = (site_walks(s, sampler, c) for c in (0.0, 0.5, 1.0))
    for one, middle, other in zip(none, half, full, strict=True):
        np.testing.assert_allclose((one.transition + other.transition) / 2, middle.transition)
    assert len({walk.transition.tobytes() for walk in none}) == SITES


@pytest.mark.parametrize("steps", [1, (1, 2, 3, 1, 2)])
def test_steps_are_weighed_by_their_number(at_hub, steps):
    """On average over all steps of a cycle of visits, the drift is that of the posterior."""
    problem, network = at_hub
    eta, quadratic = 1e-9, problem.quadratic
    walks = site_walks(Stacked.of(problem, network), st.DistributedSGLD(eta, steps), 0.0)
    count = np.sum(np.broadcast_to(steps, SITES))
    drift = sum(np.eye(2) - walk.transition for walk in walks) / (eta * count)
    np.testing.assert_allclose(drift, quadratic.hessian.sum(axis=0), rtol=1e-5)
    np.testing.assert_allclose(
        sum(walk.offset for walk in walks) / (eta * count), quadratic.linear.sum(axis=0), rtol=1e-5
    )


def test_two_sites_that_differ_widen_random_visits():
    """With curvature 1 and modes -a and a, v = (1 - 2 eta)^2 v + 4 eta^2 a^2 + 2 eta."""
    eta, a = 0.05, 3.0
    problem, network = st.with_hub(st.models.gaussian(np.ones((2, 1, 1)), [[-a], [a]]), prior="hub")
    walks = site_walks(Stacked.of(problem, network), st.DistributedSGLD(eta), 0.0)
    mean, covariance = stationary_of_mixture(walks)
    assert mean[0] == pytest.approx(0, abs=1e-12)
    assert covariance[0, 0] == pytest.approx((1 + 2 * eta * a**2) / (2 * (1 - eta)), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, (1, 2, 3, 1, 2)])
def test_random_visits_have_the_moments_of_the_mixture(at_hub, steps):
    problem, network = at_hub
    sampler = st.DistributedSGLD(0.01, steps)
    exact = stationary_of_mixture(site_walks(Stacked.of(problem, network), sampler, 0.0))
    draws = iterates(problem, network, sampler, chains=8000, burn_in=200)[0]
    scores = moment_scores(draws, *exact)
    assert np.abs(scores).max() < scipy.stats.norm.isf(ALARM / len(scores) / 2)
    wrong = exact[0], langevin(problem, 0.01)[1]  # the comparison can fail
    assert np.abs(moment_scores(draws, *wrong)).max() > 10


CYCLIC = {
    "distributed": st.DistributedSGLD(0.01, (1, 2, 3, 1, 2), visits="cyclic"),
    "corrected": st.FSGLD(0.01, 2, visits="cyclic", correction=0.6),
    "random": st.FSGLD(0.01, 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CYCLIC)
def test_visits_in_turn_have_the_exact_law(at_hub, name):
    problem, network = at_hub
    cycles = 6
    draws = iterates(problem, network, CYCLIC[name], 4000, burn_in=0, draws=cycles)
    exact = list(law(problem, network, CYCLIC[name]).moments(2 * cycles))[2::2]
    scores = []
    for found, moments in zip(draws, exact, strict=True):
        mean, covariance = moments.agent(0)
        scores.append(z_scores(found[:, None], type(moments)(mean[None], covariance)))
    every = np.concatenate(scores)
    assert np.abs(every).max() < scipy.stats.norm.isf(ALARM / len(every) / 2)


def test_there_is_no_covariance_for_random_visits_and_minibatches(at_hub):
    with pytest.raises(NoLawError, match="cyclic"):
        law(*at_hub, st.DistributedSGLD(0.01))
    with pytest.raises(NoLawError, match="minibatches"):
        law(*at_hub, st.DistributedSGLD(0.01, visits="cyclic", batch_size=3))
    with pytest.raises(StabilityError, match="take less"):
        st.sample(*at_hub, st.DistributedSGLD(1.0), draws=1)


def test_messages_are_those_of_the_visited_site(at_hub):
    network = at_hub[1]
    rounds = np.arange(2 * SITES + 4)
    sent = st.DistributedSGLD(0.01, visits="cyclic").messages_until(rounds, network)
    down, up = (rounds + 1) // 2, rounds // 2
    np.testing.assert_array_equal(sent[:, 0], down)
    np.testing.assert_array_equal(sent[:, 1:].sum(axis=1), up)
    np.testing.assert_array_equal(sent[3], [2, 1, 0, 0, 0, 0])
    np.testing.assert_array_equal(sent[-1], [7, 2, 1, 1, 1, 1])
    expected = st.DistributedSGLD(0.01).messages_until(rounds, network)
    np.testing.assert_array_equal(expected[:, 0], down)
    np.testing.assert_allclose(expected[:, 1:], up[:, None] / SITES * np.ones(SITES))


def test_surrogates_are_sent_once_by_all(at_hub):
    network, dim = at_hub[1], 2
    sampler = st.FSGLD(0.01, visits="cyclic")
    sent = sampler.messages_until(np.arange(8), network)
    np.testing.assert_array_equal(sent[:, 0], [0, 5, 5, 10, 10, 11, 11, 12])
    np.testing.assert_array_equal(sent[:, 1], [0, 0, 1, 1, 2, 2, 2, 2])
    np.testing.assert_array_equal(sent[:, 2], [0, 0, 1, 1, 1, 1, 2, 2])
    numbers, longest = sampler.numbers_until(np.arange(8), network, dim), sampler.floats(dim)
    assert longest == 5
    np.testing.assert_array_equal(numbers[:, 0], [0, 10, 10, 35, 35, 37, 37, 39])
    np.testing.assert_array_equal(numbers[:, 1], [0, 0, 5, 5, 7, 7, 7, 7])


def test_gradients_are_counted_by_the_walks(at_hub):
    problem = at_hub[0]
    assert st.DistributedSGLD(0.01).gradients_per_round(problem) == 1 / (2 * SITES)
    unequal = st.DistributedSGLD(0.01, (1, 2, 3, 1, 2), batch_size=5)
    assert unequal.gradients_per_round(problem) == pytest.approx(1.8 * 5 / 50 / (2 * SITES))


def test_settings_that_do_not_fit_are_refused(at_hub):
    assert hash(st.DistributedSGLD(0.1, np.array([1, 2])).local_steps) == hash((1, 2))
    with pytest.raises(ValueError, match="`local_steps` has 2 numbers, and there are 5 sites"):
        st.sample(*at_hub, st.DistributedSGLD(0.01, (1, 2)), draws=1)
    with pytest.raises(ValueError, match="`local_steps` must be a whole number"):
        st.DistributedSGLD(0.01, (1, 0))
    with pytest.raises(ValueError, match='prior="hub"'):
        st.sample(*st.with_hub(paper_problem(2)), st.FSGLD(0.01), draws=1)


@pytest.mark.slow
def test_surrogates_are_expansions_of_the_likelihood_at_the_mode_of_a_site():
    """Logistic regression with the prior N(0, 0.49 I), by Newton's method in NumPy."""
    X, y, names = logistic_rows()
    plain = st.models.logistic_regression(X, y, names, prior_std=0.7, intercept=False)
    problem, network = st.with_hub(plain, prior="hub")
    with jax.enable_x64(True):
        agents = problem.agents(network)
        fit = jax.vmap(lambda agent: st.FSGLD(0.1).memory(agent, jnp.zeros(3), None).own)
        found = np.asarray(fit(agents))
    for number, site in enumerate(plain.sites, start=1):
        Z, t, x = X[names == site], y[names == site], np.zeros(3)
        for _ in range(30):
            p = 1 / (1 + np.exp(-Z @ x))
            slope, hessian = Z.T @ (p - t), (Z.T * (p * (1 - p))) @ Z
            bend = np.eye(3) / (0.49 * SITES)
            mode, x = x, x - np.linalg.solve(hessian + bend, slope + bend @ x)
        np.testing.assert_allclose(mode, x, atol=1e-12)
        wanted = np.concatenate([hessian @ x - slope, hessian[np.triu_indices(3)]])
        np.testing.assert_allclose(found[number], wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
def test_surrogates_bring_logistic_walks_near_the_posterior():
    """With 60 steps at each of five very unequal sites, means in sd of the posterior."""
    plain = st.models.logistic_regression(*logistic_rows(), intercept=False)
    problem, network = st.with_hub(plain, prior="hub")
    mode = st.theory.posterior_mode(plain)
    covariance = st.theory.quadratic_model(plain).exact_posterior()[1]
    sd, found = np.sqrt(np.diag(covariance)), {}
    for sampler in (st.DistributedSGLD(5e-4, 60), st.FSGLD(5e-4, 60)):
        draws = iterates(problem, network, sampler, chains=60, burn_in=30, draws=10, apart=3)
        found[type(sampler)] = draws.reshape(-1, plain.dim)
    away, near = found[st.DistributedSGLD], found[st.FSGLD]
    assert np.max(away.std(axis=0) / sd) > 1.5
    assert np.max(np.abs(near.std(axis=0) / sd - 1)) < 0.15
    assert np.max(np.abs(near.mean(axis=0) - mode) / sd) < 0.25


def test_every_pair_of_visits_and_corrections_has_a_mean():
    """A law of the mean is enough to refuse steps that are too long."""
    problem, network = st.with_hub(paper_problem(2), prior="hub")
    for visits, c in itertools.product(("random", "cyclic"), (0.3, 1.0)):
        with pytest.raises(StabilityError, match="take less"):
            st.sample(problem, network, st.FSGLD(5.0, 2, visits, correction=c), draws=1)
