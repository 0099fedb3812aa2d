"""Stein's identities, on draws whose errors are known exactly."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy.special import digamma, polygamma

import starlings as st
from starlings.diagnostics.stein import Stein, mean_and_error
from starlings.diagnostics.stein_network import check_stein_identities, summed_gradients
from starlings.network.gossip import Gossip
from tests.problems import irregular_graph, unequal_linear_problem


def gaussian_problem(dim=3, agents=4, seed=0):
    """Local potentials of all kinds whose sum is that of N(mean, I); the problem and the mean."""
    random = np.random.default_rng(seed)
    hessians = random.normal(size=(agents, dim, dim))
    hessians = hessians + np.swapaxes(hessians, 1, 2)
    hessians[-1] = np.eye(dim) - hessians[:-1].sum(axis=0)
    linear = random.normal(size=(agents, dim))
    return st.models.gaussian(hessians, linear), linear.sum(axis=0)


def coherent(draws, agents=4):
    """The same draws (chain, draw, dim) at every agent."""
    return np.repeat(draws[:, :, None], agents, axis=2)


def normal_draws(mean, sd, chains=4, draws=250, seed=2):
    random = np.random.default_rng(seed)
    return coherent(mean + sd * random.normal(size=(chains, draws, len(mean))))


def skewed_problem():
    """x = log of a Gamma(4, rate 4) variable, at three sites, in units of the curvature at 0."""
    shards = [{"a": [1.0], "b": [0.5]}, {"a": [2.0], "b": [2.5]}, {"a": [1.0], "b": [1.0]}]
    problem = st.Problem(
        lambda p, row: row["a"] * p["x"] - row["b"] * jnp.exp(p["x"]),
        lambda p: 0.0,
        {"x": ()},
        shards,
    )
    return problem.affine([0.0], [[0.5]])


def blur(stein, off):
    """Four errors, and the share of a shift that the identities do not see."""
    return 4 * stein.shift_error[0, 0] + (1 - stein.shift_seen[0, 0]) * abs(off)


def test_sums_are_the_pooled_gradient():
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    draws = np.random.default_rng(0).normal(size=(3, 5, 6, 3))
    with jax.enable_x64(True):
        own, found = summed_gradients(Gossip(network), problem.agents(network), [1, 4], draws)
        np.testing.assert_array_equal(own, np.moveaxis(draws[:, :, [1, 4]], 2, 0))
        pooled = jax.tree.map(lambda a: a[0], problem.pooled().agents())
        exact = jax.vmap(pooled.gradient)(own.reshape(-1, 3))
    np.testing.assert_allclose(found.reshape(-1, 3), exact, rtol=1e-10, atol=1e-10)


def test_a_wrong_gaussian_shows_its_mean_and_variance():
    """There G = z - mean, so that the sample's own moments come back exactly."""
    problem, mean = gaussian_problem()
    delta, sd = np.array([0.5, 0.0, -0.3]), np.array([1.0, 1.5, 0.8])
    draws = normal_draws(mean + delta, sd)
    stein = check_stein_identities(problem, st.Network.ring(4), draws)
    own = draws[:, :, 0].reshape(-1, 3)
    np.testing.assert_allclose(stein.shift[0], own.mean(axis=0) - mean, atol=1e-10)
    np.testing.assert_allclose(stein.stretch[0], own.var(axis=0), atol=1e-10)
    assert (np.abs(stein.shift[0] - delta) < 4 * stein.shift_error[0]).all()
    assert (np.abs(stein.stretch[0] - sd**2) < 4 * stein.stretch_error[0]).all()
    # 1,000 independent draws: sd/sqrt(n), and sqrt(2) sd^2/sqrt(n)
    np.testing.assert_allclose(stein.shift_error[0], sd / np.sqrt(1000), rtol=0.3)
    np.testing.assert_allclose(stein.stretch_error[0], sd**2 * np.sqrt(2 / 1000), rtol=0.3)
    assert stein.worst_shift[:2] == ("0", "x[0]")
    assert stein.worst_stretch[:2] == ("0", "x[1]")
    mean_text, variance_text = stein.violations
    assert "mean of x[0] at agent 0 is off by about 0.5" in mean_text
    assert "sd of x[1] at agent 0 is about 1." in variance_text


def test_right_draws_pass_in_a_hundred_dimensions():
    problem, mean = gaussian_problem(dim=100)
    stein = check_stein_identities(
        problem, st.Network.star(4), normal_draws(mean, 1.0, draws=1000), 4000
    )
    assert stein.violations == []
    assert not stein.undecided
    assert stein.sigmas > 4
    assert "Stein's identities hold" in str(stein)


