"""Two masked runs of a study in which one row has changed: what their totals tell together."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.network.gossip import Gossip
from starlings.privacy.secrecy import Secrecy

RING = st.Network.ring(3)
ROWS, DIM = 90, 3


def columns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    X = random.normal(size=(ROWS, DIM))
    y = (random.logistic(size=ROWS) < X @ [1.0, -0.5, 0.2]).astype(float)
    return X, y, np.arange(ROWS) % 3


def masked_total(keep: np.ndarray, point: np.ndarray) -> np.ndarray:
    """The gradient of all rows that are kept, at a point, as every site reads it by masked sums."""
    X, y, sites = columns()
    problem = st.models.logistic_regression(X[keep], y[keep], sites[keep], intercept=False)
    with jax.enable_x64(True):
        agents = problem.agents(RING)
        own = np.array([agent.gradient(point) for agent in each_of(agents)])
        masked = RING.masked(Secrecy.agreed(RING))
        return Gossip(masked).sum(own, "derivatives")[0]


def each_of(agents):
    return [jax.tree.map(lambda leaf, k=k: leaf[k], agents) for k in range(RING.size)]


@pytest.mark.slow
@pytest.mark.parametrize("gone", [0, 17])
def test_the_difference_of_two_masked_runs_is_the_row_that_changed(gone):
    """With all coefficients 0 the gradient of a row (x, y) is (1/2 - y) x: half of it, or of -x."""
    X, y, _ = columns()
    keep, origin = np.arange(ROWS) != gone, np.zeros(DIM)
    difference = masked_total(np.ones(ROWS, bool), origin) - masked_total(keep, origin)
    np.testing.assert_allclose(2 * difference, (1 - 2 * y[gone]) * X[gone], atol=1e-12)


def test_more_than_one_changed_row_is_a_sum_of_them():
    """With several rows the difference of totals is a total again, over these rows."""
    X, y, _ = columns()
    gone, origin = np.array([0, 17, 40, 41]), np.zeros(DIM)
    keep = ~np.isin(np.arange(ROWS), gone)
    difference = masked_total(np.ones(ROWS, bool), origin) - masked_total(keep, origin)
    total = ((1 - 2 * y)[:, None] * X)[gone].sum(axis=0)
    np.testing.assert_allclose(2 * difference, total, atol=1e-12)
    assert min(np.abs(np.abs(X) - np.abs(total)).max(axis=1)) > 0.05, "it is none of the rows"
