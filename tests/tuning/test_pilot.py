"""Pilot runs: coordinates that fit are left alone, others are estimated again, all is counted."""

from __future__ import annotations

import copy
import dataclasses

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from scipy.special import digamma, polygamma

import starlings as st
from starlings.network.gossip import Gossip
from starlings.runtime import loop
from starlings.samplers import Metropolis
from starlings.solvers.pooled import potential
from starlings.tuning import ladder, tune
from starlings.tuning import pilot as pilots_of
from starlings.tuning.confirmation import NUM_CANDIDATES
from starlings.tuning.moments import TOLERATED_STRETCH, Moments, fit
from starlings.tuning.shares import CURVATURE_POINTS, shared_points
from starlings.tuning.tuner import STEP, Coordinates, Goal, tuned_at
from tests.problems import (
    irregular_graph,
    skewed_problem,
    unequal_linear_problem,
)

IRREGULAR = st.Network(irregular_graph())
MIXTURE = np.array([[2.0, -1.0], [0.5, 1.0]])


def long_tailed(p, row):
    u, v = MIXTURE @ p["x"]
    return -row["part"] * (0.3 * jnp.sqrt(1 + u**2) + 0.5 * v**2)


def long_tailed_problem():
    """exp(-0.3 sqrt(1 + u^2) - v^2 / 2) of two mixtures u and v of the parameters.

    Convex, with a mode whose curvature says little about the tails.
    """
    shards = [{"part": [part]} for part in (0.1, 0.6, 0.3)]
    return st.Problem(long_tailed, lambda p: 0.0, {"x": (2,)}, shards)


def long_tailed_covariance():
    """The covariance of the parameters, with the variance of u by quadrature."""
    u = np.linspace(-200, 200, 400_001)
    density = np.exp(-0.3 * np.sqrt(1 + u**2))
    variance = (u**2 * density).sum() / density.sum()
    unmix = np.linalg.inv(MIXTURE)
    return unmix @ np.diag([variance, 1.0]) @ unmix.T


def gaussian_problem():
    """`unequal_linear_problem`, whose potentials nobody says are quadratic."""
    known = unequal_linear_problem()
    parts = (known.log_likelihoods, known.log_prior, known.parameters, known.shards)
    return st.Problem.from_flat(*parts)


def worst_stretch(tuning, covariance):
    """The largest |log| of an eigenvalue of the posterior's covariance in tuned coordinates."""
    inverse = np.linalg.inv(tuning.scale)
    return np.abs(np.log(np.linalg.eigvalsh(inverse @ covariance @ inverse.T))).max()


@pytest.mark.slow
def test_a_pilot_finds_better_coordinates_for_long_tails():
    problem, network = long_tailed_problem(), st.Network.path(3)
    tuning, covariance = tune(problem, network), long_tailed_covariance()
    sent = copy.deepcopy(tuning.sent)
    better = pilots_of.refine(problem, tuning, network, seed=0)
    assert worst_stretch(tuning, covariance) > np.log(6)
    assert worst_stretch(better, covariance) < np.log(TOLERATED_STRETCH)
    assert better.pilots >= 1
    length = st.DADMMS.pilot
    each = length.chains * length.cycles * 2 * network.num_edges
    assert better.sent.messages - sent.messages >= (better.pilots + 1) * each


def test_pilots_of_one_seed_are_alike():
    problem = unequal_linear_problem()
    tuning = tune(problem, IRREGULAR)
    with jax.enable_x64(True):
        pilots = [pilots_of.pilot(problem, tuning, Gossip(IRREGULAR), seed) for seed in (0, 0, 1)]
    for one, same, other in zip(*(jax.tree.leaves(pilot[:-1]) for pilot in pilots), strict=True):
        np.testing.assert_array_equal(one, same)
        assert np.all(np.not_equal(one, other))
    assert pilots[0].disagreement == 0.0


