"""Samplers of the field against NumPy, where potentials are not quadratic and not convex.

The potentials are those of `test_one_round_nonquadratic`, whose derivatives are written out there.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
import scipy.linalg

import starlings as st
from starlings.random.addresses import Round, chain_keys
from tests.contract.test_one_round import CHAINS, NEIGHBOURS, ROUNDS, SEED, metropolis, noises
from tests.contract.test_one_round_nonquadratic import (
    ACCURACY,
    AGENTS,
    DIM,
    around,
    problem_in,
    simulated,
    starts,
)

ETA = 0.05
W = metropolis()


def private_noises():
    with jax.enable_x64(True):
        return noises(True, (AGENTS, DIM))


def slopes_at(potentials, x):
    return np.array([potentials.gradient(i, x[i]) for i in range(AGENTS)])


def transcribed_gextra(potentials, x, w):
    """x'' = (I + W) x' - V x - eta (g' - g) + sqrt(2 eta) (w' - w), with V = (I + W) / 2."""
    V, slopes = (np.eye(AGENTS) + W) / 2, slopes_at(potentials, x)
    new = W @ x - ETA * slopes + np.sqrt(2 * ETA) * w[0]
    for k in range(1, ROUNDS):
        old, x, before = x, new, slopes
        slopes = slopes_at(potentials, x)
        new = (np.eye(AGENTS) + W) @ x - V @ old - ETA * (slopes - before)
        new = new + np.sqrt(2 * ETA) * (w[k] - w[k - 1])
    return new


def transcribed_diging(potentials, x, w):
    y = slopes_at(potentials, x)
    for k in range(ROUNDS):
        before = slopes_at(potentials, x)
        x = W @ x - ETA * y + np.sqrt(2 * ETA) * w[k]
        y = W @ y + slopes_at(potentials, x) - before
    return x


def transcribed_depsgld(potentials, x, w):
    """In the box from 0 to 0.3, with s = 0.2."""
    for k in range(ROUNDS):
        outside = np.maximum(x - 0.3, 0) + np.minimum(x, 0)
        slopes = slopes_at(potentials, x) + outside / (AGENTS * 0.2)
        x = W @ x - ETA * slopes + np.sqrt(2 * ETA) * w[k]
    return x


def transcribed_event_dula(potentials, x, w):
    held = np.full_like(x, np.inf)
    for k in range(ROUNDS):
        for i in range(AGENTS):
            if np.linalg.norm(x[i] - held[i]) > 0.7 / (k + 1) ** 0.5:
                held[i] = x[i]
        away = np.array([sum(held[i] - held[j] for j in NEIGHBOURS[i]) for i in range(AGENTS)])
        x = x - 0.2 * away - 0.01 * AGENTS * slopes_at(potentials, x)
        x = x + np.sqrt(0.02 * AGENTS) * w[k]
    return x


GRADIENT_BASED = {
    "gextra": (st.GEXTRA(ETA), transcribed_gextra),
    "diging": (st.DIGing(ETA), transcribed_diging),
    "depsgld": (st.DEPSGLD(ETA, st.Box(0.0, 0.3), 0.2), transcribed_depsgld),
    "event-dula": (
        st.EventDULA(0.01, 0.2, threshold=st.Decay(0.7, exponent=0.5)),
        transcribed_event_dula,
    ),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", GRADIENT_BASED)
def test_gradient_based(name):
    sampler, transcribed = GRADIENT_BASED[name]
    (problem, potentials), start = problem_in("own"), starts()
    wanted = transcribed(potentials, start[1].copy(), private_noises())
    np.testing.assert_allclose(simulated(sampler, problem, start), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_mahmc():
    """Two cycles of two rounds, the second of which is half over; with products of Hessians."""
    (problem, potentials), start, step, agents = problem_in("own"), starts(), 0.3, range(AGENTS)
    keys = chain_keys(SEED, CHAINS, AGENTS)[0][1]
    x, s, r = start[1], np.zeros((AGENTS, DIM)), np.zeros(AGENTS)
    g, q, taken = s, r, []
    for k in (0, 2):
        with jax.enable_x64(True):
            like = jax.ShapeDtypeStruct((DIM,), np.float64)
            m = np.array([Round(k, keys[i], None).private_noise(like) for i in agents])
            chances = [Round(k + 1, keys[i], None).batch_key() for i in agents]
            log_u = -np.array([jax.random.exponential(key, dtype=float) for key in chances])
        before, bends = g, q
        g = -slopes_at(potentials, x)
        q = np.array([m[i] @ potentials.hessian(i, x[i]) @ m[i] for i in agents])
        s, r = W @ (s + g - before), W @ (r + q - bends)
        y = x + step * m + step**2 * s
        is_taken = log_u <= -(step**2) / 2 * (r + np.sum(s**2, axis=1))
        y = np.where(is_taken[:, None], y, x)
        taken.extend(is_taken)
        x = W @ y
    assert 0 < np.mean(taken) < 1
    found = simulated(st.MAHMC(step, "published"), problem, start)
    np.testing.assert_allclose(found, y, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_gibbs_over_networks():
    """Its two Metropolis steps, by eqs. (4) and (5) of the module, at every agent."""
    rho = 1.7
    (problem, potentials), start = problem_in("own"), starts()
    private, shared = chain_keys(SEED, CHAINS, AGENTS)
    x, own, taken = start[1].copy(), private_noises(), []
    with jax.enable_x64(True):
        for k in range(1, ROUNDS + 1):
            linear = np.array([rho * around(x, i) for i in range(AGENTS)])
            for i in range(AGENTS):
                for j in (j for j in NEIGHBOURS[i] if j > i):
                    key = shared[1]
                    for number in (2 * k + 1, 1 + i, 1 + j):
                        key = jax.random.fold_in(key, number)
                    w = np.asarray(jax.random.normal(key, (DIM,), np.float64))
                    linear[i], linear[j] = linear[i] + rho**0.5 * w, linear[j] + rho**0.5 * w
            for i in range(AGENTS):
                keys = jax.random.split(Round(k, private[1, i], None).batch_key(), 3)
                wide = np.asarray(jax.random.normal(keys[0], (DIM,), np.float64))
                log_u = [-float(jax.random.exponential(key, dtype=float)) for key in keys[1:]]
                pull = 2 * rho * len(NEIGHBOURS[i]) * np.eye(DIM)
                mode = potentials.proximal(i, linear[i], x[i])

                def energy(z, i=i, pull=pull, linear=linear):
                    return potentials.value(i, z) + z @ pull @ z / 2 - linear[i] @ z

                curved = potentials.hessian(i, mode) + pull
                for precision, noise, chance in ((pull, wide, 0), (curved, own[k - 1, i], 1)):
                    root = np.linalg.cholesky(precision)
                    z = mode + scipy.linalg.solve_triangular(root.T, noise)
                    gaussian = [(a - mode) @ precision @ (a - mode) / 2 for a in (z, x[i])]
                    gain = energy(x[i]) - energy(z) + gaussian[0] - gaussian[1]
                    taken.append(gain > log_u[chance])
                    x[i] = z if taken[-1] else x[i]
    assert 0 < np.mean(taken) < 1
    found = simulated(st.NetworkGibbs(rho), problem, start)
    np.testing.assert_allclose(found, x, rtol=0, atol=ACCURACY)


@pytest.mark.slow
def test_peer_learning():
    """Two rounds take up half of every agent's data each, about the modes of what they believe."""
    (problem, potentials), start = problem_in("convex"), starts()
    P, shift, means = np.zeros((AGENTS, DIM, DIM)), np.zeros((AGENTS, DIM)), start[1].copy()
    weight = AGENTS / 2
    for k in range(ROUNDS):
        P, shift = np.tensordot(W, P, 1), W @ shift
        for i in range(AGENTS):
            if k == 2:
                means[i] = np.linalg.solve(P[i], shift[i])
                continue
            for _ in range(50):  # Newton's method
                slope = weight * potentials.gradient(i, means[i]) + P[i] @ means[i] - shift[i]
                curvature = weight * potentials.hessian(i, means[i]) + P[i]
                means[i] = means[i] - np.linalg.solve(curvature, slope)
            P[i] = weight * potentials.hessian(i, means[i]) + P[i]
            shift[i] = P[i] @ means[i]
    roots = [np.linalg.inv(np.linalg.cholesky(each)).T for each in P]
    w = private_noises()[ROUNDS - 1]
    wanted = means + np.einsum("iab,ib->ia", roots, w)
    found = simulated(st.PeerLearning(updates=2), problem, start)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=ACCURACY)
