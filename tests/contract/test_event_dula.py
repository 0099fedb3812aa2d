"""Event-triggered D-ULA against its equations, and against D-ULA with the same noise."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.errors import LossyLinksError, NoLawError
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.theory import gaussian_w2, law
from starlings.theory.laws import Stacked
from tests.contract.test_one_round import CHAINS, GRAPH, NEIGHBOURS, SEED
from tests.problems import paper_problem, unequal_linear_problem

ROUNDS = 12
STEPS = {"step_size": st.Decay(0.002, 10, 0.3), "consensus_step": st.Decay(0.5, 20, 0.1)}
THRESHOLDS = {"constant": 0.4, "decaying": st.Decay(0.8, 1.0, 0.4)}


def drawn(problem, network, sampler, rounds, chains=CHAINS, seed=SEED, **schedule):
    """The record of a run from x_i ~ N(0, I), of every round if nothing else is said."""
    start = np.random.default_rng(0).normal(size=(chains, problem.num_agents, problem.dim))
    with jax.enable_x64(True):
        schedule = Schedule(draws=rounds, **schedule)
        run = (sampler, problem.agents(network), network, jax.numpy.asarray(start), seed, schedule)
        return loop.run(*run).joined()


def private_noises(rounds, dim):
    """w[k][i] of rounds 1, 2, ... of chain 1."""
    keys = chain_keys(SEED, CHAINS, 6)[0][1]
    like = jax.ShapeDtypeStruct((dim,), np.float64)

    @jax.jit
    def of_round(k):
        return jax.vmap(lambda key: Round(k, key, key).private_noise(like))(keys)

    with jax.enable_x64(True):
        return np.array([of_round(k) for k in range(1, rounds + 1)])


@pytest.mark.parametrize("kind", THRESHOLDS)
def test_rounds_and_counts_are_those_of_the_equations(kind):
    """x' = x - beta sum_j a_ij (xh_i - xh_j) - alpha N g_i + sqrt(2 alpha) v_i, v_i ~ N(0, N I)."""
    problem, network = unequal_linear_problem(), st.Network(GRAPH)
    x = np.random.default_rng(0).normal(size=(CHAINS, 6, 3))[1]
    H, b, w = problem.quadratic.hessian, problem.quadratic.linear, private_noises(ROUNDS, 3)
    held, sent, wanted = np.full_like(x, np.inf), np.zeros(6, int), []
    for k in range(ROUNDS):
        alpha, beta = 0.002 / (k + 10) ** 0.3, 0.5 / (k + 20) ** 0.1
        eps = 0.4 if kind == "constant" else 0.8 / (k + 1) ** 0.4
        for i in range(6):
            if np.linalg.norm(held[i] - x[i]) > eps:
                held[i], sent[i] = x[i], sent[i] + 1
        new = np.empty_like(x)
        for i, near in enumerate(NEIGHBOURS):
            apart = sum(held[i] - held[j] for j in near)
            v = np.sqrt(6) * w[k, i]
            new[i] = x[i] - beta * apart - alpha * 6 * (H[i] @ x[i] - b[i]) + np.sqrt(2 * alpha) * v
        x = new
        wanted.append((x, sent.copy()))
    record = drawn(problem, network, st.EventDULA(**STEPS, threshold=THRESHOLDS[kind]), ROUNDS)
    positions, counts = map(np.array, zip(*wanted, strict=True))
    np.testing.assert_allclose(record.position[:, 1], positions, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(record.broadcasts[:, 1], counts)
    assert sent.min() < ROUNDS - 3  # some were silent
    assert sent.max() > 3  # and some were not


@pytest.mark.quick(1)
@pytest.mark.parametrize("choices", [{}, {"noise": "coherent", "batch_size": 2}])
def test_without_a_threshold_it_is_dula_in_every_bit(choices):
    problem, network = unequal_linear_problem(), st.Network(GRAPH)
    plain = drawn(problem, network, st.DULA(**STEPS, **choices), ROUNDS)
    found = drawn(problem, network, st.EventDULA(**STEPS, **choices, threshold=0), ROUNDS)
    np.testing.assert_array_equal(found.position, plain.position)
    rounds = np.arange(1, ROUNDS + 1)[:, None, None]
    np.testing.assert_array_equal(found.broadcasts, np.broadcast_to(rounds, (ROUNDS, CHAINS, 6)))
    assert plain.broadcasts is None


@pytest.mark.parametrize("threshold", [0.2, 5.0, 1e9])
def test_the_average_is_that_of_dula_whatever_the_threshold(threshold):
    """On an irregular graph, where all potentials are equal and quadratic."""
    H = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.5]])
    problem, network = st.models.gaussian(np.tile(H, (6, 1, 1))), st.Network(GRAPH)
    plain = drawn(problem, network, st.DULA(0.02, 0.2), 200)
    found = drawn(problem, network, st.EventDULA(0.02, 0.2, threshold=threshold), 200)
    averages = (record.position.mean(axis=2) for record in (found, plain))
    np.testing.assert_allclose(*averages, rtol=1e-11, atol=1e-11)
    assert np.abs(found.position - plain.position).max() > 0.01  # single agents differ


