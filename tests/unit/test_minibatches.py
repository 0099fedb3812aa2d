"""Which rows a minibatch has: read off its gradient, where every row has a direction of its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import starlings as st
from starlings.random.addresses import Round, chain_keys
from starlings.runtime import loop
from starlings.runtime.recording import Schedule
from starlings.solvers.gradients import gradient
from tests.problems import flat

SIZES = (1, 5, 9, 17)
BATCH, ROUNDS = 3, 4000


def row_by_row_problem():
    """Row k of a site has the log-likelihood z_k, so that a gradient counts rows."""
    shards = [{"e": np.eye(max(SIZES))[:size]} for size in SIZES]
    return st.Problem(lambda p, row: row["e"] @ p["z"], flat, {"z": (max(SIZES),)}, shards)


@pytest.fixture(scope="module")
def counts():
    """How often every row is in the minibatch, (agent, round, row)."""
    with jax.enable_x64(True):
        agents = row_by_row_problem().agents()
        own, common = chain_keys(0, 1, len(SIZES))

        @jax.jit
        @jax.vmap
        def slopes(agent, key):
            def one(k):
                z = jnp.zeros(max(SIZES))
                return gradient(agent, z, Round(k, key, common[0]), BATCH)

            return jax.vmap(one)(1 + jnp.arange(ROUNDS))

        found = np.asarray(slopes(agents, own[0]))
    return -found * BATCH / np.array(SIZES)[:, None, None]  # eq. (1) of `gradients`


def test_a_minibatch_has_as_many_rows_as_it_should(counts):
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-12)
    np.testing.assert_allclose(counts.sum(axis=2), BATCH, atol=1e-12)
    assert counts.min() > -1e-12


def test_every_row_of_a_site_is_as_likely_as_the_others_and_padding_is_never_drawn(counts):
    """Padding repeats the first row, which would then be too frequent."""
    for own, size in zip(counts, SIZES, strict=True):
        drawn = own.sum(axis=0)
        assert np.all(drawn[size:] == 0)
        assert size == 1 or scipy.stats.chisquare(drawn[:size]).pvalue > 1e-3


def test_rows_are_drawn_anew_for_every_round_and_agent(counts):
    """Two independent batches of a site with 17 rows are the same ones 1 time in 800 or less."""
    again = np.all(counts[3, 1:] == counts[3, :-1], axis=1)
    assert again.mean() < 0.01
    first = counts[2:, :, :9] > 0
    assert not np.array_equal(first[0], first[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda batch: st.DSGLD(1e-3, batch_size=batch),
        lambda batch: st.DSGHMC(1e-2, friction=3.0, batch_size=batch),
        lambda batch: st.DULA(1e-3, consensus_step=0.1, batch_size=batch),
        lambda batch: st.GEXTRA(1e-3, batch_size=batch),
        lambda batch: st.DIGing(1e-3, batch_size=batch),
    ],
    ids=["dsgld", "dsghmc", "dula", "gextra", "diging"],
)
def test_samplers_use_the_minibatch(make):
    """A site whose rows are alike has one gradient for all batches, and others have not."""
    alike, unlike = np.tile(np.eye(4)[:1], (6, 1)), np.eye(4)[[0, 0, 0, 0, 1, 2]]
    network = st.Network.path(2)

    def run(rows, batch):
        shards = [{"e": rows}, {"e": rows}]
        problem = st.Problem(lambda p, row: row["e"] @ p["z"], flat, {"z": (4,)}, shards)
        with jax.enable_x64(True):
            start, plan = jnp.zeros((1, 2, 4)), Schedule(draws=3)
            agents = problem.agents(network)
            return loop.run(make(batch), agents, network, start, 0, plan).joined().position

    np.testing.assert_allclose(run(alike, 2), run(alike, None), rtol=1e-12, atol=1e-12)
    assert np.abs(run(unlike, 2) - run(unlike, None)).max() > 1e-4
