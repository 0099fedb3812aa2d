"""What masked sums can hold: an error that says so where nothing else is wrong."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import starlings as st
from starlings.errors import FixedPointError
from starlings.network.gossip import FARTHEST, Gossip
from starlings.privacy.secrecy import Secrecy
from tests.privacy.test_private_runs import LENGTHS, RING


def with_constant(constant: float) -> st.Problem:
    """The mean of normal rows, with a constant in the log-likelihood of each site."""
    shards = [{"y": np.random.default_rng(k).normal(size=30)} for k in range(4)]
    each = constant / 30
    return st.Problem(
        lambda p, row: -0.5 * (row["y"] - p["m"]) ** 2 - each,
        lambda p: -0.5 * p["m"] ** 2 / 100,
        {"m": ()},
        shards,
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "weights", "hmc", "dadmms"])
def test_a_constant_beyond_the_range_is_said_to_be_that(method):
    """Without masks such a model may work; with them nothing is said of derivatives or starts."""
    how = {**LENGTHS, "method": method, "chains": 16, "privacy": "totals"}
    with pytest.raises(FixedPointError, match=r"1.1e\+12 or larger, .* constants out of the log-l"):
        st.sample(with_constant(3e12), RING, **how)


def test_a_constant_within_the_range_changes_nothing():
    how = {**LENGTHS, "method": "weights", "privacy": "totals"}
    one, other = (st.sample(with_constant(c), RING, **how).posterior["m"] for c in (0.0, 1e6))
    np.testing.assert_allclose(one, other, atol=1e-4)


def masked_gossip() -> Gossip:
    with jax.enable_x64(True):
        return Gossip(RING.masked(Secrecy.agreed(RING)))


def test_only_finite_numbers_that_are_replaced_are_refused():
    gossip = masked_gossip()
    for parts, is_refused in (
        ([1.0, np.inf, np.nan, -np.inf], False),
        ([1.0, 2 * FARTHEST, 0.0, 0.0], True),
        ([1.0, -FARTHEST, 0.0, 0.0], True),
        ([1.0, 0.5 * FARTHEST, 0.0, 0.0], False),
    ):
        found = gossip.bounded(np.array(parts)[:, None])
        assert np.isinf(found).sum() == sum(not abs(x) < FARTHEST for x in parts)
        if is_refused:
            with pytest.raises(FixedPointError):
                gossip.refuse_far()
        else:
            gossip.refuse_far()


def test_the_largest_is_a_total_where_sums_are_masked():
    """Between the largest and the number of sites times that, for limits with room to spare."""
    values = np.array([[0.01, 0.0], [0.05, 0.0], [0.02, 3.0], [0.0, 3.0]])
    with jax.enable_x64(True):
        plain, masked = Gossip(RING).largest(values), masked_gossip().largest(values)
    np.testing.assert_allclose(plain, np.tile([0.05, 3.0], (4, 1)), rtol=1e-6)
    np.testing.assert_allclose(masked, np.tile([0.08, 6.0], (4, 1)), rtol=1e-12)
    assert np.all((masked >= plain) & (masked <= 4 * plain))
