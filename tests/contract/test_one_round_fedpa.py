"""FedPA and its Laplace draws against dense NumPy transcriptions, and its directions by solving."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.samplers.fedpa import shrunk_direction
from starlings.theory import law
from tests.contract.test_one_round_split import DIM, SITES, compare, noise, round_of
from tests.problems import unequal_linear_problem

SEARCH = {"client_step": 0.3, "samples": 3, "window": 2, "local_burn_in": 3}


def solved_direction(x, draws, s):
    """S^-1 (x - mean) with the covariance of the draws, shrunk towards the identity."""
    count = len(draws)
    r = 1 / (1 + (count - 1) * s)
    away = draws - draws.mean(axis=0)
    covariance = away.T @ away / max(count - 1, 1)
    shrunk = r * np.eye(len(x)) + (1 - r) * covariance
    return np.linalg.solve(shrunk, x - draws.mean(axis=0))


@pytest.mark.quick(1)
@pytest.mark.parametrize(("count", "s"), [(20, 0.3), (20, 0.0), (2, 0.3), (1, 0.3)])
def test_directions_are_those_of_a_direct_solution(count, s):
    random = np.random.default_rng(count)
    draws, x = random.normal(size=(count, 5)) * [1.0, 0.2, 2.0, 1.0, 0.5], random.normal(size=5)
    with jax.enable_x64(True):
        found = np.asarray(shrunk_direction(jnp.asarray(x), jnp.asarray(draws), s))
    wanted = solved_direction(x, draws, s)
    assert np.abs(found - wanted).max() < 1e-13 * np.abs(wanted).max()


@pytest.mark.slow
def test_directions_of_well_sampled_gaussian_sites_cancel_at_the_mean_of_their_product():
    """And those of federated averaging do not."""
    random = np.random.default_rng(3)
    means, scales = random.normal(size=(4, 2)), random.uniform(0.3, 2.0, size=(4, 2))
    precisions = scales**-2.0
    mean = (precisions * means).sum(axis=0) / precisions.sum(axis=0)
    exact = precisions * (mean - means)
    units = random.normal(size=(4, 2000, 2))
    units = (units - units.mean(axis=1, keepdims=True)) / units.std(axis=1, keepdims=True)
    draws = means[:, None] + scales[:, None] * units
    with jax.enable_x64(True):
        large, none = (
            np.array([shrunk_direction(jnp.asarray(mean), jnp.asarray(own), s) for own in draws])
            for s in (1e6, 0.0)
        )
    assert np.abs(large.sum(axis=0)).max() < 0.05 * np.abs(exact).max()
    assert np.abs(none.sum(axis=0)).max() > 0.5 * np.abs(none).max()


def slope_of_batch(problem, site, y, key, size):
    """An estimate of the gradient of f_i, which has a sixth of the prior N(0, 5 I)."""
    rows = problem.shards[problem.sites[site]]
    X, labels = np.asarray(rows["x"]), np.asarray(rows["y"])
    batch = np.asarray(jax.random.randint(key, (size,), 0, len(labels)))
    residual = X[batch] @ y - labels[batch]
    return len(labels) / size * X[batch].T @ residual + y / 5 / SITES


@pytest.mark.quick(1)
@pytest.mark.parametrize("batch", [None, 4])
def test_fedpa(batch):
    """Two steps with momentum, the Hessians, and draws."""
    problem, settings = unequal_linear_problem(), dict(SEARCH, updates=2, batch_size=batch)
    eta, s, beta, alpha = 0.4, 0.7, 0.5, SEARCH["client_step"]

    def draws_of_site(H, b, x, index, i):
        keys = jax.random.split(round_of(index, 1 + i).batch_key(), 9)
        y, path = x, []
        for key in keys:
            slope = H[1 + i] @ y - b[1 + i]
            if batch is not None:
                slope = slope_of_batch(problem, i, y, key, batch)
            y = y - alpha / problem.num_rows[i] * slope
            path.append(y)
        return np.array(path[3:]).reshape(3, 2, DIM).mean(axis=1)

    def expected(H, b, start):
        x, v = start[0], np.zeros(DIM)
        for k in range(2):
            sites = [draws_of_site(H, b, x, 2 * k + 1, i) for i in range(SITES)]
            v = beta * v + np.mean([solved_direction(x, own, s) for own in sites], axis=0)
            x = x - eta * v
            yield x
        factor = np.linalg.cholesky(H.sum(axis=0))
        for k in range(2, 5):
            yield x + np.linalg.solve(factor.T, noise(2 * k + 2, 0))

    sampler = st.FedPA(server_step=eta, shrinkage=s, momentum=beta, **settings)
    compare(sampler, lambda *given: list(expected(*given)), cycles=5)


def test_draws_have_the_covariance_of_the_posterior():
    """About the mode that was found, by the law, from a start without spread."""
    problem, network = st.with_hub(unequal_linear_problem())
    sampler = st.FedPA(**SEARCH, shrinkage=0.0, updates=3)
    *_, last = law(problem, network, sampler).moments(12, initial_covariance=0.0)
    _, target = problem.exact_posterior()
    for agent in range(SITES + 1):
        np.testing.assert_allclose(last.agent(agent)[1], target, rtol=1e-10)


def test_sites_send_nothing_once_they_have_sent_their_hessians():
    _, network = st.with_hub(unequal_linear_problem())
    sampler = st.FedPA(**SEARCH, updates=3)
    sent = sampler.messages_until(np.array([1, 2, 7, 8, 9, 20]), network)
    np.testing.assert_array_equal(sent[:, 0], [6, 6, 24, 24, 30, 60])
    np.testing.assert_array_equal(sent[:, 1], [0, 1, 3, 4, 4, 4])


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match="`momentum` must be from 0 to below 1"):
        st.FedPA(0.1, momentum=1.0)
    with pytest.raises(ValueError, match="`shrinkage` must be positive"):
        st.FedPA(0.1, shrinkage=-1.0)


@pytest.mark.slow
def test_the_search_comes_nearer_to_the_mode_than_federated_averaging():
    """Two sites that know one coefficient each: windows of a pass through their 40 rows."""
    random = np.random.default_rng(2)
    scale, truth = np.repeat([[[1.0, 0.3], [0.3, 1.0]], [[0.5, 1.5], [1.5, 0.5]]], 40, axis=1)
    X = scale * random.normal(size=(80, 2))
    y, sites = np.sum(X * truth, axis=1) + random.normal(size=80), np.repeat(["a", "b"], 40)
    problem = st.models.linear_regression(X, y, sites, noise_std=1.0, intercept=False)
    mean, covariance = problem.exact_posterior()
    found, network = st.with_hub(problem)
    search = {"client_step": 0.5, "updates": 100, "samples": 40, "window": 20, "batch_size": 2}
    how = {"draws": 1, "burn_in": 210, "chains": 50, "seed": 1, "check": False, "progress": False}

    def distance(sampler):
        draws = st.sample(found, network, sampler, **how).posterior["beta"].values[:, 0, 0]
        return np.abs((draws.mean(axis=0) - mean) / np.sqrt(np.diag(covariance))).max()

    near = distance(st.FedPA(**search, server_step=0.02, shrinkage=10.0))
    far = distance(st.FedPA(**search, shrinkage=0.0))
    assert near < 0.6 * far