@pytest.mark.slow
def test_candidates_and_a_short_pilot_leave_gaussian_coordinates_and_are_counted():
    """One sum over candidates, the pilot's rounds and floods, and the agents' disagreement."""
    problem = gaussian_problem()
    tuning = tune(problem, IRREGULAR)
    before = copy.deepcopy(tuning.sent)
    after = pilots_of.refine(problem, tuning, IRREGULAR, seed=0)
    assert after.pilots == 0
    np.testing.assert_array_equal(after.scale, tuning.scale)
    links, upwards, depth, dim = 14, 5, 2, 3
    chains, rounds, _ = pilots_of.SHORT_PILOT
    sums, floods, largest = 2, 1, 1
    sent = after.sent
    assert sent.rounds - before.rounds == rounds + depth * (2 * sums + floods + 2 * largest)
    run, per_sum, per_max = rounds * chains * links, upwards + links, 2 * depth * links
    assert sent.messages - before.messages == run + sums * per_sum + links + per_max
    summed = (NUM_CANDIDATES + 2) + CURVATURE_POINTS * dim
    flooded = 1 + dim + dim**2 + CURVATURE_POINTS * dim
    floats = run * dim + per_sum * summed + links * flooded + per_max
    assert sent.floats - before.floats == floats


@pytest.mark.parametrize("exactness", ["half-noise", "midpoint", "metropolis"])
def test_nothing_is_tried_out_where_the_law_of_all_draws_is_known(exactness, monkeypatch):
    """On quadratic potentials only Metropolis needs a pilot, for its rounds per draw."""
    problem = unequal_linear_problem()
    tuning = tune(problem, IRREGULAR, exactness=exactness)
    good = pilot_of(np.zeros(3), np.eye(3), rounds_per_draw=123.0)
    runs = scripted_pilots(monkeypatch, good)
    found = pilots_of.refine(problem, tuning, IRREGULAR, seed=0)
    if exactness == "metropolis":
        assert runs == [(0, Metropolis.pilot)]
        assert found.predicted_rounds_per_draw == 123.0
    else:
        assert runs == []
        assert found is tuning


@pytest.mark.slow
def test_auto_stays_auto_whatever_it_takes():
    """Potentials too far from convex for proximal steps: Metropolis, also after a move."""
    problem, network = skewed_problem(), st.Network.ring(5)
    tuning = tune(problem, network)
    with jax.enable_x64(True):
        gossip = Gossip(network)
        points = shared_points(problem.dim)
        where = (tuning.centre, tuning.scale)
        diverged = pilots_of.retuned(problem, tuning, gossip, Coordinates(*where))
        again = pilots_of.retuned(problem, diverged, gossip, Coordinates(*where, points))
        same = pilots_of.retuned(problem, tuning, gossip, Coordinates(*where, points))
    assert isinstance(tuning.sampler, st.DADMMS)
    assert isinstance(same.sampler, st.DADMMS)
    assert isinstance(diverged.sampler, Metropolis)
    assert isinstance(again.sampler, Metropolis)
    assert {found.exactness for found in (diverged, again, same)} == {"auto"}


@pytest.mark.slow
def test_agents_are_matched_by_name_and_the_given_tuning_is_left_alone():
    problem = gaussian_problem()
    named = nx.relabel_nodes(irregular_graph(), dict(enumerate(problem.sites)))
    other = nx.Graph()
    other.add_nodes_from(reversed(list(named)))
    other.add_edges_from(named.edges)
    tuning = tune(problem, st.Network(named))
    sent = copy.deepcopy(tuning.sent)
    one, two = (pilots_of.refine(problem, tuning, st.Network(g), 0) for g in (named, other))
    assert tuning.sent == sent
    assert one.sent == two.sent != sent
    np.testing.assert_array_equal(one.centre, two.centre)


@pytest.mark.slow
def test_ctrl_c_ends_a_pilot(monkeypatch):
    """Half of the draws come back from an interrupted run; a pilot takes that for an interrupt."""
    problem = gaussian_problem()
    tuning, whole = tune(problem, IRREGULAR), loop.run

    def half(*arguments):
        recording = whole(*arguments)
        recording.parts = recording.parts[:-1]
        return recording

    monkeypatch.setattr(pilots_of.loop, "run", half)
    with pytest.raises(KeyboardInterrupt):
        pilots_of.refine(problem, tuning, IRREGULAR, seed=0)


@pytest.mark.slow
def test_a_pilot_keeps_the_step_that_was_asked_for():
    problem, network = long_tailed_problem(), st.Network.path(3)
    better = pilots_of.refine(problem, tune(problem, network, step=0.11), network, seed=0)
    assert better.pilots >= 1
    assert better.wanted_step == 0.11
    assert better.step <= 0.11 * (1 + 1e-12)


