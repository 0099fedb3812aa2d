"""The oracle against numbers known from elsewhere, to their printed digits."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.linalg

import starlings as st
from starlings.theory import gaussian_w2, law
from tests.problems import paper_problem

RING5 = st.Network.ring(5)


def variance_ratios(problem, network, sampler):
    """tr(Cov F'')/d of the average and of an agent: 1 is the right posterior variance."""
    _, target = problem.exact_posterior()
    moments = law(problem, network, sampler).stationary()
    precision = np.linalg.inv(target)
    covariances = moments.average()[1], moments.agent(0)[1]
    return [np.trace(c @ precision) / problem.dim for c in covariances]


def dadmms(rho, noise, output="iterate"):
    return st.DADMMS(rho=rho, noise=noise, output=output)


@pytest.mark.parametrize(
    ("network", "sampler", "average", "agent"),
    [
        (RING5, dadmms(5.0, "paper"), "0.1951220", "0.3216"),
        (RING5, dadmms(5.0, "private"), "0.9756", "1.6080"),
        (RING5, dadmms(5.0, "coherent"), "0.9756", "0.9756"),
        (st.Network.complete(20), dadmms(9.5, "paper"), "0.9986", "1.1626"),
        (RING5, st.DSGLD(step_size=0.1), "1.0526", "1.9896"),
        (RING5, st.DSGHMC(step_size=0.1, friction=7.0), "1.0039", "1.0908"),
        (RING5, st.DULA(step_size=0.02, consensus_step=0.2), "1.0526", "2.1200"),
        (RING5, st.GEXTRA(step_size=0.1), "1.0526", "2.4032"),
        (RING5, st.DIGing(step_size=0.1), "1.0526", "2.0359"),
    ],
)
def test_homogeneous_golden_numbers(network, sampler, average, agent):
    problem = st.models.gaussian(np.ones((network.size, 1, 1)))
    found = variance_ratios(problem, network, sampler)
    assert f"{found[0]:.{len(average) - 2}f}" == average
    assert f"{found[1]:.{len(agent) - 2}f}" == agent


@pytest.mark.parametrize(
    ("sampler", "average", "agents"),
    [
        (st.DSGLD(step_size=0.009), "0.00294", "0.04939"),
        (st.DSGHMC(step_size=0.1, friction=7.0), "0.00309", "0.05288"),
        (dadmms(5.0, "paper"), "0.21580", "0.12125"),
        (dadmms(5.0, "private"), "0.01216", "0.19956"),
        (dadmms(5.0, "coherent"), "0.01223", "0.01244"),
        (dadmms(5.0, "coherent", "half-noise"), None, "0.00283"),
    ],
)
def test_paper_problem_golden_numbers(sampler, average, agents):
    """Stationary W2 of the average, and the mean over agents, on the ring of five."""
    problem = paper_problem(5)
    target = problem.exact_posterior()
    moments = law(problem, RING5, sampler).stationary()
    if average is not None:
        assert f"{gaussian_w2(*moments.average(), *target):.5f}" == average
    each = [gaussian_w2(*moments.agent(i), *target) for i in range(5)]
    assert f"{np.mean(each):.5f}" == agents


SMALL_WORLD = st.Network(nx.connected_watts_strogatz_graph(20, 4, 0.5, seed=1))
CALIBRATION = [  # graph, rho, worst agent's W2 in sd: paper, coherent, half-noise; rounds
    (RING5, 2.5, "0.112", "0.074", "0.031", 8),
    (RING5, 5.0, "0.323", "0.037", "0.011", 16),
    (st.Network.ring(20), 5.0, "0.414", "0.069", "0.041", 14),
    (st.Network.ring(20), 20.0, "0.521", "0.013", "0.006", 53),
    (st.Network.complete(20), 0.5, "11.3", "0.046", "0.014", 13),
    (st.Network.complete(20), 5.0, "0.901", "0.0040", "0.0002", 125),
    (SMALL_WORLD, 5.0, "0.533", "0.024", "0.007", 27),
    (st.Network.star(20), 5.0, "0.562", "0.061", "0.033", 13),
    (st.Network.path(20), 5.0, "0.507", "0.115", "0.073", 14),
]


@pytest.mark.parametrize(("network", "rho", "paper", "coherent", "half", "rounds"), CALIBRATION)
def test_calibration_table(network, rho, paper, coherent, half, rounds):
    problem = paper_problem(network.size)
    mean, covariance = problem.exact_posterior()
    settings = [("paper", "iterate"), ("coherent", "iterate"), ("coherent", "half-noise")]
    for (noise, output), wanted in zip(settings, (paper, coherent, half), strict=True):
        moments = law(problem, network, dadmms(rho, noise, output)).stationary()
        found = moments.worst_agent_w2(mean, covariance) / np.sqrt(np.trace(covariance))
        # half a unit of the last printed digit
        assert found == pytest.approx(float(wanted), abs=0.51 * 10 ** -len(wanted.split(".")[1]))
    time = law(problem, network, dadmms(rho, "coherent")).autocorrelation_rounds(agent=0)[0]
    assert round(time) == rounds


@pytest.mark.parametrize(
    ("network", "dsgld", "dsghmc"),
    [
        (st.Network.ring(20), "1.25", "1.51"),
        (st.Network.complete(20), "0.46", "0.45"),
        (st.Network.star(20), "2.82", "3.55"),
    ],
)
def test_calibration_table_of_gradient_samplers(network, dsgld, dsghmc):
    problem = paper_problem(20)
    mean, covariance = problem.exact_posterior()
    samplers = [st.DSGLD(step_size=0.009), st.DSGHMC(step_size=0.1, friction=7.0)]
    for sampler, wanted in zip(samplers, (dsgld, dsghmc), strict=True):
        moments = law(problem, network, sampler).stationary()
        found = moments.worst_agent_w2(mean, covariance) / np.sqrt(np.trace(covariance))
        assert f"{found:.2f}" == wanted


def test_half_noise_output_is_within_the_promised_distance():
    problem = paper_problem(5)
    mean, covariance = problem.exact_posterior()
    moments = law(problem, RING5, st.DADMMS(rho=5.0)).stationary()
    assert moments.worst_agent_w2(mean, covariance) < 0.015 * np.sqrt(np.trace(covariance))


def test_half_noise_variance_formula():
    """One agent pair: variance of x is 1/(m (1 + h/2)), of s is (1 + h^2/(4 (1 + h/2)))/m."""
    rho, curvature = 3.0, 2.0
    network, problem = st.Network.path(2), st.models.gaussian(np.full((2, 1, 1), curvature))
    total = 2 * curvature
    h = total / (4 * rho)  # eta m with |E| = 1
    for output, factor in (
        ("iterate", 1 / (1 + h / 2)),
        ("half-noise", 1 + h**2 / (4 * (1 + h / 2))),
    ):
        moments = law(problem, network, dadmms(rho, "coherent", output)).stationary()
        assert moments.agent(0)[1][0, 0] == pytest.approx(factor / total, rel=1e-12)


def test_cadmm_converges_to_the_mode_without_spread():
    problem = paper_problem(5)
    moments = law(problem, RING5, st.CADMM(rho=5.0)).stationary()
    np.testing.assert_allclose(moments.mean, np.tile(problem.exact_posterior()[0], (5, 1)), 1e-9)
    np.testing.assert_array_equal(moments.covariance, 0.0)


@pytest.mark.parametrize("sampler", [st.GEXTRA(0.005), st.GEXTRA(0.005, 0.1), st.DIGing(0.005)])
def test_agents_with_unequal_data_have_the_posterior_mean(sampler):
    """Which the agents of D-SGLD with the same step have not."""
    problem = paper_problem(5)
    mean, covariance = problem.exact_posterior()
    sd = np.sqrt(np.trace(covariance))
    moments = law(problem, RING5, sampler).stationary()
    assert np.abs(moments.mean - mean).max() < 1e-11 * sd
    pulled = law(problem, RING5, st.DSGLD(0.005)).stationary()
    assert np.abs(pulled.mean - mean).max() > 0.01 * sd


@pytest.mark.parametrize(
    ("form", "average"), [("published-unadjusted", ".505"), ("corrected", "1.003")]
)
def test_temperature_of_metropolis_adjusted_hmc(form, average):
    """Half, as published; one, after half a step. The average follows one agent of curvature 1."""
    problem, step = st.models.gaussian(np.ones((5, 1, 1))), 0.1
    found = variance_ratios(problem, RING5, st.MAHMC(step, form))[0]
    drift = step**2 / (2 if form == "corrected" else 1)
    assert found == pytest.approx(step**2 / (1 - (1 - drift) ** 2), rel=1e-10)
    assert found == pytest.approx(float(average), abs=0.003)  # found by a simulation


def test_gibbs_over_networks_has_its_augmented_law():
    """Positions have the precision H + rho L, and the average is exact where agents are equal."""
    network, rho = st.Network.star(6), 3.0
    problem, L = paper_problem(6), np.diag(network.degrees) - network.adjacency.toarray()
    H = scipy.linalg.block_diag(*problem.quadratic.hessian)
    precision = H + rho * np.kron(L, np.eye(2))
    moments = law(problem, network, st.NetworkGibbs(rho)).stationary()
    np.testing.assert_allclose(moments.covariance, np.linalg.inv(precision), rtol=1e-9)
    mean = np.linalg.solve(precision, problem.quadratic.linear.ravel())
    np.testing.assert_allclose(moments.mean.ravel(), mean, rtol=1e-9)
    equal = st.models.gaussian(np.ones((6, 1, 1)))
    assert variance_ratios(equal, network, st.NetworkGibbs(rho))[0] == pytest.approx(1, rel=1e-10)


@pytest.mark.parametrize(
    ("curvatures", "make", "ratios"),
    [
        ([1.0], lambda h: st.PULA(h), ("1.0756", "1.0075")),
        ([0.5], lambda h: st.MYULA(h / 2, st.Ridge(0.5), smoothing=h), ("1.0500", "1.0050")),
        ([0.5, 0.3, 0.5, 0.7], lambda h: st.SPLA(h, 6, "gradient"), ("0.916", "0.9915")),
    ],
)
def test_golden_numbers_of_proximal_samplers(curvatures, make, ratios):
    """At the steps .1 and .01; a `Ridge` is the other half of the potential of MYULA.

    SPLA has f of curvature .5, and then three proximal maps of potentials of .3, .5 and .7.
    """
    network, total = st.Network.path(len(curvatures)), max(sum(curvatures), 1.0)
    problem = st.models.gaussian(np.array(curvatures)[:, None, None])
    for h, ratio in zip((0.1, 0.01), ratios, strict=True):
        variance = law(problem, network, make(h)).stationary().agent(0)[1][0, 0]
        assert f"{total * variance:.{len(ratio) - 2}f}" == ratio


def test_spla_with_proximal_steps_only_has_the_variance_of_their_product():
    """x' = A (x + sqrt(2 gamma) w) with A = prod_i 1 / (1 + gamma m_i), on any network."""
    gamma, curvatures = 0.2, np.array([0.4, 1.0, 0.1, 2.0, 0.7])
    problem, p = st.models.gaussian(curvatures[:, None, None]), 0.9
    factor = np.prod(1 / (1 + gamma * np.append(curvatures, p)))
    variance = 2 * gamma * factor**2 / (1 - factor**2)
    for network in (st.Network.ring(5), st.Network.star(5), st.Network.complete(5)):
        sampler = st.SPLA.on(network, gamma, penalty=st.Ridge(p))
        moments = law(problem, network, sampler).stationary()
        np.testing.assert_allclose(moments.covariance, variance, rtol=1e-10)


