"""Samplers of the field against dense NumPy transcriptions of their papers, as in `test_one_round`.

Here too the graph is irregular, the shards unequal, and nothing is shared with the package but the
noise.
"""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from tests.contract.test_one_round import ROUNDS, compare, metropolis, noises

ETA = 0.013


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