def test_small_errors_are_let_pass_however_certain():
    problem, mean = gaussian_problem()
    stein = check_stein_identities(
        problem, st.Network.ring(4), normal_draws(mean + 0.05, 1.0, draws=5000), 20_000
    )
    assert abs(stein.worst_shift.value) > 4 * stein.worst_shift.error
    assert stein.violations == []


def test_a_skewed_target_tells_exact_draws_from_its_laplace_approximation():
    """z = 2 log Gamma(4, 4): what is wrong with N(0, 1) for it is known in closed form."""
    problem, network = skewed_problem(), st.Network.path(3)
    random = np.random.default_rng(2)
    exact = 2 * np.log(random.gamma(4.0, 1 / 4.0, size=(4, 500, 1)))
    right = check_stein_identities(problem, network, coherent(exact, 3), 2000)
    assert right.violations == []
    assert not right.undecided
    wrong = check_stein_identities(
        problem, network, coherent(random.normal(size=(4, 500, 1)), 3), 2000
    )
    mean, variance = 2 * (digamma(4) - np.log(4)), 4 * polygamma(1, 4)
    shift, stretch = -mean / np.sqrt(variance), 1 / variance
    assert abs(wrong.shift[0, 0] - shift) < 4 * wrong.shift_error[0, 0]
    assert abs(wrong.stretch[0, 0] - stretch) < 4 * wrong.stretch_error[0, 0]
    assert "the mean of x at agent 0" in wrong.violations[0]


def test_a_steep_gradient_neither_exaggerates_nor_hides_what_is_wrong_elsewhere():
    """Draws of a have some tails that they should not have, where its gradient is in the
    thousands; what is wrong beyond that is the mean of b, by 0.3 sd."""
    random = np.random.default_rng(0)
    shards = [{"one": [1.0]}, {"one": [1.0]}]
    problem = st.Problem(
        lambda p, row: (p["a"] - jnp.exp(p["a"]) - p["b"] ** 2 / 2) * row["one"] / 2,
        lambda p: 0.0,
        {"a": (), "b": ()},
        shards,
    )
    turn = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    moved = problem.affine([0.0, 0.0], turn)
    a = np.log(random.gamma(1.0, size=(4, 500)))
    a[:, ::100] += 5.0
    x = np.stack([a, 0.3 + random.normal(size=(4, 500))], axis=-1)
    gradient = np.exp(a) - 1
    assert gradient.mean() / np.pi * np.sqrt(6) > 1, "which would say: off by more than an sd"
    stein = check_stein_identities(moved, st.Network.path(2), coherent(x @ turn, 2), 2000)
    assert stein.coordinates == ["a", "b"]
    assert stein.worst_shift.coordinate == "b"
    assert stein.worst_shift.value == pytest.approx(0.3, abs=4 * stein.worst_shift.error)
    off = (a.mean() + np.euler_gamma) / (np.pi / np.sqrt(6))
    assert abs(stein.shift[0, 0] - off) < blur(stein, off)
    assert [text[:16] for text in stein.violations] == ["the mean of b at"]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_errors_respect_autocorrelation(correlation):
    """The mean of stationary AR(1) chains, over its error, has sd 1: 500 of them know it to 3 %."""
    random = np.random.default_rng(3)
    series = np.empty((4, 250, 500))
    series[:, 0] = random.normal(size=(4, 500))
    for t in range(1, 250):
        noise = np.sqrt(1 - correlation**2) * random.normal(size=(4, 500))
        series[:, t] = correlation * series[:, t - 1] + noise
    mean, error = mean_and_error(series)
    assert 0.85 < np.sqrt(np.mean((mean / error) ** 2)) < 1.15


def test_stuck_chains_are_undecided_not_wrong():
    """Four chains that never move know their mean to 1/2 sd at best."""
    problem, mean = gaussian_problem()
    starts = np.random.default_rng(4).normal(size=(4, 1, 3))
    wiggle = 0.01 * np.random.default_rng(5).normal(size=(4, 250, 3))
    stein = check_stein_identities(problem, st.Network.ring(4), coherent(mean + starts + wiggle))
    assert (stein.shift_error > 0.1).all()
    assert stein.undecided
    assert "undecided" in str(stein)


def test_few_draws_and_gradients_that_overflow_are_undecided():
    problem, mean = gaussian_problem()
    few = check_stein_identities(problem, st.Network.ring(4), normal_draws(mean, 1.0, draws=3))
    assert few.undecided
    assert "too few draws" in str(few)
    one = check_stein_identities(
        problem, st.Network.ring(4), normal_draws(mean, 1.0, chains=1, draws=1)
    )
    assert one.undecided
    far = coherent(np.full((2, 50, 1), 5000.0), 3)
    assert check_stein_identities(skewed_problem(), st.Network.path(3), far).undecided


