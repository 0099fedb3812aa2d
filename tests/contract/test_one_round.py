"""Every sampler against a dense NumPy transcription of its published equations.

The graph is irregular and the shards unequal. The transcriptions loop over agents and neighbours as
the papers print them; they share nothing with the package but the noise.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.samplers import MidpointADMMS
from tests.problems import irregular_graph, unequal_linear_problem

ROUNDS, CHAINS, SEED = 3, 2, 7
GRAPH = irregular_graph()
NEIGHBOURS = [sorted(GRAPH.adj[i]) for i in range(6)]
DEGREES = [len(n) for n in NEIGHBOURS]


def noises(private: bool, shape):
    """w[k][i] of rounds 1, 2, ... of chain 1; the same for every agent where it is shared."""
    agent_keys, network_keys = chain_keys(SEED, CHAINS, shape[0])
    like = jax.ShapeDtypeStruct((shape[1],), np.float64)
    rows = []
    for k in range(1, ROUNDS + 2):
        rounds = [Round(k, agent_keys[1, i], network_keys[1]) for i in range(shape[0])]
        rows.append([r.private_noise(like) if private else r.shared_noise(like) for r in rounds])
    return np.array(rows)


def spare_noises(shape):
    """v[k] of rounds 1, 2, ... of chain 1, from the other stream that all agents share."""
    _, network_keys = chain_keys(SEED, CHAINS, shape[0])
    keys = [Round(k, None, network_keys[1]).shared_key() for k in range(1, ROUNDS + 1)]
    return np.array([jax.random.normal(key, (shape[1],), np.float64) for key in keys])


def metropolis():
    W = np.zeros((6, 6))
    for i, j in GRAPH.edges:
        W[i, j] = W[j, i] = 1 / (1 + max(DEGREES[i], DEGREES[j]))
    return W + np.diag(1 - W.sum(axis=1))


def transcribed_admm(H, b, x, kicks, rho):
    """Algorithm 1: argmin f_i + p_i'x + rho sum_j |x - (x_i + x_j)/2|^2 + n_i'x, then the dual."""
    p = np.zeros_like(x)
    for n in kicks:
        new = np.empty_like(x)
        for i, near in enumerate(NEIGHBOURS):
            centre = sum((x[i] + x[j]) / 2 for j in near)
            K = H[i] + 2 * rho * len(near) * np.eye(x.shape[1])
            new[i] = np.linalg.solve(K, b[i] - p[i] + 2 * rho * centre - n[i])
        p = p + rho * np.array(
            [sum(new[i] - new[j] for j in near) for i, near in enumerate(NEIGHBOURS)]
        )
        x = new
    return x


def admm_kicks(w, rho, noise):
    d = np.array(DEGREES, float)[None, :, None]
    scale = {
        "paper": np.sqrt(2) * d,
        "private": 2 * np.sqrt(rho * d),
        "coherent": 2 * d * np.sqrt(rho / d.sum()),
    }[noise]
    return scale * w


@pytest.mark.quick(3)
@pytest.mark.parametrize("noise", ["paper", "private", "coherent"])
@pytest.mark.parametrize("output", ["iterate", "half-noise"])
def test_dadmms(noise, output):
    rho = 1.7

    def expected(H, b, x):
        kicks = admm_kicks(noises(noise != "coherent", x.shape), rho, noise)
        last = transcribed_admm(H, b, x, kicks[:ROUNDS], rho)
        half = kicks[ROUNDS] / (4 * rho * np.array(DEGREES)[:, None])
        return last - half if output == "half-noise" else last

    compare(st.DADMMS(rho=rho, noise=noise, output=output), expected)


def coherent_kicks(shape, rho):
    return admm_kicks(noises(False, shape), rho, "coherent")[:ROUNDS]


def test_dadmms_with_curvature_noise():
    rho = 1.7

    def expected(H, b, x):
        kicks, w = coherent_kicks(x.shape, rho), noises(True, x.shape)
        for i in range(6):
            values, vectors = np.linalg.eigh(H[i])
            kicks[:, i] += w[:ROUNDS, i] @ (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        return transcribed_admm(H, b, x, kicks, rho)

    compare(st.DADMMS(rho, noise="curvature", output="iterate"), expected)


def test_dadmms_with_coherent_curvature_noise():
    rho = 1.7

    def expected(H, b, x):
        kicks, v = coherent_kicks(x.shape, rho), spare_noises(x.shape)
        for k in range(ROUNDS):
            kicks[k] += np.array([H[i] @ v[k] for i in range(6)])
        return transcribed_admm(H, b, x, kicks, rho)

    compare(st.DADMMS(rho, noise="coherent-curvature", output="iterate"), expected)


def test_midpoint():
    """The midpoint of an implicit step to the neighbourhood's mean, doubled about that mean."""
    rho = 1.7

    def expected(H, b, x):
        p, identity = np.zeros_like(x), np.eye(x.shape[1])
        for n in coherent_kicks(x.shape, rho) / np.sqrt(2):
            y, new = np.empty_like(x), np.empty_like(x)
            for i, near in enumerate(NEIGHBOURS):
                mean = np.mean([(x[i] + x[j]) / 2 for j in near], axis=0)
                pull = 2 * rho * len(near)
                y[i] = np.linalg.solve(H[i] + pull * identity, b[i] - p[i] + pull * mean - n[i])
                new[i] = mean + 2 * (y[i] - mean)
            for i, near in enumerate(NEIGHBOURS):
                p[i] += rho * sum(y[i] - y[j] for j in near)
            x = new
        return x

    compare(MidpointADMMS(rho), expected)


