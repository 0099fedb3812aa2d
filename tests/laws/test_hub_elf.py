"""ELF: no compression is unadjusted Langevin dynamics, and exact moments with random entries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import starlings as st
from starlings.theory import Recursion, has_law, law
from tests.laws.mixtures import Case, stationary
from tests.problems import unequal_linear_problem

GAMMA = 0.2


def two_sites():
    """Two parameters at two sites that differ, whose curvatures sum to about 1."""
    hessians = [[[0.9, 0.3], [0.3, 0.2]], [[0.3, -0.2], [-0.2, 0.6]]]
    return st.with_hub(st.models.gaussian(hessians, [[1.0, -2.0], [0.5, 1.5]]))


def masks(dim):
    """The matrices that keep one entry."""
    return [np.diag(row) for row in np.eye(dim)]


def one_cycle(problem, form):
    """Cases of one cycle with one random entry, from the published algorithms.

    The state is (x, w, g_1, ..., g_b), after g_i was renewed. On the whole, g is the mean of g_i.
    """
    H, b = problem.quadratic.hessian[1:], problem.quadratic.linear[1:]
    count, dim = b.shape
    eye = np.eye(dim)
    hub = masks(dim) if form != "dual" else [eye]
    sites = masks(dim) if form != "primal" else [eye]
    everything = np.eye((2 + count) * dim)
    x, w, *g = np.split(everything, 2 + count)
    new_x = x - GAMMA * sum(g) / count
    draws = [(P, Q) for P in hub for Q in itertools.product(sites, repeat=count)]
    cases = []
    for P, Qs in draws:
        new_w = w + P @ (new_x - w)
        rows, offset, noise = [new_x, new_w], [np.zeros(2 * dim)], [eye, P]
        for own, Q, h, shift in zip(g, Qs, count * H, count * b, strict=True):
            rows.append(own + Q @ (h @ new_w - own))
            offset.append(-Q @ shift)
            noise.append(Q @ h @ P)
        kick = np.sqrt(2 * GAMMA) * np.vstack(noise)
        step = Recursion(np.vstack(rows), np.concatenate(offset), kick)
        cases.append(Case(1 / len(draws), step))
    return cases


def moments(problem, form):
    """Mean and covariance of the iterate."""
    mean, covariance = stationary(one_cycle(problem, form))
    return mean[: problem.dim], covariance[: problem.dim, : problem.dim]


def ratio(problem, covariance):
    return np.trace(covariance @ problem.quadratic.hessian.sum(axis=0)) / problem.dim


def test_without_compression_it_is_langevin_dynamics():
    """The ratio of a direction of curvature h is 1 / (1 - gamma h / 2)."""
    problem, network = two_sites()
    mean, target = problem.exact_posterior()
    for form in ("dual", "primal", "bidirectional"):
        moments = law(problem, network, st.ELF(GAMMA, form)).stationary()
        np.testing.assert_allclose(moments.agent(0)[0], mean, rtol=1e-10)
        H = np.linalg.inv(target)
        exact = np.linalg.inv(H @ (np.eye(2) - GAMMA * H / 2))
        np.testing.assert_allclose(moments.agent(0)[1], exact, rtol=1e-10)


@pytest.mark.parametrize("form", ["dual", "primal", "bidirectional"])
def test_compression_widens_and_does_not_move_the_mean(form):
    problem, network = two_sites()
    mean, covariance = moments(problem, form)
    np.testing.assert_allclose(mean, problem.exact_posterior()[0], rtol=1e-9)
    plain = law(problem, network, st.ELF(GAMMA)).stationary().agent(0)[1]
    assert ratio(problem, covariance) > 1.02 * ratio(problem, plain) > 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["dual", "primal", "bidirectional"])
def test_simulations_have_the_exact_moments_of_random_entries(form):
    problem, network = two_sites()
    sampler, chains = st.ELF(GAMMA, form, keep=1, entries="random"), 4000
    assert not has_law(sampler)
    how = {"draws": 1, "thin": 2, "chains": chains, "burn_in": 300, "seed": 5, "check": False}
    result = st.sample(problem, network, sampler, **how, progress=False)
    draws = result.posterior["x"].values[:, 0, 0]
    mean, covariance = moments(problem, form)
    away = draws - mean
    products = away[:, :, None] * away[:, None]
    for values, wanted in ((draws, mean), (products, covariance)):
        error = values.std(axis=0) / np.sqrt(chains)
        assert (np.abs(values.mean(axis=0) - wanted) < 4.5 * error).all()


@pytest.mark.slow
def test_one_largest_entry_of_five_widens_as_a_simulation_of_the_equations_says():
    """Runs with one seed have the same noise, so that their difference is known well.

    The excess of the ratio over that of Langevin dynamics is from NumPy loops over the published
    equations, with errors below 0.0005.
    """
    random = np.random.default_rng(1)
    factors, linear = random.normal(size=(5, 5, 5)), random.normal(size=(5, 5))
    hessians = factors @ factors.swapaxes(1, 2) / 25
    problem, network = st.with_hub(st.models.gaussian(hessians, linear / 5))
    mean, _ = problem.exact_posterior()
    how = {"chains": 500, "draws": 160, "thin": 20, "burn_in": 1800, "seed": 2, "check": False}

    def ratio_of(sampler):
        draws = st.sample(problem, network, sampler, **how, progress=False).posterior["x"]
        away = draws.values[:, :, 0].reshape(-1, 5) - mean
        return ratio(problem, away.T @ away / len(away)), away.mean(axis=0)

    plain, centre = ratio_of(st.ELF(0.01))
    for form, excess in (("dual", 0.0088), ("primal", 0.0067), ("bidirectional", 0.0122)):
        found, place = ratio_of(st.ELF(0.01, form, keep=1))
        assert found - plain == pytest.approx(excess, abs=0.001)
        assert np.abs(place - centre).max() < 0.002


def test_settings_that_cannot_be_are_refused():
    problem, network = st.with_hub(unequal_linear_problem())
    with pytest.raises(ValueError, match="Did you mean 'dual'"):
        st.ELF(0.1, "dul")
    with pytest.raises(ValueError, match="`entries` must be one of"):
        st.ELF(0.1, entries="first")
    with pytest.raises(ValueError, match="`keep` must be a whole number"):
        st.ELF(0.1, keep=0)
    with pytest.raises(ValueError, match="`keep` is 4, and there are 3 parameters"):
        st.ELF(0.1, keep=4).check(problem, network)
    with pytest.raises(st.NoLawError, match="leave `keep` out"):
        law(problem, network, st.ELF(0.1, keep=3))
    with pytest.raises(st.StabilityError, match="take less than"):
        st.sample(problem, network, st.ELF(1.0), draws=1)
