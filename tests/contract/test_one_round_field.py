"""Samplers of the field against dense NumPy transcriptions of their papers, as in `test_one_round`.

Here too the graph is irregular, the shards unequal, and nothing is shared with the package but the
noise.
"""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from tests.contract.test_one_round import ROUNDS, compare, metropolis, noises
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
