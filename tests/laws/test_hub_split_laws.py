"""The laws of split Gibbs and its kin in closed form, and estimates at ties of no width."""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from starlings.theory import law
from tests.problems import unequal_linear_problem


def one_parameter(curvatures):
    return st.with_hub(st.models.gaussian(np.array(curvatures)[:, None, None]))


def hub_variance(curvatures, sampler):
    problem, network = one_parameter(curvatures)
    return law(problem, network, sampler).stationary().agent(0)[1].item()


def softened(H, variance):
    """(H^-1 + variance I)^-1, also where H has no inverse."""
    return np.linalg.solve(np.eye(len(H)) + variance * H, H)


@pytest.mark.parametrize(
    ("sampler", "variance"),
    [
        (st.SplitGibbs(0.5), 0.25),
        (st.SplitGibbs(0.5, 0.4), 0.41),
        (st.GlobalConsensusMC(0.25), 0.25),
    ],
)
def test_the_hub_has_the_law_with_copies_integrated_out(sampler, variance):
    """Precision sum_i (H_i^-1 + r I)^-1, and the prior at the hub is not softened."""
    problem, network = st.with_hub(unequal_linear_problem(), prior=sampler.prior_at)
    hub, *sites = np.asarray(problem.quadratic.hessian)
    soft = [softened(H, variance) for H in sites]
    precision = hub + sum(soft)
    shifts = [
        np.linalg.solve(np.eye(3) + variance * H, b)
        for H, b in zip(sites, np.asarray(problem.quadratic.linear)[1:], strict=True)
    ]
    mean, covariance = law(problem, network, sampler).stationary().agent(0)
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-9)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, sum(shifts)), rtol=1e-9)


def test_variance_and_contraction_of_split_gibbs_with_one_parameter():
    """1 / sum_i 1 / (1 / L_i + rho^2), and mean_i 1 / (1 + rho^2 L_i) in each cycle."""
    curvatures, rho = np.array([0.5, 1.0, 3.0]), 0.7
    wanted = 1 / np.sum(1 / (1 / curvatures + rho**2))
    assert hub_variance(curvatures, st.SplitGibbs(rho)) == pytest.approx(wanted, rel=1e-11)
    cycle = law(*one_parameter(curvatures), st.SplitGibbs(rho)).whole_cycle()
    contraction = np.mean(1 / (1 + rho**2 * curvatures))
    assert cycle.spectral_radius() == pytest.approx(contraction, rel=1e-11)


def test_dglmc_with_one_site():
    """z is a chain with the factor 1 - g L and noise 2 g + g^2 / r, and x ~ N(z, r)."""
    curvature, r, scale = 2.0, 0.3, 0.8
    g = scale / (1 / r + curvature)
    wanted = (2 * g + g**2 / r) / (1 - (1 - g * curvature) ** 2) + r
    found = hub_variance([curvature], st.DGLMC(r, step_scale=scale))
    assert found == pytest.approx(wanted, rel=1e-11)


def test_dglmc_has_the_law_of_split_gibbs_in_the_limit_of_many_small_steps():
    """The bias of the steps is of first order: half of it with half the step."""
    curvatures, rho = [0.5, 1.0, 3.0], 0.6
    limit = hub_variance(curvatures, st.SplitGibbs(rho))
    one, half, quarter = (
        hub_variance(curvatures, st.DGLMC(rho**2, local_steps=4, step_scale=scale)) - limit
        for scale in (0.2, 0.1, 0.05)
    )
    assert one > 0
    assert half / quarter == pytest.approx(2, rel=0.05)
    assert one / half == pytest.approx(2, rel=0.1)


def test_variances_of_sites_add_up_as_precisions_in_dglmc():
    """With r_i = 1 / (k_i) and steps so small that copies have their conditional laws."""
    curvatures, variances = np.array([0.5, 1.0, 3.0]), np.array([0.1, 0.3, 0.5])
    precision = np.diag(curvatures + 1 / variances)
    joint = np.block(
        [
            [np.array([[np.sum(1 / variances)]]), -1 / variances[None]],
            [-1 / variances[:, None], precision],
        ]
    )
    wanted = np.linalg.inv(joint)[0, 0]
    found = hub_variance(curvatures, st.DGLMC(variances.tolist(), step_scale=1e-4))
    assert found == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("kind", [st.GlobalConsensusMC, lambda r: st.SplitGibbs(r**0.5)])
def test_extrapolation_takes_off_the_bias_of_first_order(kind):
    """Covariances from exact laws: with half the variances half the bias, and a quarter after."""
    prior_at = kind(1.0).prior_at
    problem, network = st.with_hub(unequal_linear_problem(), prior=prior_at)
    _, target = problem.exact_posterior()

    def biases(scale):
        strengths = scale * np.array([1.0, 2.0, 4.0])
        found = [law(problem, network, kind(r)).stationary().agent(0)[1] for r in strengths]
        at_zero = st.estimate_at_zero(strengths, found, np.ones((3, 1, 1)))
        return [np.abs(each - target).max() for each in (found[0], at_zero.estimate)]

    (plain, corrected), (plain_half, corrected_half) = biases(2e-3), biases(1e-3)
    assert plain / plain_half == pytest.approx(2, rel=0.05)
    assert corrected / corrected_half == pytest.approx(4, rel=0.15)
    assert corrected < 0.15 * plain


def test_estimates_at_zero_are_weighted_least_squares():
    random = np.random.default_rng(0)
    strengths, values = np.array([0.1, 0.3, 0.4, 2.0]), random.normal(size=(4, 2))
    variances = random.uniform(0.5, 2.0, size=(4, 2))
    found = st.estimate_at_zero(strengths, values, variances, largest=1.0)
    for column in range(2):
        design = np.column_stack([np.ones(3), strengths[:3]])
        weight = np.diag(1 / variances[:3, column])
        covariance = np.linalg.inv(design.T @ weight @ design)
        wanted = covariance @ design.T @ weight @ values[:3, column]
        assert found.estimate[column] == pytest.approx(wanted[0], rel=1e-11)
        assert found.error[column] == pytest.approx(covariance[0, 0] ** 0.5, rel=1e-11)


def test_estimates_that_have_no_line_are_refused():
    with pytest.raises(ValueError, match="two different strengths"):
        st.estimate_at_zero([0.1, 0.1], [1.0, 2.0])
    with pytest.raises(ValueError, match="one row for each"):
        st.estimate_at_zero([0.1, 0.2], [1.0])
    with pytest.raises(ValueError, match="must be positive"):
        st.estimate_at_zero([0.1, 0.2], [1.0, 2.0], [1.0, 0.0])
