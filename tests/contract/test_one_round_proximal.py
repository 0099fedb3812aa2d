"""Proximal samplers and penalties against dense NumPy transcriptions, as in `test_one_round`.

Minima with a penalty are found by trying every combination of signs, which shares nothing with the
solver of the library. The graph is irregular, and the shards unequal.
"""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

import starlings as st
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.samplers.spla import FIRST_STEPS
from tests.contract.test_one_round import (
    CHAINS,
    DEGREES,
    GRAPH,
    NEIGHBOURS,
    ROUNDS,
    SEED,
    admm_kicks,
    compare,
    metropolis,
    noises,
)
from tests.problems import unequal_linear_problem
from tests.quick import quick_cases

STRENGTH = np.array([1.5, 0.0, 4.0])
LASSO = st.Lasso(tuple(STRENGTH))


def lasso_minimum(K, q, strength):
    """argmin_z z'Kz/2 - q'z + sum_k a_k |z_k|, from the optimality conditions of all signs."""
    for signs in itertools.product((-1, 0, 1), repeat=len(q)):
        z, signs = np.zeros(len(q)), np.array(signs)
        on = signs != 0
        z[on] = np.linalg.solve(K[np.ix_(on, on)], (q - strength * signs)[on])
        slope = q - K @ z
        if np.all(signs[on] * z[on] > 0) and np.all(np.abs(slope[~on]) <= strength[~on]):
            return z
    raise AssertionError("no combination of signs is optimal")


def soft(x, threshold):
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0)


def own_round(k, agent=0, size=1):
    agent_keys, network_keys = chain_keys(SEED, CHAINS, size)
    return Round(k, agent_keys[1, agent], network_keys[1])


def own_noise(k, dim, agent=0, size=1):
    like = jax.ShapeDtypeStruct((dim,), np.float64)
    return np.asarray(own_round(k, agent, size).private_noise(like))


def compare_at_one_place(sampler, expected, rounds=ROUNDS):
    """Some rounds on the pooled problem equal the transcription to 1e-12."""
    problem, network = unequal_linear_problem().pooled(), st.Network.path(1)
    start = np.random.default_rng(0).normal(size=(CHAINS, 1, 3))
    with jax.enable_x64(True):
        how = (jax.numpy.asarray(start), SEED, Schedule(draws=rounds))
        record = loop.run(sampler, problem.agents(network), network, *how).joined()
        quadratic = problem.quadratic
        w = np.array([own_noise(k, 3) for k in range(1, rounds + 1)])
        wanted = expected(quadratic.hessian[0], quadratic.linear[0], start[1, 0].copy(), w)
    np.testing.assert_allclose(record.position[-1, 1, 0], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("penalty", quick_cases([None, LASSO], [LASSO]))
def test_pula(penalty):
    delta, strength = 0.03, np.zeros(3) if penalty is None else STRENGTH

    def expected(H, b, x, w):
        for k in range(ROUNDS):
            mean = lasso_minimum(H + 2 / delta * np.eye(3), b + 2 * x / delta, strength)
            x = mean + np.sqrt(delta) * w[k]
        return x

    compare_at_one_place(st.PULA(delta, penalty), expected)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [None, LASSO])
def test_pmala(penalty):
    """As many rounds as it takes to see candidates that are taken, and others."""
    delta, rounds = 0.08, 12
    strength = np.zeros(3) if penalty is None else STRENGTH
    taken = []

    def expected(H, b, x, w):
        def energy(z):
            return z @ H @ z / 2 - b @ z + strength @ np.abs(z)

        def mean(z):
            return lasso_minimum(H + 2 / delta * np.eye(3), b + 2 * z / delta, strength)

        def log_proposal(to, start):
            return -np.sum((to - mean(start)) ** 2) / (2 * delta)

        for k in range(1, rounds + 1):
            y = mean(x) + np.sqrt(delta) * w[k - 1]
            ratio = energy(x) + log_proposal(x, y) - energy(y) - log_proposal(y, x)
            log_u = -float(jax.random.exponential(own_round(k).batch_key(), dtype=float))
            taken.append(log_u < ratio)
            x = y if taken[-1] else x
        return x

    compare_at_one_place(st.PMALA(delta, penalty), expected, rounds)
    assert 0 < np.mean(taken) < 1


def test_myula():
    gamma, smoothing = 0.004, 0.02

    def expected(H, b, x, w):
        for k in range(ROUNDS):
            kept = soft(x, smoothing * STRENGTH)
            x = (1 - gamma / smoothing) * x - gamma * (H @ x - b) + gamma / smoothing * kept
            x = x + np.sqrt(2 * gamma) * w[k]
        return x

    compare_at_one_place(st.MYULA(gamma, LASSO, smoothing), expected)