def test_cadmm():
    compare(
        st.CADMM(rho=0.4),
        lambda H, b, x: transcribed_admm(H, b, x, np.zeros((ROUNDS, *x.shape)), 0.4),
    )


@pytest.mark.parametrize("noise", ["private", "coherent"])
def test_dsgld(noise):
    eta = 0.013

    def expected(H, b, x):
        w, W = noises(noise == "private", x.shape), metropolis()
        w = w if noise == "private" else w / np.sqrt(6)
        for k in range(ROUNDS):
            slopes = np.array([H[i] @ x[i] - b[i] for i in range(6)])
            x = W @ x - eta * slopes + np.sqrt(2 * eta) * w[k]
        return x

    compare(st.DSGLD(step_size=eta, noise=noise), expected)


@pytest.mark.quick(1)
@pytest.mark.parametrize("noise", ["private", "coherent"])
def test_dsghmc(noise):
    eta, gamma = 0.08, 3.0

    def expected(H, b, x):
        w, W = noises(noise == "private", x.shape), metropolis()
        w = w if noise == "private" else w / np.sqrt(6)
        agent_keys, network_keys = chain_keys(SEED, CHAINS, 6)
        starts = [Round(0, agent_keys[1, i], network_keys[1]).batch_key() for i in range(6)]
        v = np.array([jax.random.normal(key, (x.shape[1],)) for key in starts])
        for k in range(ROUNDS):
            slopes = np.array([H[i] @ x[i] - b[i] for i in range(6)])
            v = v - eta * (gamma * v + slopes) + np.sqrt(2 * gamma * eta) * w[k]
            x = W @ x + eta * v
        return x

    compare(st.DSGHMC(step_size=eta, friction=gamma, noise=noise), expected)


@pytest.mark.parametrize("noise", ["private", "coherent"])
def test_dula(noise):
    def expected(H, b, x):
        w = noises(noise == "private", x.shape)
        v = np.sqrt(6) * w if noise == "private" else w  # v_i ~ N(0, N I), or one N(0, I) for all
        for k in range(ROUNDS):
            alpha, zeta = 0.002 / (k + 10) ** 0.3, 0.5 / (k + 20) ** 0.1
            apart = np.array([sum(x[i] - x[j] for j in near) for i, near in enumerate(NEIGHBOURS)])
            slopes = np.array([H[i] @ x[i] - b[i] for i in range(6)])
            x = x - zeta * apart - alpha * 6 * slopes + np.sqrt(2 * alpha) * v[k]
        return x

    steps = {"step_size": st.Decay(0.002, 10, 0.3), "consensus_step": st.Decay(0.5, 20, 0.1)}
    compare(st.DULA(**steps, noise=noise), expected)


def compare(sampler, expected, rounds=ROUNDS):
    """Some rounds of the vectorised runtime equal the transcription to 1e-12."""
    problem, network = unequal_linear_problem(), st.Network(GRAPH)
    start = np.random.default_rng(0).normal(size=(CHAINS, 6, 3))
    with jax.enable_x64(True):
        agents = problem.agents(network)
        record = loop.run(
            sampler, agents, network, jax.numpy.asarray(start), SEED, Schedule(draws=rounds)
        ).joined()
        quadratic = problem.quadratic
        wanted = expected(quadratic.hessian, quadratic.linear, start[1].copy())
    np.testing.assert_allclose(record.position[-1, 1], wanted, rtol=1e-12, atol=1e-12)
