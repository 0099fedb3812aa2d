"""Posteriors that are no probability distributions are refused, whatever the method."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.errors import TuningError


def separable_rows() -> st.Problem:
    """A logistic regression of rows that one number separates, without a prior."""
    x = np.linspace(0.05, 1, 20)
    return st.Problem(
        lambda p, row: -jnp.logaddexp(0.0, -row["x"] * p["b"]),
        lambda p: 0.0,
        {"b": ()},
        [{"x": x[::2]}, {"x": x[1::2]}],
    )


def rising_density() -> st.Problem:
    shards = [{"s": [1.0]}, {"s": [2.0]}]
    return st.Problem(lambda p, row: p["b"] * row["s"], lambda p: 0.0, {"b": ()}, shards)


@pytest.mark.quick(1)
@pytest.mark.parametrize("make", [separable_rows, rising_density])
@pytest.mark.parametrize("method", ["auto", "hmc"])
def test_chains_that_run_away_are_stopped(make, method):
    with pytest.raises(TuningError, match=r"chains run away: b has come to .*proper prior"):
        st.sample(make(), st.Network.path(2), method=method, progress=False)