def waiting_problem(events, others=0):
    """Site 0 has all the waiting time and no event, the others all the events: exp(log_rate) has a
    Gamma posterior, and all its skewness comes from site 0. Other parameters are Gaussian."""

    def log_likelihood(p, row):
        return row["events"] * p["log_rate"] - row["time"] * jnp.exp(p["log_rate"])

    def log_prior(p):
        return -0.5 * jnp.sum(p.get("other", jnp.zeros(1)) ** 2)

    waits = {"events": [0.0], "time": [5.0]}
    sites = [waits] + 3 * [{"events": [events / 3], "time": [0.0]}]
    parameters = {"log_rate": ()} | ({"other": (others,)} if others else {})
    return st.Problem(log_likelihood, log_prior, parameters, sites)


@pytest.mark.slow
@pytest.mark.parametrize(("events", "others", "halvings"), [(1.0, 0, 1), (1.0, 9, 1), (30.0, 0, 0)])
def test_agents_that_are_far_apart_take_half_the_step(events, others, halvings):
    problem, network = waiting_problem(events, others), st.Network.ring(4)
    first = tune(problem, network)
    tuning = pilots_of.refine(problem, first, network, seed=0)
    assert tuning.step == pytest.approx(first.step / 2**halvings)
    assert isinstance(tuning.sampler, st.DADMMS)
    with jax.enable_x64(True):
        apart = [
            pilots_of.pilot(problem, one, Gossip(network), seed=0).disagreement
            for one in (first, tuning)
        ]
    assert (apart[0] > pilots_of.LARGEST_DISAGREEMENT) == (halvings > 0)
    assert apart[1] <= pilots_of.LARGEST_DISAGREEMENT
    if halvings:
        assert apart[1] < apart[0] / 2, "faster than the step"


def test_the_distance_of_agents_is_that_of_the_worst_and_counted():
    network = st.Network.path(3)
    draws = np.random.default_rng(0).normal(size=(2 * CURVATURE_POINTS, 1, 4)).repeat(3, axis=1)
    draws[:, 2, 1] += np.tile([0.3, -0.3], CURVATURE_POINTS)
    with jax.enable_x64(True):
        gossip = Gossip(network)
        sent = gossip.ledger.floats
        apart = pilots_of.worst_disagreement(gossip, draws)
    assert apart == pytest.approx(0.2)
    parents, links, rounds = 2, 4, 2
    summed = (parents + links) * CURVATURE_POINTS * 4
    assert gossip.ledger.floats - sent == summed + rounds * links


@pytest.mark.slow
def test_half_the_step_is_what_a_skewed_posterior_needs():
    """log Gamma(1): a bias of 5 to 7 % of the sd at the usual step, and 1 % at its half."""
    problem, network = waiting_problem(1.0), st.Network.ring(4)
    how = {"chains": 64, "draws": 1000, "seed": 1, "check": False, "progress": False}
    tuning = tune(problem, network)
    usual = st.sample(tuning.problem(problem), network, tuning.sampler, thin=8, **how)
    chosen = st.sample(problem, network, method="dadmms", **how)
    sd = np.sqrt(polygamma(1, 1.0))
    ratios = [one.posterior.log_rate.std(("chain", "draw")).values / sd for one in (usual, chosen)]
    assert ratios[0].max() > 1.04
    assert np.abs(ratios[1] - 1).max() < 0.025
    mean = chosen.posterior.log_rate.mean(("chain", "draw")).values
    np.testing.assert_allclose(mean, digamma(1.0) - np.log(5.0), atol=0.03 * sd)


@pytest.mark.slow
def test_a_diagonal_metric_needs_variances_alone(monkeypatch):
    """Each coordinate has the tails of u; nothing of size dim^2 is sent."""
    monkeypatch.setattr(potential, "LARGEST_DENSE_HESSIAN", 1)

    def log_likelihood(p, row):
        return -row["part"] * (0.3 * jnp.sqrt(1 + p["x"] ** 2)).sum()

    shards = [{"part": [part]} for part in (0.1, 0.6, 0.3)]
    problem = st.Problem(log_likelihood, lambda p: 0.0, {"x": (2,)}, shards)
    network = st.Network.path(3)
    better = pilots_of.refine(problem, tune(problem, network), network, seed=0)
    assert better.pilots >= 1
    variance = (MIXTURE @ long_tailed_covariance() @ MIXTURE.T)[0, 0]
    ratio = better.scale**2 / variance
    assert ratio.shape == (2,)
    assert np.all((ratio > 1 / TOLERATED_STRETCH) & (ratio < TOLERATED_STRETCH))