def distance_bounds(problem, network, sampler, rounds):
    """Bounds of |x - y| after each round by eq. (3) of the module, norm by norm."""
    s = Stacked.of(problem, network)
    size, L = s.shape[0], s.lift(s.laplacian)
    alpha, zeta = sampler.steps_at(0)
    T = np.eye(len(L)) - zeta * L - alpha * size * s.H
    norms, power = [], zeta * L
    for _ in range(rounds):
        norms.append(np.linalg.norm(power, 2))
        power = T @ power
    eps = np.array([sampler.threshold.at(k) for k in range(rounds)])
    return np.sqrt(size) * np.convolve(norms, eps)[:rounds]


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_draws_stay_within_the_bound_of_those_of_dula(scale):
    """With the same noise, in every chain and round, where all sites have other data."""
    problem, network = paper_problem(6), st.Network(GRAPH)
    sampler = st.EventDULA(0.002, 0.1, threshold=st.Decay(scale, 1.0, 0.3))
    plain = drawn(problem, network, st.DULA(0.002, 0.1), 300)
    found = drawn(problem, network, sampler, 300)
    apart = np.linalg.norm((found.position - plain.position).reshape(300, CHAINS, -1), axis=2)
    bounds = distance_bounds(problem, network, sampler, 300)
    assert (apart <= bounds[:, None] * (1 + 1e-12)).all()
    assert apart.max() > 0.1 * bounds.max()  # the bound is not out of reach


@pytest.mark.slow
def test_a_decaying_threshold_saves_messages_and_has_the_law_of_dula():
    """The W2 distance of the laws of all agents is below the bound, which goes to zero.

    D-ULA itself, simulated with as many chains, tells how much of a distance is Monte Carlo error.
    """
    problem, network, chains, rounds = paper_problem(6), st.Network.ring(6), 2000, 600
    sampler = st.EventDULA(0.002, 0.1, threshold=st.Decay(3.0, 1.0, 0.6))
    exact = law(problem, network, st.DULA(0.002, 0.1)).stationary()

    def distance(record):
        flat = record.position[0].reshape(chains, -1)
        moments = flat.mean(axis=0), np.cov(flat.T)
        return gaussian_w2(*moments, exact.mean.ravel(), exact.covariance)

    how = {"chains": chains, "burn_in": rounds - 1}
    event = drawn(problem, network, sampler, 1, **how)
    other_noise = drawn(problem, network, st.DULA(0.002, 0.1), 1, **how, seed=SEED + 1)
    bound = distance_bounds(problem, network, sampler, rounds)[-1]
    assert distance(event) < bound + 1.5 * distance(other_noise)
    assert bound < 0.2 * np.sqrt(np.trace(exact.covariance))
    assert 0.5 < event.broadcasts.mean() / rounds < 0.9


def test_the_law_without_a_threshold_is_that_of_dula():
    problem, network = paper_problem(5), st.Network.ring(5)
    plain = law(problem, network, st.DULA(0.002, 0.1)).stationary()
    found = law(problem, network, st.EventDULA(0.002, 0.1, threshold=0.0)).stationary()
    np.testing.assert_array_equal(found.mean, plain.mean)
    np.testing.assert_array_equal(found.covariance, plain.covariance)


def test_only_without_a_threshold_has_it_an_exact_law():
    assert st.theory.has_law(st.EventDULA(0.002, 0.1, threshold=0.0))
    problem, network = paper_problem(5), st.Network.ring(5)
    for threshold in THRESHOLDS.values():
        with pytest.raises(NoLawError, match="silences are not linear"):
            law(problem, network, st.EventDULA(0.002, 0.1, threshold=threshold))
    with pytest.raises(st.StabilityError, match=r"`step_size` 0\.9 is beyond the stability limit"):
        st.sample(problem, network, st.EventDULA(0.9, 0.1, threshold=0.1), draws=2)


@pytest.mark.parametrize("threshold", [-0.1, np.inf, np.nan, "0", True, None])
def test_thresholds_are_numbers_from_0_or_decay(threshold):
    with pytest.raises((ValueError, TypeError), match="`threshold` must be"):
        st.EventDULA(0.1, 0.1, threshold=threshold)


def test_it_is_refused_where_messages_are_masked_or_lost():
    problem, network = paper_problem(5), st.Network.ring(5)
    sampler = st.EventDULA(0.002, 0.1, threshold=0.1)
    with pytest.raises(LossyLinksError, match="Event-triggered D-ULA waits for every message"):
        st.sample(problem, network.lossy(loss=0.1), sampler, draws=2)
    with pytest.raises(st.PrivacyError, match="cannot be masked: a masked sum needs a number"):
        st.sample(problem, network, sampler, draws=2, privacy="totals")
