"""Leapfrogs, trajectories and their acceptance, against plain NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

import starlings as st
from starlings.methods.hmc import LARGEST_ENERGY_ERROR, Phase, SummedChains, ended, refreshed
from starlings.methods.lockstep import shared_keys
from starlings.network.gossip import Gossip
from starlings.random.addresses import Round
from tests.problems import flat, logistic_rows

CHAINS, DIM = 6, 3
METRICS = {
    "dense": np.array([[0.3, 0.0, 0.0], [0.1, 0.2, 0.0], [-0.2, 0.1, 0.5]]),
    "diagonal": np.array([0.3, 0.2, 0.5]),
}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def potential(beta):
    """F and its gradient of the logistic regression of all rows, typed in."""
    X, y, _ = logistic_rows()
    eta = X @ beta
    value = np.sum(np.logaddexp(0, eta) - y * eta)
    value += np.sum(0.5 * (beta / 10) ** 2 + np.log(10 * np.sqrt(2 * np.pi)))
    return value, X.T @ (expit(eta) - y) + beta / 100


def leapfrog(q, p, step, A):
    """Eqs. (1) to (3) for one chain, with a matrix A."""
    p = p - step / 2 * A.T @ potential(q)[1]
    q = q + step * A @ p
    return q, p - step / 2 * A.T @ potential(q)[1]


def sums():
    """The same potential, of which each of five sites has a part."""
    problem = st.models.logistic_regression(*logistic_rows(), intercept=False, prior_std=10.0)
    return SummedChains.of(problem, Gossip(st.Network.ring(5).matched_to(problem.sites)))


def phase_at(chains, q, p):
    return Phase(jnp.asarray(q), jnp.asarray(p), *chains.at(jnp.asarray(q)))


def begun(chains, seed=0):
    """Positions near the posterior, and momenta."""
    random = np.random.default_rng(seed)
    q = [0.6, -0.5, 0.3] + 0.3 * random.normal(size=(CHAINS, DIM))
    return phase_at(chains, q, random.normal(size=(CHAINS, DIM)))


def phase_of_energies(values):
    """Chains with given potentials and no momenta."""
    like = np.arange(len(values) * 2.0).reshape(-1, 2)
    return Phase(*map(jnp.asarray, (like, np.zeros_like(like), np.asarray(values), like)))


@pytest.mark.quick(1)
@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
@pytest.mark.parametrize("number", [1, 17])
def test_a_trajectory_is_that_of_the_equations(metric, number):
    chains, step = sums(), 0.4
    phase = begun(chains)
    found = chains.leapfrogs(number, phase, step, jnp.asarray(metric))
    A = metric if metric.ndim == 2 else np.diag(metric)
    for c in range(CHAINS):
        q, p = np.asarray(phase.position[c]), np.asarray(phase.momentum[c])
        for _ in range(number):
            q, p = leapfrog(q, p, step, A)
        value, gradient = potential(q)
        np.testing.assert_allclose(found.position[c], q, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.momentum[c], p, rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(found.value[c], value, rtol=1e-12)
        np.testing.assert_allclose(found.gradient[c], gradient, rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(found.energy[c], value + p @ p / 2, rtol=1e-12)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_a_trajectory_that_is_turned_round_comes_back(metric):
    chains, metric = sums(), jnp.asarray(metric)
    phase = begun(chains)
    there = chains.leapfrogs(20, phase, 0.3, metric)
    back = chains.leapfrogs(20, there._replace(momentum=-there.momentum), 0.3, metric)
    assert float(jnp.abs(there.position - phase.position).max()) > 0.5
    np.testing.assert_allclose(back.position, phase.position, atol=1e-11)
    np.testing.assert_allclose(back.momentum, -phase.momentum, atol=1e-11)


def test_the_energy_error_falls_with_the_square_of_the_step():
    chains, metric = sums(), jnp.asarray(METRICS["dense"])
    phase = begun(chains)

    def error(number):
        """Of trajectories of length 1."""
        after = chains.leapfrogs(number, phase, 1 / number, metric)
        return np.asarray(after.energy - phase.energy)

    coarse, medium, fine = (error(number) for number in (32, 64, 128))
    # c step^2 + O(step^4): what is left of four times the finer one falls by 16
    assert np.linalg.norm(coarse) / np.linalg.norm(medium) == pytest.approx(4, rel=0.02)
    left = [coarse - 4 * medium, medium - 4 * fine]
    assert np.linalg.norm(left[0]) / np.linalg.norm(left[1]) == pytest.approx(16, rel=0.1)


def test_pieces_of_a_trajectory_have_the_bits_of_the_whole():
    chains, metric = sums(), jnp.asarray(METRICS["dense"])
    phase = begun(chains)
    whole = chains.leapfrogs(11, phase, 0.3, metric)
    for number in (1, 3, 7):
        phase = chains.leapfrogs(number, phase, 0.3, metric)
    jax.tree.map(np.testing.assert_array_equal, phase, whole)


def test_every_sum_is_counted():
    chains = sums()
    gossip = chains.gossip
    before = gossip.ledger.rounds
    chains.leapfrogs(7, begun(chains), 0.1, jnp.ones(DIM))
    assert gossip.ledger.rounds - before == 8 * gossip.rounds_per_sum  # one for the beginning
    messages = 8 * gossip.messages_by_agent.sum()
    assert gossip.ledger.messages == messages
    assert gossip.ledger.floats == messages * (CHAINS * (DIM + 1) + 1)


def test_trajectories_are_accepted_with_the_probability_of_their_energies():
    """As many are accepted as probabilities say, within four standard errors."""
    count, errors = 4000, [-1.0, 0.0, 0.1, 1.0, 3.0]
    keys = shared_keys(5, count)
    for error in errors:
        before, after = phase_of_energies([7.0] * count), phase_of_energies([7.0 + error] * count)
        after = after._replace(position=after.position + 1)
        found = ended(before, after, keys, 3)
        probability = min(1.0, np.exp(-error))
        np.testing.assert_allclose(found.acceptance, probability, rtol=1e-12)
        moved = np.asarray(found.phase.position != before.position).all(axis=1)
        spread = np.sqrt(probability * (1 - probability) / count)
        assert abs(moved.mean() - probability) <= 4 * spread
        assert not found.is_divergent.any()


def test_momenta_count_as_energy():
    before = phase_of_energies([1.0, 1.0])
    after = phase_of_energies([1.5, 0.2])._replace(momentum=jnp.array([[1.0, 0.5], [1.0, 1.0]]))
    found = ended(before, after, shared_keys(0, 2), 1)
    np.testing.assert_allclose(found.acceptance, np.exp([-0.5 - 0.625, 0.8 - 1.0]), rtol=1e-12)


def test_who_is_accepted_is_decided_by_the_uniform_number_of_the_address():
    keys = shared_keys(9, 50)
    before, after = phase_of_energies([0.0] * 50), phase_of_energies([0.7] * 50)
    after = after._replace(position=-after.position - 1)
    found = ended(before, after, keys, 12)
    uniform = [float(jax.random.uniform(Round(12, key, key).shared_key())) for key in keys]
    moved = np.asarray(found.phase.position != before.position).all(axis=1)
    np.testing.assert_array_equal(moved, np.array(uniform) < np.exp(-0.7))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2 * LARGEST_ENERGY_ERROR])
def test_a_trajectory_that_diverged_is_refused_and_reported(bad):
    keys = shared_keys(1, 3)
    before, after = phase_of_energies([1.0, 1.0, 1.0]), phase_of_energies([1.0, bad, 1.0])
    after = after._replace(
        position=after.position.at[1].set(jnp.nan) + 1, momentum=after.momentum.at[1].set(jnp.nan)
    )
    found = ended(before, after, keys, 1)
    assert found.is_divergent.tolist() == [False, True, False]
    assert found.acceptance.tolist() == [1.0, 0.0, 1.0]
    for old, new, kept in zip(before, after, found.phase, strict=True):
        np.testing.assert_array_equal(kept[1], old[1])
        np.testing.assert_array_equal(kept[::2], new[::2])


def test_momenta_have_addresses():
    """They depend on seed, chain and iteration only, and are standard normal."""
    phase = begun(sums())
    keys = shared_keys(4, CHAINS)
    found = refreshed(phase, keys, 8)
    again = refreshed(found._replace(position=phase.position + 1), keys, 8)
    np.testing.assert_array_equal(found.momentum, again.momentum)
    expected = [Round(8, key, key).shared_noise(jnp.zeros(DIM)) for key in keys]
    np.testing.assert_array_equal(found.momentum, np.array(expected))
    few = phase._replace(position=phase.position[:2])
    fewer = refreshed(few, shared_keys(4, 2), 8).momentum
    np.testing.assert_array_equal(fewer, found.momentum[:2])
    others = [refreshed(phase, keys, 9), refreshed(phase, shared_keys(5, CHAINS), 8)]
    for other in others:
        assert not np.isclose(other.momentum, found.momentum).any()
    for kept in ("position", "value", "gradient"):
        np.testing.assert_array_equal(getattr(found, kept), getattr(phase, kept))


def test_momenta_are_standard_normal():
    phase = Phase(jnp.zeros((2000, 4)), jnp.zeros((2000, 4)), jnp.zeros(2000), jnp.zeros((2000, 4)))
    drawn = np.asarray(refreshed(phase, shared_keys(0, 2000), 1).momentum)
    assert np.abs(drawn.mean(axis=0)).max() < 4 / np.sqrt(2000)
    covariance = np.cov(drawn.T) - np.eye(4)
    assert np.abs(covariance).max() < 4 * np.sqrt(2 / 2000)


def half_line(p, row):
    """N(1, 1) above zero, undefined below it."""
    return jnp.log(jnp.sqrt(p["x"])) * 0 - 0.5 * row["w"] * (p["x"] - 1) ** 2


def half_line_sums():
    problem = st.Problem(half_line, flat, {"x": ()}, [{"w": [0.25]}, {"w": [0.25, 0.5]}])
    return SummedChains.of(problem, Gossip(st.Network.path(2)))


def test_what_is_undefined_at_a_site_is_infinite_with_a_gradient_of_zero():
    value, gradient = half_line_sums().at(jnp.array([[3.0], [-1.0]]))
    np.testing.assert_allclose(value, [2.0, np.inf])
    np.testing.assert_allclose(gradient, [[2.0], [0.0]])


def test_a_trajectory_that_ends_where_nothing_is_defined_is_refused():
    chains = half_line_sums()
    phase = phase_at(chains, [[0.5], [0.5]], [[-3.0], [1.0]])
    after = chains.leapfrogs(5, phase, 0.1, jnp.ones(1))
    assert float(after.position[0, 0]) < 0
    found = ended(phase, after, shared_keys(0, 2), 1)
    assert found.is_divergent.tolist() == [True, False]
    assert float(found.phase.position[0, 0]) == 0.5
    assert (chains.met_undefined(), chains.met_undefined()) == (1, 0)
    np.testing.assert_array_equal(found.phase.gradient[0], phase.gradient[0])