def test_heavy_tails_are_not_mistaken_for_a_far_mean():
    """Draws with wide tails meet the exponential wall: a few gradients are all of their mean."""
    draws = np.random.default_rng(6).standard_t(3, size=(4, 250, 1))
    stein = check_stein_identities(skewed_problem(), st.Network.path(3), coherent(draws, 3))
    gradient = 2 * np.expm1(draws / 2)
    off = (draws.mean() - 2 * (digamma(4) - np.log(4))) / np.sqrt(4 * polygamma(1, 4))
    assert gradient.mean() > off + 0.5
    assert abs(stein.shift[0, 0] - off) < blur(stein, off)
    assert "the sd of x at agent 0 is about 1." in stein.violations[-1]


def test_what_the_identities_cannot_see_is_undecided():
    """Two narrow modes far apart: within each the gradient says nothing of the other."""
    problem = st.Problem(
        lambda p, row: jnp.logaddexp(-0.5 * (p["x"] - 20) ** 2, -0.5 * (p["x"] + 20) ** 2) / 2,
        lambda p: 0.0,
        {"x": ()},
        [{"y": [0.0]}, {"y": [0.0]}],
    )
    random = np.random.default_rng(1)
    modes = np.where(random.random((4, 250, 1)) < 0.3, -20.0, 20.0)
    draws = modes + random.normal(size=(4, 250, 1))
    stein = check_stein_identities(problem, st.Network.path(2), coherent(draws, 2))
    assert stein.shift_seen[0, 0] < 0.1
    assert stein.undecided


def test_draws_that_do_not_vary_are_wrong():
    problem, mean = gaussian_problem()
    stein = check_stein_identities(problem, st.Network.ring(4), normal_draws(mean, 0.0))
    assert "the sd of x[0] at agent 0 is about 0.00 times" in stein.violations[0]
    assert stein.worst_stretch.value == pytest.approx(-1.0)


def test_the_agents_that_differ_are_examined():
    problem, mean = gaussian_problem(agents=6)
    network = st.Network(irregular_graph())
    draws = coherent(normal_draws(mean, 1.0)[:, :, 0], 6)
    assert check_stein_identities(problem, network, draws).agents == ["0"]
    draws[:, :, 3] += 0.4
    draws[:, :, 4] = mean + 1.3 * (draws[:, :, 4] - mean)
    stein = check_stein_identities(problem, network, draws)
    assert stein.agents == ["0", "3", "4"]
    assert stein.worst_shift.agent == "3"
    assert stein.worst_stretch.agent == "4"


def test_the_ledger_counts_all_that_is_sent():
    problem, mean = gaussian_problem()
    draws = normal_draws(mean, 1.0, draws=60)
    stein = check_stein_identities(problem, st.Network.path(4), draws, most_draws=100)
    assert stein.draws == 80  # every third of 4 x 60
    # a path of 4 has a radius of 2, 3 links to parents and 6 directed links: each of the four sums
    # takes 4 rounds and 9 messages, of 6 and 4 floats, and twice of 80 x 3
    assert (stein.rounds, stein.messages) == (4 * 4, 4 * 9)
    assert stein.floats == 9 * (6 + 4 + 2 * 80 * 3)


def test_one_agent_alone_sends_nothing():
    problem = st.models.gaussian(np.eye(2)[None])
    draws = np.random.default_rng(7).normal(size=(500, 1, 2))
    stein = check_stein_identities(problem, st.Network(nx.path_graph(1)), draws)
    assert stein.messages == 0
    np.testing.assert_allclose(stein.shift[0], draws[:, 0].mean(axis=0), atol=1e-12)


def test_a_record_survives_json():
    problem, mean = gaussian_problem()
    stein = check_stein_identities(problem, st.Network.ring(4), normal_draws(mean + 0.5, 1.0))
    again = Stein.from_record(json.loads(json.dumps(stein.record())))
    np.testing.assert_array_equal(again.stretch_error, stein.stretch_error)
    assert again.violations == stein.violations != []
    assert again.record() == stein.record()


def test_bad_positions_are_refused():
    problem, _ = gaussian_problem()
    with pytest.raises(ValueError, match=r"\(agent, dim\) = \(4, 3\), got \(10, 3\)"):
        check_stein_identities(problem, st.Network.ring(4), np.zeros((10, 3)))
    with pytest.raises(ValueError, match="`most_draws` must be a whole number"):
        check_stein_identities(problem, st.Network.ring(4), np.zeros((10, 4, 3)), most_draws=0)
