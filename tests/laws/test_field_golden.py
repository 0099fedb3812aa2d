"""Claims about the samplers of the field by their exact laws: limits of steps, biases, rates."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.optimize

import starlings as st
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.theory import gaussian_w2, law
from tests.laws.test_theory_golden import RING5, variance_ratios
from tests.problems import paper_problem, unequal_linear_problem

NETWORKS = {
    "ring": RING5,
    "complete": st.Network.complete(5),
    "star": st.Network.star(6),
    "path": st.Network.path(4),
    "even ring": st.Network.ring(20),
}


def equal_potentials(network, curvature=1.0):
    return st.models.gaussian(np.full((network.size, 1, 1), curvature))


def radius(problem, network, sampler):
    """By which factor the slowest mode shrinks in a round, or a cycle."""
    return law(problem, network, sampler).whole_cycle().spectral_radius()


LIMITS = {
    "dsgld": (st.DSGLD, lambda least: 1 + least),
    "gextra": (st.GEXTRA, lambda least: 1 + least + (1 - least) / 4),
    "gextra 0.1": (lambda eta: st.GEXTRA(eta, 0.1), lambda least: 1 + least + 0.05 * (1 - least)),
    "diging": (st.DIGing, lambda least: (1 + least) ** 2 / 2),
}
"""Samplers by their step, and the limit of the step times the curvature, by lambda_min(W)."""


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("graph", NETWORKS)
def test_steps_are_stable_up_to_the_limit_for_equal_curvatures(graph, name):
    (make, limit), network, curvature = LIMITS[name], NETWORKS[graph], 3.0
    least = np.linalg.eigvalsh(network.mixing.toarray())[0]
    problem, step = equal_potentials(network, curvature), limit(least) / curvature
    assert radius(problem, network, make(0.999 * step)) < 1
    assert radius(problem, network, make(1.001 * step)) > 1


@pytest.mark.parametrize("seed", range(5))
def test_gextra_is_stable_for_any_curvatures_below_its_published_limit(seed):
    """eta < 2 lambda_min(V) / L: with h = 1/2, V = (I + W) / 2; for h = 0.4 on a path too."""
    network = st.Network.path(4)
    curvatures = np.random.default_rng(seed).uniform(size=(4, 1, 1)) ** 3
    curvatures[seed % 4] = 1.0
    problem, W = st.models.gaussian(curvatures), network.mixing.toarray()
    for h in (0.5, 0.4):
        least = np.linalg.eigvalsh(h * np.eye(4) + (1 - h) * W)[0]
        assert radius(problem, network, st.GEXTRA(0.999 * 2 * least, h)) < 1


@pytest.mark.parametrize("sampler", [st.DSGLD, st.GEXTRA, st.DIGing], ids=lambda s: s.__name__)
def test_the_average_is_too_wide_by_half_the_step_and_agents_by_more(sampler):
    """The average is 1 / (1 - eta / 2) times too wide, which is 1.0005 at 0.001."""
    for step, wanted in ((0.1, "1.0526"), (0.001, "1.0005")):
        average, agent = variance_ratios(equal_potentials(RING5), RING5, sampler(step))
        assert average == pytest.approx(1 / (1 - step / 2), rel=1e-9)
        assert f"{average:.4f}" == wanted
        assert agent > average
    halves = [
        variance_ratios(equal_potentials(RING5), RING5, sampler(s))[1] - 1 for s in (2e-4, 1e-4)
    ]
    assert halves[0] / halves[1] == pytest.approx(2, rel=0.01)


def test_a_small_memory_scatters_the_agents_of_gextra_less():
    """At h = 1/2, 1/4 and 0.1; towards D-SGLD, which has no memory."""
    problem = equal_potentials(RING5)
    memories = [variance_ratios(problem, RING5, st.GEXTRA(0.1, h))[1] for h in (0.5, 0.25, 0.1)]
    without = variance_ratios(problem, RING5, st.DSGLD(0.1))[1]
    assert memories == sorted(memories, reverse=True)
    assert without < memories[-1] < 1.03 * without


EVERY_AGENT_WITHIN = 0.05
GRID = 1.2
"""The ratio of neighbouring steps on the grid of the table, by which up to so much is lost."""
E_FOLDS = [  # graph, sampler, iterations in which the slowest mode shrinks by e
    ("ring", st.DSGLD, "private", 120),
    ("ring", st.DSGLD, "coherent", 40),
    ("ring", st.GEXTRA, "private", 191),
    ("ring", st.GEXTRA, "coherent", 5.6),
    ("ring", st.DIGing, "private", 119),
    ("ring", st.DIGing, "coherent", 5.6),
    ("complete", st.DSGLD, "private", 102),
    ("complete", st.DSGLD, "coherent", 29),
    ("complete", st.GEXTRA, "private", 140),
    ("complete", st.GEXTRA, "coherent", 5.7),
    ("complete", st.DIGing, "private", 87),
    ("complete", st.DIGing, "coherent", 5.7),
]


@pytest.mark.quick(4)
@pytest.mark.parametrize(("graph", "kind", "noise", "rounds"), E_FOLDS)
def test_what_shared_noise_is_worth(graph, kind, noise, rounds):
    """Rounds per factor e with the longest step whose agents are within 5 % of the posterior."""
    problem, network = paper_problem(5), NETWORKS[graph]
    mean, covariance = problem.exact_posterior()
    size = np.sqrt(np.trace(covariance))

    def too_far(log_step):
        moments = law(problem, network, kind(np.exp(log_step), noise=noise)).stationary()
        each = [gaussian_w2(*moments.agent(i), mean, covariance) for i in range(5)]
        return np.mean(each) / size - EVERY_AGENT_WITHIN

    longest = np.exp(scipy.optimize.brentq(too_far, np.log(1e-4), np.log(0.07), xtol=1e-4))
    best = law(problem, network, kind(longest, noise=noise)).relaxation_rounds()
    half_a_digit = 0.5 if rounds > 10 else 0.05
    assert best - half_a_digit <= rounds <= GRID * best + half_a_digit


@pytest.mark.parametrize(
    ("rho", "agent"), [(10.0, 1.188748), (100.0, 1.019881), (1000.0, 1.001999)]
)
def test_agents_of_gibbs_over_networks_are_too_wide_to_first_order_in_1_over_rho(rho, agent):
    """Equal potentials: variance mean_lam m N / (m + rho lam), and ever slower rounds."""
    exact, problem = (
        law(equal_potentials(RING5), RING5, st.NetworkGibbs(rho)),
        equal_potentials(RING5),
    )
    found = variance_ratios(problem, RING5, st.NetworkGibbs(rho))
    values = np.linalg.eigvalsh(np.diag(RING5.degrees) - RING5.adjacency.toarray())
    assert found[0] == pytest.approx(1, rel=1e-9)
    assert found[1] == pytest.approx((1 / (1 + rho * values)).sum(), rel=1e-9)
    assert found[1] == pytest.approx(agent, rel=1e-6)
    slowest = 2 * rho * 2 / (1 + 2 * rho * 2)  # that of consensus ADMM, 2 rho d / (m + 2 rho d)
    assert exact.relaxation_rounds() == pytest.approx(-1 / np.log(slowest), rel=1e-9)


@pytest.mark.slow
def test_decisions_of_mahmc_do_not_mend_its_temperature():
    """As published, at a step of 0.1: the average has half of the variance, with or without."""
    problem, chains, draws = equal_potentials(RING5), 4000, 4
    with jax.enable_x64(True):
        start = 0.3 * np.random.default_rng(0).normal(size=(chains, 5, 1))
        plan = Schedule(draws=draws, burn_in=1200, thin=400)
        sampler = st.MAHMC(0.1, "published")
        run = (sampler, problem.agents(RING5), RING5, jax.numpy.asarray(start), 1, plan)
        averages = loop.run(*run).joined().position.mean(axis=2).ravel()
    without = variance_ratios(problem, RING5, st.MAHMC(0.1, "published-unadjusted"))[0]
    error = without * np.sqrt(2 / (chains * draws))
    assert without == pytest.approx(1 / 1.99, rel=1e-9)
    assert abs(5 * averages.var() - without) < 4.5 * error


@pytest.mark.slow
def test_published_beliefs_have_the_whole_prior_and_an_nth_of_the_data():
    """Draws after many rounds are those of N(m, P^-1) with P = prior + sum_i data_i / N."""
    problem, network, rounds = unequal_linear_problem(), st.Network.complete(6), 120
    prior = np.eye(3) / 5
    quadratic = problem.quadratic
    precision = prior + (quadratic.hessian - prior / 6).sum(axis=0) / 6
    mean = np.linalg.solve(precision, quadratic.linear.sum(axis=0) / 6)
    assert np.linalg.norm(precision) < np.linalg.norm(quadratic.hessian.sum(axis=0)) / 3
    with jax.enable_x64(True):
        start = jax.numpy.zeros((1, 6, 3))
        plan, sampler = (
            Schedule(draws=1, burn_in=rounds - 1),
            st.PeerLearning(calibration="published"),
        )
        run = (sampler, problem.agents(network), network, start, 3, plan)
        found = loop.run(*run).joined().position[0, 0]
        keys = chain_keys(3, 1, 6)[0][0]
        w = np.array([Round(rounds, key, key).private_noise(start[0, 0]) for key in keys])
    wanted = mean + w @ np.linalg.inv(np.linalg.cholesky(precision))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)


def test_gradient_tracking_has_no_pull_to_the_modes_of_single_sites():
    """The mean of every agent is that of the posterior, which D-SGLD misses at the same step."""
    problem, step = unequal_linear_problem(), 0.005
    network = st.Network.ring(problem.num_agents)
    mean, covariance = problem.exact_posterior()

    def off(sampler):
        """The largest error of the mean of an agent, in posterior standard deviations."""
        found = law(problem, network, sampler).stationary().mean
        return np.abs((found - mean) / np.sqrt(np.diag(covariance))).max()

    assert off(st.DSGLD(step)) > 0.01
    for kind in (st.GEXTRA, st.DIGing):
        assert off(kind(step)) < 1e-10