TOURS = 3
TOKEN = [0, 1, 2, 0, 3, 4, 5, 4, 0]
"""Who has the token, in the order of a depth-first search of the irregular graph."""


@pytest.mark.parametrize("first", quick_cases(FIRST_STEPS, ["proximal"]))
@pytest.mark.parametrize("has_penalty", quick_cases([False, True], [True]))
def test_spla(first, has_penalty):
    """After three tours of eight hops, and one more round than that to wait, x of the second one.

    In the middle of the fourth tour agents differ: those that the token has visited know the third.
    """
    gamma, hops = 0.05, len(TOKEN)
    found = {}

    def tours(H, b, start):
        x, results = start[0], [start[0]]
        for k in range(TOURS):
            w = own_noise(hops * k, 3, agent=0, size=6)
            slope = H[0] @ x - b[0] if first == "gradient" else 0.0
            y = x - gamma * slope + np.sqrt(2 * gamma) * w
            for i in (1, 2, 3, 4, 5, 0):
                if i > 0 or first == "proximal":
                    y = np.linalg.solve(np.eye(3) + gamma * H[i], y + gamma * b[i])
            x = soft(y, gamma * STRENGTH) if has_penalty else y
            results.append(x)
        found["tours"] = results
        return results

    sampler = st.SPLA(gamma, hops, first, LASSO if has_penalty else None)
    compare(sampler, lambda H, b, x: np.tile(tours(H, b, x)[TOURS - 1], (6, 1)), TOURS * hops)

    def in_between(H, b, x):
        results = tours(H, b, x)
        return np.array([results[TOURS] if i in (1, 2) else results[TOURS - 1] for i in range(6)])

    compare(sampler, in_between, TOURS * hops + 3)
    assert np.abs(found["tours"][TOURS] - found["tours"][TOURS - 1]).max() > 0.01


def penalised_admm(H, b, x, kicks, rho):
    """Algorithm 1 with a sixth of the penalty in every local minimum."""
    p = np.zeros_like(x)
    for n in kicks:
        new = np.empty_like(x)
        for i, near in enumerate(NEIGHBOURS):
            centre = sum((x[i] + x[j]) / 2 for j in near)
            K = H[i] + 2 * rho * len(near) * np.eye(3)
            new[i] = lasso_minimum(K, b[i] - p[i] + 2 * rho * centre - n[i], STRENGTH / 6)
        x = new
        p = p + rho * np.array(
            [sum(x[i] - x[j] for j in near) for i, near in enumerate(NEIGHBOURS)]
        )
    return x


@pytest.mark.parametrize("output", quick_cases(["iterate", "half-noise"], ["half-noise"]))
def test_dadmms_with_a_penalty(output):
    rho = 1.7

    def expected(H, b, x):
        kicks = admm_kicks(noises(False, x.shape), rho, "coherent")
        last = penalised_admm(H, b, x, kicks[:ROUNDS], rho)
        half = kicks[ROUNDS] / (4 * rho * np.array(DEGREES)[:, None])
        return last - half if output == "half-noise" else last

    compare(st.DADMMS(rho, output=output, penalty=LASSO), expected)


@pytest.mark.slow
def test_cadmm_with_a_penalty_finds_the_mode():
    """First as transcribed, and in the end the minimum of everything, zeros included."""

    def expected(H, b, x):
        return penalised_admm(H, b, x, np.zeros((ROUNDS, *x.shape)), 0.4)

    compare(st.CADMM(0.4, LASSO), expected)
    problem = unequal_linear_problem()
    strong = np.array([60.0, 5.0, 60.0])
    sampler = st.CADMM(2.0, st.Lasso(tuple(strong)))
    how = {"draws": 1, "burn_in": 600, "chains": 1, "check": False}
    result = st.sample(problem, st.Network(GRAPH), sampler, **how)
    found = result.posterior["beta"].values.reshape(6, 3)
    quadratic = problem.quadratic
    mode = lasso_minimum(quadratic.hessian.sum(axis=0), quadratic.linear.sum(axis=0), strong)
    assert np.sum(mode == 0) == np.sum(found[0] == 0) > 0
    np.testing.assert_allclose(found, np.tile(mode, (6, 1)), atol=1e-8)


def test_depsgld_with_a_penalty():
    eta, smoothing = 0.013, 0.05

    def expected(H, b, x):
        w, W = noises(True, x.shape), metropolis()
        for k in range(ROUNDS):
            pulls = np.array([H[i] @ x[i] - b[i] for i in range(6)])
            pulls += (x - soft(x, smoothing * STRENGTH)) / (6 * smoothing)
            x = W @ x - eta * pulls + np.sqrt(2 * eta) * w[k]
        return x

    compare(st.DEPSGLD(eta, LASSO, smoothing), expected)