def test_steps_that_the_smoothing_does_not_allow_are_refused_with_the_limit():
    """Of MYULA on a potential of curvature 1: below 2 / (1 + 1 / s), for every penalty."""
    problem, network = st.models.gaussian([[[1.0]]]), st.Network.path(1)
    sampler = st.MYULA(0.1, st.Lasso(1.0), smoothing=0.05)
    with pytest.raises(st.StabilityError, match=r"take less than 0\.0952"):
        st.theory.check_stability(problem, network, sampler)
    st.theory.check_stability(problem, network, sampler.with_settings(step_size=0.095))


def test_a_ridge_is_a_gaussian_prior():
    """With it D-ADMMS and C-ADMM have the laws of a problem whose agents have a part of it each."""
    problem, network, p = paper_problem(5), RING5, 1.7
    hessians = problem.quadratic.hessian + p / 5 * np.eye(2)
    other = st.models.gaussian(hessians, problem.quadratic.linear)
    for kind in (st.DADMMS, st.CADMM):
        found = law(problem, network, kind(5.0, penalty=st.Ridge(p))).stationary()
        wanted = law(other, network, kind(5.0)).stationary()
        np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-12)
        np.testing.assert_allclose(found.covariance, wanted.covariance, rtol=1e-10, atol=1e-15)
    with pytest.raises(st.NoLawError, match="no exact law is known with the penalty Lasso"):
        law(problem, network, st.DADMMS(5.0, penalty=st.Lasso(1.0)))


