"""A run of lock-step HMC: superchains, windows, stationarity, steep starts and interruptions."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.methods import lockstep
from starlings.methods.hmc import SummedChains
from starlings.methods.lockstep import (
    ChainState,
    LockStep,
    is_drifting,
    step_fraction,
    superchain_labels,
    window_lengths,
)
from starlings.methods.warmup import Settings, first_settings
from starlings.models import gaussian
from starlings.network.gossip import Gossip
from tests.problems import flat
from tests.quick import quick_cases

NEVER = 10**6
"""Leapfrogs until a pause, for runs without one."""


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def chains_of(problem, chains, windows=(15, 15, 25, 40), seed=0):
    network = st.Network.path(problem.num_agents).matched_to(problem.sites)
    sums = SummedChains.of(problem, Gossip(network))
    return LockStep(sums, lockstep.shared_keys(seed, chains), superchain_labels(chains), windows)


def gaussian_chains(chains=32, dim=3, **options):
    precision = np.diag(np.arange(1.0, dim + 1))
    return chains_of(gaussian([precision / 2, precision / 2]), chains, **options)


def begun(chain, starts=None, step=0.3, dim=3):
    """The chains at given points, or at points drawn from N(0, I)."""
    if starts is None:
        starts = np.random.default_rng(0).normal(size=(len(chain.superchains), dim))
    return chain.begun(starts, first_settings(step, np.ones(starts.shape[1])))


def advanced(chain, state, number, pause=lambda _: NEVER):
    """The positions at the ends of the next trajectories, (trajectory, chain, dim)."""
    steps = itertools.islice(chain.trajectories(state, pause), number)
    return np.array([np.asarray(state.phase.position) for _ in steps])


@pytest.mark.parametrize(
    ("chains", "groups"),
    [(1, 1), (2, 2), (16, 16), (31, 31), (32, 16), (36, 12), (37, 37), (64, 16), (128, 16)],
)
def test_superchains_are_equally_many_chains_side_by_side(chains, groups):
    labels = superchain_labels(chains)
    np.testing.assert_array_equal(labels, np.sort(labels))
    np.testing.assert_array_equal(np.bincount(labels), chains // groups)
    assert len(np.bincount(labels)) == groups


def test_every_fifth_trajectory_has_a_short_step():
    assert [step_fraction(i) for i in range(1, 11)] == [1, 1, 1, 1, 0.3] * 2


def test_few_chains_have_longer_windows():
    assert window_lengths(128, True) == window_lengths(500, True) == (15, 15, 25, 40)
    assert window_lengths(128, False) == (15, 15, 25, 40, 60)
    assert window_lengths(32, True) == (30, 30, 50, 80)
    assert sum(window_lengths(1, True)) == pytest.approx(np.sqrt(128) * 95, rel=0.01)


def test_a_run_is_made_of_trajectories_of_the_settings(monkeypatch):
    """Leapfrogs and step of each, as eq. (4) of `warmup` and `step_fraction` say."""
    chain = gaussian_chains()
    state = begun(chain)
    state.settings, state.is_warm = Settings(step=0.3, length=2.4, metric=np.ones(3)), True
    made, leapfrogs = [], SummedChains.leapfrogs

    def noted(self, number, phase, step, metric):
        made.append((number, step))
        return leapfrogs(self, number, phase, step, metric)

    monkeypatch.setattr(SummedChains, "leapfrogs", noted)
    advanced(chain, state, 6)
    assert [number for number, _ in made] == [4, 2, 6, 1, 10, 3]
    np.testing.assert_allclose([step for _, step in made], [0.3] * 4 + [0.09, 0.3])
    assert (state.iteration, state.sums) == (7, 26)


def test_the_first_windows_have_trajectories_of_a_bounded_number_of_leapfrogs():
    chain = gaussian_chains(windows=(2, 2, 2, 2))
    state = begun(chain)
    state.settings = Settings(step=1e-3, length=1.0, metric=np.ones(3))
    advanced(chain, state, 1)
    assert state.sums == lockstep.FIRST_LEAPFROGS


@pytest.mark.slow
def test_windows_follow_each_other_and_each_has_a_metric_of_its_own(monkeypatch):
    monkeypatch.setattr(LockStep, "_is_stationary", lambda *_: True)
    chain, windows = gaussian_chains(chains=64), []
    state = begun(chain)
    for _ in chain.trajectories(state, lambda _: NEVER):
        windows.append((state.window, np.asarray(state.settings.metric)))
        if state.is_warm:
            break
    numbers = [window for window, _ in windows]
    assert numbers == sorted(numbers)
    assert [numbers.count(k) for k in range(4)] == [14, 15, 25, 40]  # the last of each moves on
    metrics = {metric.tobytes() for _, metric in windows}
    assert len(metrics) == 4
    last = windows[-1][1]
    expected = np.diag(1 / np.arange(1.0, 4))
    error = np.sqrt(2 / (64 * 12))  # relative, of a variance by the second half of 25 iterations
    np.testing.assert_allclose(last @ last.T, expected, atol=6 * error)
    assert state.history == []


@pytest.mark.slow
def test_the_step_has_the_target_acceptance_after_a_warm_up():
    chain = gaussian_chains(chains=64, dim=20)
    state = begun(chain, dim=20)
    for _ in chain.trajectories(state, lambda _: NEVER):
        if state.is_warm:
            break
    whole = [
        acceptance.mean()
        for iteration, (acceptance, _) in enumerate(
            itertools.islice(chain.trajectories(state, lambda _: NEVER), 100), state.iteration
        )
        if step_fraction(iteration) == 1
    ]
    assert np.mean(whole) == pytest.approx(0.85, abs=0.05)  # 32 steps of dual averaging


def test_the_last_window_is_repeated_twice_as_long_until_the_chains_are_stationary(monkeypatch):
    seen = []

    def never(self, window):
        seen.append(len(window))
        return False

    monkeypatch.setattr(LockStep, "_is_stationary", never)
    chain = gaussian_chains(windows=(4, 4, 6))
    state = begun(chain)
    for _ in chain.trajectories(state, lambda _: NEVER):
        if state.is_warm:
            break
    assert seen == [6, 12, 24, 48]
    assert state.iteration - 1 == 4 + 4 + 6 * (1 + 2 + 4 + 8 + 16)


def positions_of(chains, draws, dim=4, seed=0, correlation=0.5):
    """Stationary AR(1) chains with sd 1, (iteration, chain, dim)."""
    random = np.random.default_rng(seed)
    x = np.empty((draws, chains, dim))
    x[0] = random.normal(size=(chains, dim))
    for t in range(1, draws):
        noise = np.sqrt(1 - correlation**2) * random.normal(size=(chains, dim))
        x[t] = correlation * x[t - 1] + noise
    return x


@pytest.mark.parametrize("chains", [2, 8, 128])
def test_stationary_chains_seldom_seem_to_drift(chains):
    """By `DRIFT_LEVEL` = 1 % or less of 400 windows; 4 standard errors are 2 % more."""
    alarms = [is_drifting(positions_of(chains, 20, seed=seed)) for seed in range(400)]
    assert np.mean(alarms) <= 0.01 + 4 * np.sqrt(0.01 / 400)


def test_a_drift_of_one_parameter_is_found():
    """All chains come from 3 standard deviations away, with a time constant of the window."""
    positions = positions_of(128, 40)
    positions[:, :, 2] += 3 * np.exp(-np.arange(40) / 40)[:, None]
    assert is_drifting(positions)
    assert not is_drifting(positions[:, :1])  # of a single chain nobody knows


def test_superchains_that_remember_their_start_are_found():
    chain = gaussian_chains(chains=64)
    still = positions_of(64, 40, dim=3)
    assert chain._is_stationary(still)
    assert not chain._is_stationary(still + chain.superchains[None, :, None])
    assert not chain._is_stationary(np.zeros((40, 64, 3)))  # nothing has moved


def test_the_worst_superchain_counts_in_the_first_windows():
    chain = gaussian_chains(chains=32)
    acceptance = np.linspace(1, 0.7, 32)
    acceptance[[6, 7]] = 0.1, 0.3
    assert chain._worst_acceptance(acceptance) == pytest.approx(0.2)


def quartic(p, row):
    return -row["share"] * p["x"] ** 4 / 4


@pytest.mark.parametrize("far", quick_cases([10.0, 40.0], [40.0]))
def test_a_superchain_that_starts_in_a_steep_region_moves_on(far):
    """At x = 40 the curvature 3 x^2 is 4800 times what it is at the others' standard deviation."""
    problem = st.Problem(quartic, flat, {"x": ()}, [{"share": [0.5]}, {"share": [0.25, 0.25]}])
    chain = chains_of(problem, 64)
    starts = np.random.default_rng(0).normal(scale=0.8, size=(64, 1))
    starts[chain.superchains == 3] = far
    state = begun(chain, starts, step=0.5)
    for _ in chain.trajectories(state, lambda _: NEVER):
        if state.window == lockstep.ROUGH_WINDOWS:
            break
    assert np.abs(np.asarray(state.phase.position)).max() < 4  # of 64 draws below exp(-60)
    for _ in chain.trajectories(state, lambda _: NEVER):
        if state.is_warm:
            break
    draws = advanced(chain, state, 100)
    # E x^2 = 2 Gamma(3/4) / Gamma(1/4); each of 64 chains forgets within ten trajectories
    squares = (draws**2).mean(axis=0).ravel()
    error = squares.std(ddof=1) / 8
    assert abs(squares.mean() - 0.675978) < 4 * error
    assert error < 0.05


