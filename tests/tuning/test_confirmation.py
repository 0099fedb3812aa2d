"""Weighted candidates instead of a pilot: which approximations they confirm, and what follows."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

import starlings as st
from starlings.methods.proposal import Proposal
from starlings.methods.weights import LARGEST_K
from starlings.network.gossip import Gossip
from starlings.random.addresses import shared_words
from starlings.solvers.pooled import potential
from starlings.tuning import pilot as pilots_of
from starlings.tuning import tune
from starlings.tuning.confirmation import NUM_CANDIDATES, is_confirmed
from tests.problems import irregular_graph, unequal_linear_problem
from tests.tuning.test_pilot import pilot_of, scripted_pilots, waiting_problem

RING = st.Network.ring(4)


def is_confirmed_at(problem, network, tuning, seed=0):
    with jax.enable_x64(True):
        return is_confirmed(problem, tuning, Gossip(network), seed)


def gamma_k(events, kind="confirmation", size=NUM_CANDIDATES):
    """k-hat of the first candidates for `waiting_problem`, by seed 0, in closed form.

    Its log-rate has a log-Gamma posterior. In coordinates of unit curvature at the mode its
    potential is e (exp(z/s) - z/s) with s^2 = e, the number of events.
    """
    proposal = Proposal.standard(1, is_diagonal=False)
    points = proposal.candidates(size, shared_words(0, kind, 1)[0])
    x = points[:, 0] / np.sqrt(events)
    log_weights = -events * (np.exp(x) - x) - proposal.log_density(points)
    return float(array_stats.psislw(-log_weights)[1])


def events_at_the_limit():
    """The number of events at which k-hat is `LARGEST_K`; more events make it smaller."""
    low, high = 1.0, 20.0
    assert gamma_k(low) > LARGEST_K > gamma_k(high)
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if gamma_k(middle) > LARGEST_K else (low, middle)
    return high


@pytest.mark.slow
@pytest.mark.parametrize("side", ["inside", "outside"])
def test_the_limit_of_k_hat_decides_on_the_length_of_the_pilot(side, monkeypatch):
    """Its moments are within their limits on both sides: only k-hat differs."""
    events = events_at_the_limit() * (1.05 if side == "inside" else 0.95)
    assert abs(gamma_k(events) - LARGEST_K) < 0.02
    problem = waiting_problem(events)
    tuning, good = tune(problem, RING), pilot_of(np.zeros(1), np.eye(1))
    assert is_confirmed_at(problem, RING, tuning) == (side == "inside")
    runs = scripted_pilots(monkeypatch, good)
    found = pilots_of.refine(problem, tuning, RING, seed=0)
    length = pilots_of.SHORT_PILOT if side == "inside" else st.DADMMS.pilot
    assert runs == [(0, length)]
    assert found.sampler == tuning.sampler


@pytest.mark.slow
def test_a_confirmed_posterior_is_tuned_alike_by_a_short_pilot_and_by_a_long_one(monkeypatch):
    problem = waiting_problem(30.0)
    first = tune(problem, RING)
    short = pilots_of.refine(problem, first, RING, seed=0)
    monkeypatch.setattr(pilots_of, "is_confirmed", lambda *_: False)
    long = pilots_of.refine(problem, first, RING, seed=0)
    assert (short.sampler, short.step, short.pilots) == (long.sampler, long.step, long.pilots)
    np.testing.assert_array_equal(short.scale, long.scale)
    one_sum = 2 * 2  # of the candidates, to the root of the ring and back
    saved = st.DADMMS.pilot.cycles - pilots_of.SHORT_PILOT.cycles - one_sum
    assert long.sent.rounds - short.sent.rounds == saved > 0


@pytest.mark.parametrize("metric", ["matrix", "diagonal"])
@pytest.mark.parametrize(
    ("shift", "stretch", "is_right"),
    [(0.0, 1.0, True), (0.0, 1.15, True), (0.0, 1.4, False), (0.6, 1.0, False)],
)
def test_moments_of_the_candidates_are_judged(shift, stretch, is_right, metric, monkeypatch):
    """A Gaussian in coordinates that are shifted by so many sd, or too wide by so much."""
    if metric == "diagonal":
        monkeypatch.setattr(potential, "LARGEST_DENSE_HESSIAN", 1)
    problem = st.models.gaussian(np.array([np.diag([2.0, 5.0]), np.diag([1.0, 3.0])]))
    network = st.Network.path(2)
    tuning = tune(problem, network)
    assert tuning.scale.ndim == (1 if metric == "diagonal" else 2)
    offset = shift * np.array([0.0, 8.0**-0.5])
    other = dataclasses.replace(tuning, centre=tuning.centre + offset, scale=stretch * tuning.scale)
    assert is_confirmed_at(problem, network, other) is is_right


def test_candidates_where_nothing_is_finite_confirm_nothing():
    problem = st.Problem(
        lambda p, row: jnp.where(jnp.abs(p["m"]) < 100, -0.5 * (row["y"] - p["m"]) ** 2, -jnp.inf),
        lambda p: 0.0,
        {"m": ()},
        [{"y": [1.0]}, {"y": [2.0]}],
    )
    network = st.Network.path(2)
    tuning = tune(problem, network)
    assert is_confirmed_at(problem, network, tuning)
    far = dataclasses.replace(tuning, scale=1e9 * tuning.scale)
    assert not is_confirmed_at(problem, network, far)


def test_other_seeds_have_other_candidates_and_judge_alike():
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    tuning = tune(problem, network)
    words = {int(shared_words(seed, "confirmation", 1)[0]) for seed in range(5)}
    assert len(words) == 5
    assert all(is_confirmed_at(problem, network, tuning, seed) for seed in range(5))