@pytest.mark.parametrize("updates", [1, 5])
def test_beliefs_become_the_posterior_where_every_row_counts_once(updates):
    problem = paper_problem(5)
    mean, covariance = problem.exact_posterior()
    *_, last = law(problem, RING5, st.PeerLearning(updates=updates)).moments(150)
    for agent in range(5):
        np.testing.assert_allclose(last.agent(agent)[0], mean, rtol=1e-10)
        np.testing.assert_allclose(last.agent(agent)[1], covariance, rtol=1e-10)


def test_velocities_start_from_the_standard_normal_and_duals_at_zero():
    """The first round of D-SGHMC and of D-ADMMS from x_i ~ N(0, I), written out."""
    network, m = st.Network.path(3), np.array([1.0, 2.0, 4.0])
    problem, eta, gamma, rho = st.models.gaussian(m[:, None, None]), 0.3, 2.0, 0.7
    W, eye, H = network.mixing.toarray(), np.eye(3), np.diag(m)
    _, moments = law(problem, network, st.DSGHMC(eta, gamma)).moments(1)
    from_x, from_v = W - eta**2 * H, eta * (1 - eta * gamma) * eye
    kick = eta * np.sqrt(2 * gamma * eta) * eye
    expected = from_x @ from_x.T + from_v @ from_v.T + kick @ kick.T
    np.testing.assert_allclose(moments.covariance, expected, rtol=1e-12)
    _, moments = law(problem, network, st.CADMM(rho)).moments(1)
    D, A = np.diag(network.degrees), network.adjacency.toarray()
    from_x = np.linalg.solve(H + 2 * rho * D, rho * (D + A))
    np.testing.assert_allclose(moments.covariance, from_x @ from_x.T, rtol=1e-12)