def test_a_state_comes_back_from_its_arrays():
    chain = gaussian_chains()
    state = begun(chain)
    advanced(chain, state, 20)
    again = ChainState.from_arrays(state.arrays())
    assert vars(again).keys() == vars(state).keys()
    jax.tree.map(np.testing.assert_array_equal, again.phase, state.phase)
    jax.tree.map(np.testing.assert_array_equal, again.beginning, state.beginning)
    np.testing.assert_array_equal(again.history, state.history)
    for name in ("iteration", "leapfrogs", "sums", "window", "in_window", "is_warm"):
        value = getattr(again, name)
        assert (value, type(value)) == (getattr(state, name), type(getattr(state, name)))
    for name, value in vars(state.settings).items():
        np.testing.assert_array_equal(getattr(again.settings, name), value)


class StopError(Exception):
    pass


@pytest.mark.parametrize("share", [0.0, 0.2, 0.35, 0.9])
def test_a_run_that_stops_within_a_trajectory_goes_on_with_the_same_bits(share):
    """After a share of all leapfrogs: in the first window, in later ones, and among the draws."""
    chain, number, saved = gaussian_chains(windows=(8, 8, 12, 16)), 100, []
    whole = begun(chain)
    expected = advanced(chain, whole, number)
    assert whole.is_warm

    def stop(state):
        if state.leapfrogs > 0 and state.sums >= share * whole.sums:
            saved.append(state.arrays())
            raise StopError
        return 1

    with pytest.raises(StopError):
        advanced(chain, begun(chain), number, stop)
    resumed = ChainState.from_arrays(saved[0])
    assert resumed.is_warm == (share == 0.9)
    left = number - (resumed.iteration - 1)
    found = advanced(gaussian_chains(windows=(8, 8, 12, 16)), resumed, left)
    np.testing.assert_array_equal(found, expected[-left:])
    assert resumed.sums == whole.sums
    assert resumed.settings.step == whole.settings.step


def test_pauses_change_nothing():
    chain = gaussian_chains(windows=(8, 8, 12, 16))
    expected = advanced(chain, begun(chain), 60)
    numbers = itertools.cycle([1, 2, 5])
    np.testing.assert_array_equal(
        advanced(chain, begun(chain), 60, lambda _: next(numbers)), expected
    )


def test_chains_have_noise_of_their_own():
    """Chains of a superchain start at one point and differ after the first trajectory."""
    chain = gaussian_chains(chains=32)
    state = begun(chain, np.zeros((32, 3)))
    positions = advanced(chain, state, 1)[0]
    assert len(np.unique(positions[:, 0])) == 32


def test_a_start_that_is_not_finite_is_refused():
    problem = st.Problem(
        lambda p, row: row["w"] * jnp.log(p["x"]) - p["x"], flat, {"x": ()}, [{"w": [1.0]}]
    )
    chain = chains_of(problem, 2)
    with pytest.raises(FloatingPointError, match="a chain starts where the potential is not"):
        begun(chain, np.array([[1.0], [-1.0]]))
