"""What QLSD draws from: the price of quantised gradients, of few sites, and what saves it."""

from __future__ import annotations

from itertools import combinations

import jax
import numpy as np
import pytest
import scipy.stats

import starlings as st
from starlings.errors import NoLawError, StabilityError
from starlings.samplers.qlsd import QLSD_FORMS, quantised
from starlings.theory import Recursion, law
from tests.laws.mixtures import iterates, moment_scores, stationary_of_mixture
from tests.problems import paper_problem

ALARM = 1e-5
SITES, ETA = 12, 1 / 360
RADIUS = 2.56
"""The distance of the modes of sites from the mode of all, in units of the sd at one site."""


def ring_of_modes():
    """Equal curvatures 1 in two dimensions, with modes on a circle; the mode of all is zero."""
    angles = 0.2 + 2 * np.pi * np.arange(SITES) / SITES
    modes = RADIUS * np.column_stack([np.cos(angles), np.sin(angles)])
    return st.models.gaussian(np.broadcast_to(np.eye(2), (SITES, 2, 2)), modes), modes


def langevin_ratio(eta):
    return 1 / (1 - eta * SITES / 2)


def test_without_quantisation_it_is_unadjusted_langevin():
    """ULA 1.017 in every form, with all sites and all rows; the mean is that of the posterior."""
    problem, network = st.with_hub(ring_of_modes()[0])
    for form in QLSD_FORMS:
        mode = np.zeros(2) if form == "fixed-point" else None
        moments = law(problem, network, st.QLSD(ETA, form, levels=None, mode=mode)).stationary()
        mean, covariance = moments.agent(0)
        np.testing.assert_allclose(mean, 0, atol=1e-12)
        np.testing.assert_allclose(SITES * covariance, langevin_ratio(ETA) * np.eye(2), atol=1e-12)
    assert f"{langevin_ratio(ETA):.3f}" == "1.017"


def added_variance(x, modes):
    """sum_i Var(C(x - mu_i)) with one level, over both coordinates: |v| |v|_1 - |v|^2."""
    v = x[..., None, :] - modes
    norms = np.linalg.norm(v, axis=-1)
    return np.sum(norms * np.abs(v).sum(axis=-1) - norms**2, axis=-1)


GOLDEN = {
    "plain": (st.QLSD(ETA, "plain", levels=1), "1.033"),
    "fixed-point": (st.QLSD(ETA, "fixed-point", levels=1, mode=np.zeros(2)), "1.017"),
    "memory": (st.QLSD(ETA, levels=1), "1.017"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_variances_with_one_level(name):
    """QLSD 1.033 and with memory 1.017, where Langevin steps have 1.017.

    With the same noise w at the hub, the iterate is that of Langevin steps and a rest D, with
    D' = (1 - eta b) D - eta e for the error e of quantisation. Given the past e has mean zero, so
    that D is uncorrelated with the first part, and the variances add. With N draws that of D, a few
    per cent at most, has a relative standard error of about 1 / sqrt(N).
    """
    given, modes = ring_of_modes()
    problem, network = st.with_hub(given)
    sampler, printed = GOLDEN[name]
    how = {"chains": 2000, "burn_in": 200, "draws": 4, "apart": 60}
    found = iterates(problem, network, sampler, **how)
    plain = iterates(problem, network, st.QLSD(ETA, "plain", levels=None), **how)
    apart = (found - plain).reshape(-1, 2)
    ratio = langevin_ratio(ETA) + SITES * np.mean(apart**2)
    error = SITES * np.std(np.mean(apart**2, axis=1)) / np.sqrt(len(apart))
    assert error < 3e-4
    assert abs(ratio - float(printed)) < 5e-4 + 3 * error
    if name == "plain":  # E D^2 (1 - (1 - eta b)^2) = eta^2 E e^2, with E e^2 at the same draws
        noise = added_variance(found.reshape(-1, 2), modes).mean() / 2
        factor = 1 - (1 - ETA * SITES) ** 2
        assert SITES * ETA**2 * noise / factor == pytest.approx(
            SITES * np.mean(apart**2), abs=4 * error
        )


def subsets(problem, count, eta, rate):
    """One round for every set of `count` sites, with the state (x, m_1, ..., m_b), eqs. (1)-(3)."""
    H, b = problem.quadratic.hessian[1:], problem.quadratic.linear[1:]
    sites, dim = b.shape
    size = dim * (1 + sites)
    place = [slice(dim * (1 + i), dim * (2 + i)) for i in range(sites)]
    for chosen in combinations(range(sites), count):
        T, c, B = np.eye(size), np.zeros(size), np.zeros((size, dim))
        B[:dim] = np.sqrt(2 * eta) * np.eye(dim)
        for i in range(sites):
            T[:dim, place[i]] -= eta * np.eye(dim)
        for i in chosen:
            weight = sites / count
            T[:dim, :dim] -= eta * weight * H[i]
            T[:dim, place[i]] += eta * weight * np.eye(dim)
            c[:dim] += eta * weight * b[i]
            T[place[i], :dim] += rate * H[i]
            T[place[i], place[i]] -= rate * np.eye(dim)
            c[place[i]] -= rate * b[i]
        yield Recursion(T, c, B)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.0, 0.7])
