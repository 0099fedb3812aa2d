"""Step, trajectory length and metric of a warm-up, against NumPy, finite differences and theory."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from starlings.methods import warmup
from starlings.methods.hmc import Phase, SummedChains
from starlings.methods.lockstep import pace
from starlings.methods.warmup import (
    Settings,
    first_settings,
    length_fraction,
    pooled_metric,
)
from starlings.models import gaussian
from starlings.network import Network
from starlings.network.gossip import Gossip


def phases(start, end, momentum):
    """A trajectory by its ends, of which only positions and momenta count."""
    zeros = np.zeros(len(start))
    return Phase(start, momentum, zeros, start), Phase(end, momentum, zeros, end)


def dual_averaging(acceptance, step, target, mu):
    """Eqs. (1) and (2): the last step, and the average of all."""
    E, log_average, log_step = 0.0, np.log(step), None
    for t, a in enumerate(acceptance, 1):
        E = (1 - 1 / (t + 10)) * E + (target - a) / (t + 10)
        log_step = min(mu - np.sqrt(t) * E / 0.05, np.log(2.0))
        log_average = t**-0.75 * log_step + (1 - t**-0.75) * log_average
    return np.exp(log_step), np.exp(log_average)


@pytest.mark.parametrize(("is_rough", "target"), [(False, 0.85), (True, 0.5)])
def test_the_step_is_that_of_dual_averaging(is_rough, target):
    acceptance = np.random.default_rng(0).uniform(size=30)
    settings = first_settings(0.3, np.ones(2))
    for t, a in enumerate(acceptance, 1):
        settings = settings.with_step(a, is_rough)
        step, average = dual_averaging(acceptance[:t], 0.3, target, np.log(5 * 0.3))
        assert settings.step == pytest.approx(step, rel=1e-12)
        assert settings.fixed().step == pytest.approx(average, rel=1e-12)


def test_the_step_settles_where_the_target_is_met():
    """Trajectories of length eps on N(0, 1) in many dimensions are accepted like exp(-eps^2)."""
    random, settings = np.random.default_rng(1), first_settings(1.9, np.ones(2))
    for _ in range(2000):
        noise = random.uniform(-0.1, 0.1)
        settings = settings.with_step(np.clip(np.exp(-(settings.step**2)) + noise, 0, 1))
    assert np.exp(-(settings.fixed().step ** 2)) == pytest.approx(0.85, abs=0.01)


def test_no_step_is_longer_than_leapfrogs_are_stable():
    settings = first_settings(1.5, np.ones(2))
    for _ in range(20):
        settings = settings.with_step(1.0)
    assert settings.step == pytest.approx(2.0)


def test_a_new_metric_begins_everything_anew_but_the_step():
    settings = replace(first_settings(0.3, np.ones(2)), length=7.0, slope=0.3, change=0.4)
    for a in (0.1, 0.9, 0.95, 0.99):
        settings = settings.with_step(a)
    metric = np.array([[2.0, 0.0], [1.0, 3.0]])
    found, average = settings.with_metric(metric), settings.fixed().step
    assert (found.step, found.error, found.step_updates) == (average, 0.0, 0)
    assert (found.length, found.slope, found.change) == (warmup.FIRST_LENGTH, 0.0, 0.0)
    assert found.metric is metric
    step, _ = dual_averaging([0.6], average, 0.85, np.log(2 * average))
    assert found.with_step(0.6).step == pytest.approx(step, rel=1e-12)


def test_fractions_are_those_of_van_der_corput():
    """The binary digits of the number, reversed behind the point."""
    for iteration in range(1, 300):
        digits = bin(iteration)[2:]
        reverse = sum(int(b) * 2.0 ** -(k + 1) for k, b in enumerate(reversed(digits)))
        assert length_fraction(iteration) == reverse


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_fractions_fill_the_interval_evenly(bits):
    fractions = sorted(length_fraction(i) for i in range(1, 2**bits))
    np.testing.assert_array_equal(fractions, np.arange(1, 2**bits) / 2**bits)


def test_trajectories_have_as_many_leapfrogs_as_their_length_needs():
    settings = Settings(step=0.3, length=3.0)
    assert [settings.num_leapfrogs(h) for h in (0.5, 0.25, 0.99, 1e-9)] == [5, 3, 10, 1]
    assert replace(settings, step=1e-9).num_leapfrogs(0.5) == warmup.MOST_LEAPFROGS
    assert settings.num_leapfrogs(0.5, most=4) == 4


def test_the_metric_is_a_root_of_the_pooled_covariance():
    random = np.random.default_rng(2)
    draws = random.normal(size=(400, 3)) @ random.normal(size=(3, 3)) + [5.0, 0.0, -9.0]
    A = pooled_metric(draws)
    deviations = draws - draws.mean(axis=0)
    covariance = deviations.T @ deviations / 399
    weight = 400 / 405
    np.testing.assert_allclose(A @ A.T, weight * covariance + (1 - weight) * 1e-3 * np.eye(3))
    np.testing.assert_array_equal(A, np.tril(A))


@pytest.mark.parametrize(("draws", "dim", "is_dense"), [(50, 10, True), (49, 10, False)])
def test_few_draws_for_each_parameter_give_no_correlations(draws, dim, is_dense):
    found = pooled_metric(np.random.default_rng(3).normal(size=(draws, dim)))
    assert found.shape == ((dim, dim) if is_dense else (dim,))


@pytest.mark.parametrize(("dim", "is_dense"), [(1, True), (150, True), (151, False)])
def test_many_parameters_have_a_diagonal_metric(dim, is_dense):
    draws = np.random.default_rng(4).normal(size=(1000, dim)) * np.linspace(1, 2, dim)
    A = pooled_metric(draws)
    assert A.shape == ((dim, dim) if is_dense else (dim,))
    squares = np.diag(A @ A.T) if is_dense else A**2
    weight = 1000 / 1005
    expected = weight * draws.var(axis=0, ddof=1) + (1 - weight) * 1e-3
    np.testing.assert_allclose(squares, expected, rtol=1e-10)


def test_chains_that_never_moved_have_a_metric():
    still = np.repeat([[1.0, 2.0]], 40, axis=0)
    A = pooled_metric(still)
    assert np.all(np.diag(A) > 0)


METRIC = np.array([[0.7, 0.0], [0.4, 1.2]])


def change_and_slope(settings, before, after, acceptance, fraction):
    """C and g of one trajectory, from the averages that begin at zero."""
    found = settings.with_length(before, after, acceptance, fraction)
    return found.change / (1 - warmup.MEMORY), found.slope / (1 - warmup.MEMORY)


def test_the_slope_is_the_derivative_of_the_change_with_the_length():
    """Central differences over T (1 +- 0.001), of leapfrogs so short that they are exact."""
    with jax.enable_x64(True):
        precision = np.array([[2.0, 0.3], [0.3, 0.5]])
        chains = SummedChains.of(gaussian([precision]), Gossip(Network.path(1)))
        random, metric = np.random.default_rng(5), jnp.asarray(METRIC)
        q, p = (
            jnp.asarray(random.normal(size=(40, 2)) + 1),
            jnp.asarray(random.normal(size=(40, 2))),
        )
        before, weights = Phase(q, p, *chains.at(q)), random.uniform(size=40)
        length, fraction, number, width = 1.7, 0.75, 4000, 1e-3

        def found(scale):
            step = fraction * length * scale / number
            after = chains.leapfrogs(number, before, step, metric)
            settings = Settings(step=step, length=length * scale, metric=METRIC)
            return change_and_slope(settings, before, after, weights, fraction)

        difference = (found(1 + width)[0] - found(1 - width)[0]) / np.log((1 + width) / (1 - width))
        assert found(1.0)[1] == pytest.approx(difference, rel=1e-5)


def test_the_change_is_the_weighted_mean_over_chains():
    random = np.random.default_rng(6)
    start, end, momentum = random.normal(size=(3, 5, 2)) + 3
    acceptance = np.array([1.0, 0.5, 0.0, 0.2, 0.9])
    end[2] = np.nan  # a trajectory that diverged counts nothing
    settings = Settings(step=0.1, length=2.0, metric=METRIC)
    C, g = change_and_slope(settings, *phases(start, end, momentum), acceptance, 0.5)
    m = start.mean(axis=0)
    before, after = (np.linalg.solve(METRIC, (x - m).T).T for x in (start, end))
    change = np.sum(after**2, axis=1) - np.sum(before**2, axis=1)
    kept = [0, 1, 3, 4]
    weights = acceptance[kept] / acceptance[kept].sum()
    speed = np.sum(after * momentum, axis=1)
    expected = [weights @ change[kept] ** 2 / 4, 0.5 * 2.0 * weights @ (change * speed)[kept]]
    np.testing.assert_allclose([C, g], expected, rtol=1e-12)


@pytest.mark.parametrize(("pace", "weights"), [(1.0, [0, 0, 1]), (0.5, [1 / 3, 1 / 3, 1 / 3])])
def test_the_centre_is_the_mean_of_the_last_positions(pace, weights):
    """Of all chains at the beginning of the last trajectory, or also of those before it."""
    random, settings = np.random.default_rng(7), Settings(step=0.1, metric=np.ones(2))
    positions = random.normal(size=(3, 5, 2))
    for start in positions:
        settings = settings.with_length(*phases(start, start + 1, start), np.ones(5), 0.5, pace)
    np.testing.assert_allclose(settings.centre, weights @ positions.mean(axis=1), rtol=1e-12)


def test_the_mean_of_few_chains_forgets_slowly():
    settings, expected = Settings(step=0.1, metric=np.ones(1)), 0.0
    for k in range(1, 300):
        start = np.array([[float(k)]])
        settings = settings.with_length(*phases(start, start + 1, start), np.ones(1), 0.5, 0.1)
        expected += max(1 / k, 0.01) * (k - expected)
    np.testing.assert_allclose(settings.centre, expected, rtol=1e-12)


@pytest.mark.parametrize("slope", [-1e3, 0.0, 0.2, 1e3])
def test_the_length_changes_by_the_slope_less_the_price(slope):
    """Averages of g and C over trajectories, and no more than 15 % at a time."""
    start, end = np.array([[0.0], [0.0]]), np.array([[1.0], [-1.0]])
    momentum = slope * end  # then g / (h T) is the slope, and C is 1/4
    settings = Settings(step=0.1, length=2.0, metric=np.ones(1), slope=0.3, change=0.4)
    found = settings.with_length(*phases(start, end, momentum), np.ones(2), 0.5)
    g, C = 0.8 * 0.3 + 0.2 * 0.5 * 2.0 * slope, 0.8 * 0.4 + 0.2 * 0.25
    move = np.clip(0.2 * (g / C - warmup.PRICE), -0.15, 0.15)
    assert found.length == pytest.approx(2.0 * np.exp(move), rel=1e-12)


@pytest.mark.parametrize(("step", "first", "last"), [(0.1, 7.9, 8.0), (0.5, 0.51, 0.5)])
def test_the_length_is_at_least_a_step_and_at_most_the_largest(step, first, last):
    sign = 1 if last > 1 else -1
    start, end = np.array([[0.0], [0.0]]), np.array([[1.0], [-1.0]])
    settings = Settings(step=step, length=first, metric=np.ones(1))
    found = settings.with_length(*phases(start, end, sign * 1e3 * end), np.ones(2), 0.5)
    assert found.length == last


def test_chains_of_which_none_moved_change_nothing():
    start = np.random.default_rng(8).normal(size=(3, 2))
    settings = Settings(step=0.1, length=2.0, metric=np.ones(2), slope=0.3, change=0.4)
    lost = phases(start, np.full((3, 2), np.nan), np.full((3, 2), np.nan))
    for before, after, acceptance in [(*lost, np.zeros(3)), (*phases(start, start, start), 1.0)]:
        found = settings.with_length(before, after, np.broadcast_to(acceptance, 3), 0.5)
        assert (found.length, found.slope, found.change) == (2.0, 0.3, 0.4)


def price_less_gain(T):
    """PRICE log T - log C of exact trajectories on N(0, I), up to a constant.

    There |u'|^2 has the correlation cos^2 t with |u|^2 after a time t, so that C is proportional to
    the mean of sin^2 (h T) over h between 0 and 1.
    """
    return warmup.PRICE * np.log(T) - np.log(0.5 - np.sin(2 * T) / (4 * T))


def best_length():
    """The T for which it is least."""
    return minimize_scalar(price_less_gain, bounds=(0.5, 4.0), method="bounded").x


@pytest.mark.parametrize("first", [0.3, 6.0])
@pytest.mark.parametrize("chains", [128, 4, 1])
def test_the_length_comes_near_the_best_for_a_gaussian(first, chains):
    """Of any number of chains: a tenth of C may be lost by the noise of the steps, on average."""
    random = np.random.default_rng(9)
    settings = Settings(step=0.05, length=first, metric=np.ones(10))
    u, lengths = random.normal(size=(chains, 10)), []
    for iteration in range(1, 1501):
        fraction, p = length_fraction(iteration), random.normal(size=(chains, 10))
        t = fraction * settings.length
        end, momentum = np.cos(t) * u + np.sin(t) * p, np.cos(t) * p - np.sin(t) * u
        ends = phases(u, end, momentum)
        settings = settings.with_length(*ends, np.ones(chains), fraction, pace(chains))
        u = end
        lengths.append(settings.length)
    loss = [price_less_gain(length) for length in lengths[500:]]
    assert np.mean(loss) < price_less_gain(best_length()) + 0.1