def test_in_a_relaxation_time_the_slowest_mode_shrinks_by_e():
    exact = law(paper_problem(5), st.Network.ring(5), st.DADMMS(rho=5.0))
    radius = np.abs(np.linalg.eigvals(exact.recursion(1).transition)).max()
    assert radius ** exact.relaxation_rounds() == pytest.approx(1 / np.e)


def test_moments_converge_to_the_stationary_law():
    problem = paper_problem(5)
    for sampler in (dadmms(2.5, "private"), st.DSGHMC(step_size=0.1, friction=7.0)):
        exact = law(problem, RING5, sampler)
        *_, last = exact.moments(round(30 * exact.relaxation_rounds()))
        limit = exact.stationary()
        np.testing.assert_allclose(last.mean, limit.mean, rtol=1e-9)
        np.testing.assert_allclose(last.covariance, limit.covariance, rtol=1e-8, atol=1e-12)


def test_laws_refuse_what_they_do_not_cover():
    with pytest.raises(ValueError, match="full gradients only"):
        law(paper_problem(5), RING5, st.DSGLD(step_size=0.01, batch_size=4))
    with pytest.raises(st.NoLawError, match="depends on the prior"):
        law(paper_problem(5), RING5, st.PeerLearning(calibration="published"))
    decaying = st.DULA(step_size=st.Decay(0.001, 1.0, 0.5), consensus_step=0.1)
    exact = law(paper_problem(5), RING5, decaying)
    with pytest.raises(ValueError, match="no stationary law"):
        exact.stationary()
    exact = law(paper_problem(5), RING5, st.DSGLD(step_size=2.0))
    with pytest.raises(st.StabilityError, match="spectral radius"):
        exact.stationary()