def test_some_of_the_sites_have_the_moments_of_the_mixture(rate):
    """Exact means and covariances with two of five sites; memory takes most of what that costs."""
    eta, count = 0.03, 2
    problem, network = st.with_hub(paper_problem(5))
    with_memory = stationary_of_mixture(list(subsets(problem, count, eta, 0.7)))
    with_memory = with_memory[0][:2], with_memory[1][:2, :2]
    rounds = subsets(problem, count, eta, 0.0)
    without = stationary_of_mixture([Recursion(T[:2, :2], c[:2], B[:2]) for T, c, B in rounds])
    exact, other = (with_memory, without) if rate else (without, with_memory)
    sampler = st.QLSD(eta, levels=None, participants=count, memory_rate=rate)
    draws = iterates(problem, network, sampler, chains=8000, burn_in=200)[0]
    scores = moment_scores(draws, *exact)
    limit = scipy.stats.norm.isf(ALARM / len(scores) / 2)
    assert np.abs(scores).max() < limit
    assert np.abs(moment_scores(draws, *other)).max() > limit  # the comparison can fail
    full = law(problem, network, st.QLSD(eta, levels=None)).stationary().agent(0)[1]
    ratios = [np.trace(c @ np.linalg.inv(full)) / 2 for _, c in (without, with_memory)]
    assert [f"{ratio:.3f}" for ratio in ratios] == ["1.211", "1.030"]


def test_quantised_vectors_are_right_on_average():
    v, count = np.array([0.3, -2.0, 0.0, 1.1]), 20_000
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(1), count)
        for levels in (1, 3, 16):
            found = np.asarray(jax.vmap(lambda key, s=levels: quantised(v, s, key))(keys))
            parts = levels * np.abs(v) / np.linalg.norm(v)
            steps = np.linalg.norm(v) / levels
            np.testing.assert_allclose(found / steps, np.rint(found / steps), atol=1e-12)
            variance = steps**2 * (parts % 1) * (1 - parts % 1)
            scores = (found.mean(axis=0) - v) / np.sqrt(variance / count + 1e-30)
            assert np.abs(scores[variance > 0]).max() < 5
            np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.06, atol=1e-12)
            omega = st.QLSD(0.1, levels=levels).omega(4)
            assert variance.sum() <= omega * (v @ v)
        nothing = quantised(np.zeros(3), 2, keys[0])
    np.testing.assert_array_equal(nothing, 0.0)


def test_bits_of_a_message():
    """A norm, and a sign and a level for every parameter."""
    assert st.QLSD(0.1, levels=1).bits_per_message(10) == 32 + 10 * 2
    assert st.QLSD(0.1, levels=16).bits_per_message(10) == 32 + 10 * 6
    assert st.QLSD(0.1, levels=2**16 - 1).bits_per_message(10) == 32 + 10 * 17
    assert st.QLSD(0.1, levels=None).bits_per_message(10) == 320


def test_messages_and_gradients_are_those_of_the_sites_that_take_part():
    problem, network = st.with_hub(paper_problem(5))
    rounds = np.arange(9)
    down, up = (rounds + 1) // 2, rounds // 2
    everybody = st.QLSD(0.1).messages_until(rounds, network)
    np.testing.assert_array_equal(everybody[:, 0], 5 * down)
    np.testing.assert_array_equal(everybody[:, 1:], np.repeat(up[:, None], 5, axis=1))
    two = {"participants": 2}
    some = st.QLSD(0.1, "plain", **two).messages_until(rounds, network)
    np.testing.assert_array_equal(some[:, 0], 2 * down)
    np.testing.assert_allclose(some[:, 1:], 0.4 * np.repeat(up[:, None], 5, axis=1))
    refreshed = st.QLSD(0.1, batch_size=5, refresh=3, **two)
    sent = refreshed.messages_until(rounds, network)
    np.testing.assert_array_equal(sent[:, 0], [0, 5, 5, 7, 7, 9, 9, 14, 14])
    assert st.QLSD(0.1).gradients_per_round(problem) == 0.5
    plain = st.QLSD(0.1, "plain", batch_size=5, **two)
    assert plain.gradients_per_round(problem) == pytest.approx(0.4 / 10 / 2)
    wanted = (2 * 0.4 / 10 + 1 / 3) / 2
    assert refreshed.gradients_per_round(problem) == pytest.approx(wanted)


def test_settings_that_do_not_fit_are_refused():
    problem, network = st.with_hub(paper_problem(5))
    with pytest.raises(ValueError, match="`participants` must be at most the number of sites, 5"):
        st.sample(problem, network, st.QLSD(0.01, participants=6), draws=1)
    with pytest.raises(ValueError, match="needs `mode`"):
        st.QLSD(0.01, "fixed-point")
    with pytest.raises(ValueError, match="needs `mode`"):
        st.QLSD(0.01, mode=np.zeros(2))
    with pytest.raises(ValueError, match="`mode` must have 2 numbers"):
        st.sample(problem, network, st.QLSD(0.01, "fixed-point", mode=np.zeros(3)), draws=1)
    with pytest.raises(ValueError, match="`memory_rate`"):
        st.QLSD(0.01, memory_rate=1.5)
    with pytest.raises(TypeError, match="`memory_rate` must be a number"):
        st.QLSD(0.01, memory_rate="a")
    with pytest.raises(NoLawError, match="levels = None"):
        law(problem, network, st.QLSD(0.01))
    with pytest.raises(StabilityError, match="take less"):
        st.sample(problem, network, st.QLSD(10.0), draws=1)