def pilot_of(mean, covariance, effective=500.0, points=None, rounds_per_draw=10.0):
    """A pilot with these moments, of agents that do not disagree."""
    points = np.zeros((2, len(mean))) if points is None else points
    moments = Moments(np.asarray(mean), np.asarray(covariance), effective)
    return pilots_of.Pilot(moments, points, rounds_per_draw, 0.0)


@pytest.mark.parametrize("covariance", [np.ones(2), np.eye(2)], ids=["diagonal", "matrix"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_mean_far_from_the_centre_does_not_fit(covariance, sign):
    """Farther than 0.4 sd, beyond three standard errors of 1/sqrt(n) each."""
    limit = 0.4 + 3 / np.sqrt(500)
    assert pilot_of([0.0, sign * 0.99 * limit], covariance).fits
    assert not pilot_of([0.0, sign * 1.01 * limit], covariance).fits
    assert not pilot_of([sign * 1.01 * limit, 0.0], covariance).fits


@pytest.mark.parametrize(
    ("count", "dim", "enough"), [(99, 60, False), (100, 60, True), (3, 2, False)]
)
def test_so_many_effective_draws_are_needed(count, dim, enough):
    """2 d of them or 100; their eigenvalues may then spread as far as chance spreads them."""
    assert fit(Moments(np.zeros(dim), np.eye(dim), float(count))) is enough


def test_one_eigenvalue_beyond_chance_and_tolerance_does_not_fit():
    """Eq. (1) of `moments`, with d = 2 and n = 500."""
    turn, edge = np.array([[0.6, -0.8], [0.8, 0.6]]), np.sqrt(2 / 500)
    low, high = (1 - edge) ** 2 / 1.5, (1 + edge) ** 2 * 1.5

    def fits(variance):
        return fit(Moments(np.zeros(2), turn @ np.diag([1.0, variance]) @ turn.T, 500.0))

    within, beyond = (1.01 * low, 0.99 * high), (0.99 * low, 1.01 * high)
    assert all(fits(variance) for variance in within)
    assert not any(fits(variance) for variance in beyond)


@pytest.mark.parametrize(("variances", "fits"), [((1.0, 1.2), True), ((1.0, 2.5), False)])
def test_variances_are_judged_one_by_one(variances, fits):
    assert fit(Moments(np.zeros(2), np.array(variances), 500.0)) is fits


@pytest.mark.parametrize("kind", ["matrix", "diagonal"])
def test_new_coordinates_have_the_mean_and_the_spread_of_a_pilot(kind, monkeypatch):
    """Eq. (1), and the pilot's points are the same points in the new coordinates."""
    if kind == "diagonal":
        monkeypatch.setattr(potential, "LARGEST_DENSE_HESSIAN", 1)
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    tuning, random, n = tune(problem, network), np.random.default_rng(0), 40.0
    mean, points = np.array([1.0, -2.0, 0.5]), random.normal(size=(7, 3))
    root = random.normal(size=(3, 3))
    covariance = root @ root.T if kind == "matrix" else np.array([0.5, 2.0, 3.0])
    used, retuned = [], pilots_of.retuned

    def seen(*arguments):
        used.append(arguments[-1])
        return retuned(*arguments)

    monkeypatch.setattr(pilots_of, "retuned", seen)
    with jax.enable_x64(True):
        found = pilot_of(mean, covariance, n, points)
        new = pilots_of.moved(problem, tuning, Gossip(network), found)
    as_matrix = np.diag if kind == "diagonal" else np.asarray
    before, after = as_matrix(tuning.scale), as_matrix(new.scale)
    np.testing.assert_allclose(new.centre, tuning.centre + before @ mean, rtol=1e-12)
    shrunk = (n * as_matrix(covariance) + 10 * np.eye(3)) / (n + 10)
    np.testing.assert_allclose(after @ after.T, before @ shrunk @ before.T, rtol=1e-10, atol=1e-14)
    same = tuning.centre + points @ before.T
    np.testing.assert_allclose(new.centre + used[0].points @ after.T, same, rtol=1e-9)
    assert new.pilots == tuning.pilots + 1


@pytest.mark.slow
def test_a_centre_that_is_off_is_moved_to_where_the_draws_are():
    """Two sd from the posterior's mean; a pilot brings it to where another would leave it."""
    problem, network = gaussian_problem(), IRREGULAR
    first, (mean, _) = tune(problem, network), unequal_linear_problem().exact_posterior()
    off = first.centre + first.scale @ np.array([2.0, 0.0, 0.0])
    with jax.enable_x64(True):
        gossip = Gossip(network)
        wrong = tuned_at(problem, gossip, Coordinates(off, first.scale), Goal(step=first.step))
    better = pilots_of.refine(problem, wrong, network, seed=0)
    assert better.pilots == 1
    errors = np.linalg.solve(better.scale, better.centre - mean)
    assert np.abs(errors).max() < 0.4


def scripted_pilots(monkeypatch, *found):
    """Pilots that find this, one after the other; their seeds and lengths are returned."""
    left, runs = iter(found), []

    def pilot(problem, tuning, gossip, seed, watch, length):
        runs.append((seed, length))
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(pilots_of, "pilot", pilot)
    return runs


@pytest.mark.slow
def test_half_of_the_step_that_was_made_and_another_seed_for_every_pilot(monkeypatch):
    """The step that was wanted may be far longer than what the floor of rho left of it."""
    problem, good = gaussian_problem(), pilot_of(np.zeros(3), np.eye(3))
    runs = scripted_pilots(
        monkeypatch, good._replace(disagreement=0.5), good._replace(disagreement=0.09), good
    )
    first = tune(problem, IRREGULAR)
    tuning = pilots_of.refine(
        problem, dataclasses.replace(first, wanted_step=8 * first.step), IRREGULAR, seed=7
    )
    assert tuning.step == pytest.approx(first.step / 4)
    assert runs == [(seed, pilots_of.SHORT_PILOT) for seed in (7, 8, 9)]
    assert tuning.pilots == 2


@pytest.mark.parametrize("exactness", ["auto", "half-noise"])
def test_a_pilot_that_diverges(exactness, monkeypatch):
    """Metropolis instead where that is left to us; else an error for whoever chose the rung."""
    problem, good = gaussian_problem(), pilot_of(np.zeros(3), np.eye(3), rounds_per_draw=123.0)
    runs = scripted_pilots(monkeypatch, st.DivergenceError("far off"), good)
    tuning = tune(problem, IRREGULAR, exactness=exactness)
    if exactness == "half-noise":
        with pytest.raises(st.DivergenceError, match="far off"):
            pilots_of.refine(problem, tuning, IRREGULAR, seed=0)
        return
    found = pilots_of.refine(problem, tuning, IRREGULAR, seed=0)
    assert isinstance(found.sampler, Metropolis)
    assert found.predicted_rounds_per_draw == 123.0
    assert runs == [(0, pilots_of.SHORT_PILOT), (1, Metropolis.pilot)]


def test_a_pilot_after_a_change_of_sampler_has_the_length_of_the_new_one(monkeypatch):
    """A step so short that "auto" turns to Metropolis, whose pace only a long pilot can tell."""
    problem, good = gaussian_problem(), pilot_of(np.zeros(3), np.eye(3), rounds_per_draw=123.0)
    runs = scripted_pilots(monkeypatch, good._replace(disagreement=0.5), good)
    monkeypatch.setattr(ladder, "SMALLEST_SHARE", 1.5)
    monkeypatch.setattr(ladder, "SMALLEST_STEP", 0.9 * STEP)
    found = pilots_of.refine(problem, tune(problem, IRREGULAR), IRREGULAR, seed=0)
    assert isinstance(found.sampler, Metropolis)
    assert [length for _, length in runs] == [pilots_of.SHORT_PILOT, Metropolis.pilot]
    assert found.predicted_rounds_per_draw == 123.0


def test_a_pilot_counts_rounds_per_draw_not_draws_per_draw():
    """Its 16 chains have 375 rounds each after the half that is dropped, whatever it keeps."""
    problem = unequal_linear_problem()
    with jax.enable_x64(True):
        found = pilots_of.pilot(problem, tune(problem, IRREGULAR), Gossip(IRREGULAR), seed=0)
    effective = found.moments.effective_draws
    assert effective * found.rounds_per_draw == pytest.approx(16 * 375)
    assert 1 < effective < 16 * 125
