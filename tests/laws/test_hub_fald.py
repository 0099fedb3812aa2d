"""FA-LD, FALD and VR-FALD*: golden numbers, exact moments, and what the papers claim."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.linalg

import starlings as st
from starlings.theory import Recursion, has_law, law
from tests.laws.mixtures import Case, stationary
from tests.problems import unequal_linear_problem

CURVATURES, MODES = np.array([0.5, 1.0, 1.5]), np.array([-2.0, 1.0, 0.5])
"""Curvatures and modes of three sites with one parameter, which sum to a curvature of 3."""


def sites(curvatures=CURVATURES, modes=MODES):
    """A quadratic problem with one parameter, with a hub."""
    return st.with_hub(st.models.gaussian(curvatures[:, None, None], (curvatures * modes)[:, None]))


def bias_and_ratio(problem, mean, covariance):
    """The distance of means in standard deviations, and the ratio tr(Cov F'') / d."""
    exact, target = problem.exact_posterior()
    sd = np.sqrt(np.diag(target))
    return np.abs((mean - exact) / sd).max(), np.trace(covariance @ np.linalg.inv(target)) / len(sd)


def of_law(problem, network, sampler):
    return bias_and_ratio(problem, *law(problem, network, sampler).stationary().agent(0))


def in_steps(problem, gamma, p, tau, q=None):
    """Cases of one step of FALD, or of VR-FALD* with q, from the published loop over steps.

    The state has the positions y_i of all sites, and then the reference Y with q. The average of
    y_i is that of the iterates, since whether sites communicate does not depend on it.
    """
    H, b = problem.quadratic.hessian[1:], problem.quadratic.linear[1:]
    count, dim = b.shape
    eye, size = np.eye(dim), count * dim
    average = np.kron(np.full((1, count), 1 / count), eye)
    T = np.eye(size) - gamma * scipy.linalg.block_diag(*H)
    c = gamma * b.ravel()
    shared = np.sqrt(2 * gamma * tau / count) * np.tile(eye, (count, 1))
    B = np.hstack([shared, np.sqrt(2 * gamma * (1 - tau)) * np.eye(size)])
    averaged = np.tile(average, (count, 1))
    if q is None:
        mixes = [(p, averaged), (1 - p, np.eye(size))]
        return [Case(share, Recursion(M @ T, M @ c, M @ B)) for share, M in mixes]
    control = np.vstack([gamma * (own - H.mean(axis=0)) for own in H])
    c = gamma * np.tile(b.mean(axis=0), count)  # G_i = H_i (y_i - Y) + mean(H) Y - mean(b)
    cases = []
    for share, M in ((p, averaged), (1 - p, np.eye(size))):
        for part, renews in ((q, True), (1 - q, False)):
            top = np.hstack([M @ T, M @ control])
            keep = [average, 0 * eye] if renews else [0 * average, eye]
            transition = np.vstack([top, np.hstack(keep)])
            step = Recursion(
                transition, np.append(M @ c, np.zeros(dim)), np.pad(M @ B, ((0, dim), (0, 0)))
            )
            cases.append(Case(share * part, step))
    return cases


def of_steps(problem, *settings):
    """Mean and covariance of the iterates."""
    mean, covariance = stationary(in_steps(problem, *settings))
    dim = problem.dim
    average = np.zeros((dim, len(mean)))
    for i in range(problem.num_agents - 1):
        average[:, i * dim : (i + 1) * dim] = np.eye(dim) / (problem.num_agents - 1)
    return average @ mean, average @ covariance @ average.T


def test_one_local_step_is_a_langevin_step():
    """Of eta on the whole potential: ratio 1 / (1 - eta / 2) at curvature 1."""
    problem, network = sites(np.full(3, 1 / 3))
    for sampler in (st.FedAvgLangevin(0.01, local_steps=1), st.FALD(3 * 0.01, averaging=1.0)):
        assert f"{of_law(problem, network, sampler)[1]:.3f}" == "1.005"
        exact = law(problem, network, st.ELF(0.01)).stationary()
        found = law(problem, network, sampler).stationary()
        np.testing.assert_allclose(found.mean, exact.mean, rtol=1e-12)
        np.testing.assert_allclose(found.covariance, exact.covariance, rtol=1e-12)


def scalar_fa_ld(h, modes, p, eta, count, part):
    """Bias in standard deviations and ratio with one parameter, where f_c has p_c h_c, by hand."""
    A = 1 - eta * h
    T, offset = p @ A**count, p @ ((1 - A**count) * modes)
    shared = sum((p @ A**k) ** 2 for k in range(count))
    private = sum(p @ A ** (2 * k) for k in range(count))
    variance = 2 * eta * (part * shared + (1 - part) * private) / (1 - T**2)
    total = p @ h
    return (offset / (1 - T) - p @ (h * modes) / total) * np.sqrt(total), variance * total


@pytest.mark.parametrize(("part", "ratio"), [(0.0, "1.42"), (1.0, "1.24")])
def test_unlike_sites_with_ten_local_steps(part, ratio):
    """K = 10 and eta = 0.1 at sites where the bias is 0.46 sd."""
    p, h = np.array([0.25, 0.25, 0.5]), np.array([0.6, 2.0, 3.0])
    modes = np.array([-1.76, 0.0, 1.76])
    problem, network = sites(p * h, modes)
    sampler = st.FedAvgLangevin(0.1, 10, part, weights=p)
    bias, found = of_law(problem, network, sampler)
    by_hand = scalar_fa_ld(h, modes, p, 0.1, 10, part)
    assert (bias, found) == pytest.approx(np.abs(by_hand), rel=1e-10)
    assert f"{found:.2f}" == ratio
    assert f"{bias:.2f}" == "0.46"


def test_weights_are_numbers_in_proportion():
    problem, network = st.with_hub(unequal_linear_problem())
    settings = {"local_steps": 2, "shared_part": 0.5}
    by_rows = st.FedAvgLangevin.on(problem, 0.001, **settings)
    assert by_rows.weights == (1, 40, 3, 7, 20, 2)
    shares = st.FedAvgLangevin(0.001, weights=np.array(by_rows.weights) / 73, **settings)
    one, other = (law(problem, network, sampler).stationary() for sampler in (by_rows, shares))
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-10)


def test_equal_weights_are_those_of_fald():
    """With a fixed number of steps, gamma = b eta and tau = rho^2."""
    problem, network = sites()
    one = law(problem, network, st.FedAvgLangevin(0.1, local_steps=1, shared_part=0.3)).stationary()
    other = law(problem, network, st.FALD(0.3, averaging=1.0, shared_part=0.3)).stationary()
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-12)
    mean, covariance = of_steps(problem, 0.3, 1.0, 0.3)
    np.testing.assert_allclose(other.agent(0)[0], mean, rtol=1e-12)
    np.testing.assert_allclose(other.agent(0)[1], covariance, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("q", [None, 0.3])
def test_simulations_have_the_exact_moments_of_random_lengths(q):
    """Iterates of 4000 chains: their errors are those of independent draws of any law."""
    gamma, p, tau, chains = 0.3, 0.4, 0.3, 4000
    problem, network = sites()
    sampler = st.FALD(gamma, p, tau) if q is None else st.VRFALD(gamma, p, q, tau)
    assert not has_law(sampler)
    how = {"draws": 1, "thin": 2, "chains": chains, "burn_in": 400, "seed": 3, "check": False}
    result = st.sample(problem, network, sampler, **how, progress=False)
    draws = result.posterior["x"].values[:, 0, 0, 0]
    mean, covariance = of_steps(problem, gamma, p, tau, q)
    for values, wanted in ((draws, mean[0]), ((draws - mean[0]) ** 2, covariance[0, 0])):
        assert abs(values.mean() - wanted) < 4 * values.std() / np.sqrt(chains)


def test_unlike_modes_pull_the_mean_of_fald_in_proportion_to_the_step():
    """So that W2^2 has a term of gamma^2 times the squared distance of modes; VR-FALD* has none."""
    p, tau = 0.2, 1.0
    biases = [bias_and_ratio(sites()[0], *of_steps(sites()[0], g, p, tau))[0] for g in (0.02, 0.01)]
    assert biases[0] / biases[1] == pytest.approx(2, rel=0.05)
    wider = sites(modes=2 * MODES)[0]
    assert bias_and_ratio(wider, *of_steps(wider, 0.01, p, tau))[0] / biases[1] == pytest.approx(2)
    assert biases[1] > 0.01
    for gamma in (0.3, 0.01):
        reduced = of_steps(wider, gamma, p, tau, 0.2)
        assert bias_and_ratio(wider, *reduced)[0] < 1e-10


def test_private_noise_adds_a_variance_where_curvatures_differ():
    """Which shared noise does not. On Gaussians it is of the second order in the step.

    The term of first order in the papers' bounds is an upper bound.
    """

    def added(gamma, curvatures=CURVATURES):
        problem = sites(curvatures)[0]
        private, shared = (of_steps(problem, gamma, 0.1, tau) for tau in (0.0, 1.0))
        return bias_and_ratio(problem, *private)[1] - bias_and_ratio(problem, *shared)[1]

    assert added(0.02) > added(0.01) > 0
    assert added(0.002) / added(0.001) == pytest.approx(4, rel=0.1)
    assert added(0.02, np.ones(3)) == pytest.approx(0, abs=1e-10)


def test_minibatches_and_messages_are_counted():
    problem, network = st.with_hub(unequal_linear_problem())
    batch = 2 * 6 / 73  # rows of two, of 73 rows at six sites
    assert st.FALD(0.1, 0.2, batch_size=2).gradients_per_round(problem) == pytest.approx(
        2.5 * batch
    )
    reduced = st.VRFALD(0.1, averaging=0.2, refreshing=0.1, batch_size=2)
    assert reduced.gradients_per_round(problem) == pytest.approx((2 * batch + 0.1) / 0.8)
    sent = reduced.messages_until(np.array([1, 2, 3]), network)
    np.testing.assert_array_equal(sent[:, 0], [6, 6, 12])
    np.testing.assert_array_equal(sent[:, 1], [0, 1, 1])


def test_parts_and_probabilities_may_be_traced():
    made = jax.jit(lambda part: st.FALD(0.1, averaging=part, shared_part=part).shared_part)
    assert made(0.5) == 0.5


def test_settings_that_cannot_be_are_refused():
    problem, network = st.with_hub(unequal_linear_problem())
    with pytest.raises(ValueError, match="`averaging` must be between 0 and 1"):
        st.FALD(0.1, averaging=1.5)
    with pytest.raises(ValueError, match="`averaging` must be positive"):
        st.FALD(0.1, averaging=0.0)
    with pytest.raises(ValueError, match="`shared_part` must be between 0 and 1"):
        st.FedAvgLangevin(0.1, shared_part=2)
    with pytest.raises(ValueError, match="`shared_part` must be between 0 and 1"):
        st.FALD(0.1, shared_part=-1.0)
    with pytest.raises(TypeError, match="`shared_part` must be a number"):
        st.FALD(0.1, shared_part="a")
    with pytest.raises(ValueError, match="`weights` must be positive"):
        st.FedAvgLangevin(0.1, weights=[1, 0])
    with pytest.raises(ValueError, match="there are 6 sites"):
        st.FedAvgLangevin(0.1, weights=[1, 2]).check(problem, network)
    some = {"participants": 2, "with_replacement": False}
    with pytest.raises(ValueError, match="equal `weights` only"):
        st.FedAvgLangevin.on(problem, 0.1, **some).check(problem, network)
    with pytest.raises(ValueError, match="`participants` is 7"):
        st.FedAvgLangevin(0.1, **{**some, "participants": 7}).check(problem, network)
    st.FedAvgLangevin(0.1, **some).check(problem, network)
    for sampler, text in (
        (st.FALD(0.1), "mixture"),
        (st.FedAvgLangevin(0.1, batch_size=2), "batch_size"),
        (st.FedAvgLangevin(0.1, participants=2), "participants"),
    ):
        with pytest.raises(st.NoLawError, match=text):
            law(problem, network, sampler)
    with pytest.raises(st.StabilityError, match="take less than"):
        st.sample(problem, network, st.FedAvgLangevin(1.0, participants=2), draws=1)


def test_one_number_is_no_list_of_weights():
    with pytest.raises(ValueError, match="a list with a number for each site"):
        st.FedAvgLangevin(0.1, weights=3.0)
