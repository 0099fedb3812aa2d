"""Samplers of the field against dense NumPy transcriptions of their papers, as in `test_one_round`.

Here too the graph is irregular, the shards unequal, and nothing is shared with the package but the
noise.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.random.addresses import Round, chain_keys
from starlings.samplers.mahmc import FORMS
from tests.contract.test_one_round import CHAINS, GRAPH, ROUNDS, SEED, compare, metropolis, noises
from tests.problems import logistic_rows
from tests.quick import quick_cases

ETA = 0.013
BELIEFS = [("full", "private"), ("full", "coherent"), ("mean-field", "private")]


def langevin_noises(noise, shape):
    """u[k][i]: drawn by every agent, or one for all, over the root of their number."""
    w = noises(noise == "private", shape)
    return w if noise == "private" else w / np.sqrt(shape[0])


def slopes_of(H, b, x):
    return np.array([H[i] @ x[i] - b[i] for i in range(len(x))])


@pytest.mark.parametrize("noise", ["private", "coherent"])
def test_gextra(noise):
    """x'' = (I + W) x' - V x - eta (g' - g) + sqrt(2 eta) (u' - u), with V = h I + (1 - h) W."""
    h = 0.3

    def expected(H, b, x):
        u, W = langevin_noises(noise, x.shape), metropolis()
        V = h * np.eye(6) + (1 - h) * W
        slopes = slopes_of(H, b, x)
        new = W @ x - ETA * slopes + np.sqrt(2 * ETA) * u[0]
        for k in range(1, ROUNDS):
            old, x = x, new
            before, slopes = slopes, slopes_of(H, b, x)
            new = (np.eye(6) + W) @ x - V @ old - ETA * (slopes - before)
            new = new + np.sqrt(2 * ETA) * (u[k] - u[k - 1])
        return new

    compare(st.GEXTRA(ETA, h, noise=noise), expected)


@pytest.mark.parametrize("noise", ["private", "coherent"])
def test_diging(noise):
    def expected(H, b, x):
        u, W = langevin_noises(noise, x.shape), metropolis()
        y = slopes_of(H, b, x)
        for k in range(ROUNDS):
            before = slopes_of(H, b, x)
            x = W @ x - ETA * y + np.sqrt(2 * ETA) * u[k]
            y = W @ y + slopes_of(H, b, x) - before
        return x

    compare(st.DIGing(ETA, noise=noise), expected)


def draws_of_beliefs(precisions, means, w):
    """m + L'^-1 w with P = L L'."""
    roots = [np.linalg.inv(np.linalg.cholesky(P)).T for P in precisions]
    return np.array([m + root @ own for m, root, own in zip(means, roots, w, strict=True)])


@pytest.mark.slow
@pytest.mark.parametrize("beliefs", quick_cases(BELIEFS, BELIEFS[:1]))
def test_peer_learning(beliefs):
    """Two rounds take up half of every agent's data each; the third one mixes only."""

    family, noise = beliefs

    def expected(H, b, x):
        W, dim = metropolis(), x.shape[1]
        P, shift = np.zeros_like(H), np.zeros_like(b)
        for k in range(ROUNDS):
            P = np.array([sum(W[i, j] * P[j] for j in range(6)) for i in range(6)])
            shift = W @ shift
            if k < 2:
                P, shift = P + 6 / 2 * H, shift + 6 / 2 * b
            means = np.array([np.linalg.solve(P[i], shift[i]) for i in range(6)])
            if family == "mean-field":
                P = P * np.eye(dim)
                shift = np.array([P[i] @ means[i] for i in range(6)])
        w = noises(noise == "private", x.shape)[ROUNDS - 1]
        return draws_of_beliefs(P, means, w)

    compare(st.PeerLearning(family=family, updates=2, noise=noise), expected)


@pytest.mark.slow
def test_peer_learning_as_published():
    """Every agent has the whole prior N(0, 5 I) and its own rows; f_i has a sixth of the prior."""

    def expected(H, b, x):
        prior = np.eye(x.shape[1]) / 5
        P, shift = H - prior / 6 + prior, b
        W = metropolis()
        for _ in range(ROUNDS - 1):
            P, shift = np.tensordot(W, P, 1), W @ shift
        means = [np.linalg.solve(*each) for each in zip(P, shift, strict=True)]
        return draws_of_beliefs(P, means, noises(True, x.shape)[ROUNDS - 1])

    compare(st.PeerLearning(calibration="published"), expected)


@pytest.mark.slow
def test_more_updates_bring_the_modes_of_peer_learning_together():
    """On a logistic regression with very unequal sites: means within 0.3 sd of the pooled mode."""
    problem, network = st.models.logistic_regression(*logistic_rows()), st.Network.ring(5)
    mode = st.theory.posterior_mode(problem)
    sd = np.sqrt(np.diag(st.theory.quadratic_model(problem).exact_posterior()[1]))

    def distance(updates):
        how = {"burn_in": 80, "draws": 50, "chains": 8, "seed": 2, "check": False}
        result = st.sample(problem, network, st.PeerLearning(updates=updates), **how)
        draws = result.posterior["beta"].values.reshape(-1, problem.dim)
        return np.abs((draws.mean(axis=0) - mode) / sd).max()

    assert distance(1) > 0.7
    assert distance(20) < 0.3


@pytest.mark.parametrize("form", quick_cases(FORMS, ["published"]))
def test_mahmc(form):
    """Three rounds are a cycle, in which positions are mixed twice, and then nine are three."""
    step, cycles = 0.03, 3

    def expected(H, b, x):
        W, agents = metropolis(), range(6)
        network = chain_keys(SEED, CHAINS, 6)[0][1]
        s, r, g, q = np.zeros_like(x), np.zeros(6), np.zeros_like(x), np.zeros(6)
        taken = []
        for k in range(cycles):
            rounds = [Round(3 * k, network[i], None) for i in agents]
            m = np.array([rounds[i].private_noise(x[i]) for i in agents])
            before, bends = g, q
            g = -slopes_of(H, b, x)
            q = np.array([m[i] @ H[i] @ m[i] for i in agents])
            s, r = W @ (s + g - before), W @ (r + q - bends)
            y = x + step * (m + step * s / (2 if form == "corrected" else 1))
            if form == "published":
                keys = [Round(3 * k + 1, network[i], None).batch_key() for i in agents]
                log_u = -np.array([jax.random.exponential(key, dtype=float) for key in keys])
                accepts = log_u <= -(step**2) / 2 * (r + np.sum(s**2, axis=1))
                taken.extend(accepts)
                y = np.where(accepts[:, None], y, x)
            x = W @ (W @ y)
        assert form != "published" or 0 < np.mean(taken) < 1
        return y

    compare(st.MAHMC(step, form, consensus_rounds=2), expected, rounds=3 * cycles - 2)


@pytest.mark.slow
def test_gibbs_over_networks():
    """Points of every edge, drawn by its two ends, then the conditional law of every position."""
    rho = 1.7

    def expected(H, b, x):
        dim = x.shape[1]
        network = chain_keys(SEED, CHAINS, 6)[1][1]
        v = noises(True, x.shape)

        @jax.jit
        def of_edge(k, i, j):
            key = network
            for number in (2 * k + 1, 1 + i, 1 + j):
                key = jax.random.fold_in(key, number)
            return jax.random.normal(key, (dim,), np.float64)

        for k in range(1, ROUNDS + 1):
            total = np.zeros_like(x)
            for i, j in (sorted(edge) for edge in GRAPH.edges):
                w = np.asarray(of_edge(k, i, j))
                both = x[i] + x[j] + w / np.sqrt(rho)  # the sum of the two points of the edge
                total[i] += rho * both
                total[j] += rho * both
            for i in range(6):
                K = H[i] + 2 * rho * len(GRAPH.adj[i]) * np.eye(dim)
                values, vectors = np.linalg.eigh(K)
                root = (vectors / np.sqrt(values)) @ vectors.T
                x[i] = np.linalg.solve(K, b[i] + total[i]) + root @ v[k - 1, i]
        return x

    compare(st.NetworkGibbs(rho), expected)


@pytest.mark.slow
def test_gibbs_over_networks_is_exact_for_its_augmented_law_where_it_is_not_gaussian():
    """Two agents with one coefficient of a Poisson regression each: moments by quadrature."""
    rho, chains = 0.7, 3000
    x, y, sites = [1.0, -0.5, 2.0, 0.3], [3.0, 0.0, 1.0, 2.0], [0, 0, 1, 1]
    problem = st.models.poisson_regression(np.array(x)[:, None], y, sites, intercept=False)
    how = {"chains": chains, "draws": 1, "burn_in": 30, "seed": 3, "check": False}
    result = st.sample(problem, st.Network.path(2), st.NetworkGibbs(rho), **how)
    draws = result.posterior["beta"].values.reshape(chains, 2)
    grid = np.linspace(-3, 3, 401)
    with jax.enable_x64(True):
        agents = problem.agents(st.Network.path(2).matched_to(problem.sites))
        each = jax.vmap(lambda a: jax.vmap(lambda z: a.potential(z[None]))(jax.numpy.asarray(grid)))
        first, second = np.asarray(each(agents))
    apart = rho / 2 * (grid[:, None] - grid) ** 2
    density = np.exp(-first[:, None] - second - apart)
    density /= density.sum()
    for power in (1, 2, 3):
        powers = grid**power
        mean = np.array([density.sum(axis=1) @ powers, density.sum(axis=0) @ powers])
        square = np.array([density.sum(axis=1) @ powers**2, density.sum(axis=0) @ powers**2])
        error = np.sqrt((square - mean**2) / chains)
        assert np.abs((draws**power).mean(axis=0) - mean).max() < 4.5 * error.max()


@pytest.mark.parametrize("noise", ["private", "coherent"])
def test_depsgld(noise):
    """In a ball, outside of which every agent starts but one."""
    support, smoothing = st.Ball(0.8, centre=0.3), 0.05

    def expected(H, b, x):
        u, W = langevin_noises(noise, x.shape), metropolis()
        for k in range(ROUNDS):
            outside = np.zeros_like(x)
            for i in range(6):
                distance = np.linalg.norm(x[i] - 0.3)
                outside[i] = (x[i] - 0.3) * max(0.0, 1 - 0.8 / distance)
            pulls = slopes_of(H, b, x) + outside / (6 * smoothing)
            x = W @ x - ETA * pulls + np.sqrt(2 * ETA) * u[k]
        return x

    compare(st.DEPSGLD(ETA, support, smoothing, noise=noise), expected)
