"""Comparisons by exact laws: equal to the theory's own numbers, and to the golden table."""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from starlings.comparison.samplers.exact import ExactRun, rounds_of_curve
from starlings.comparison.samplers.measures import GaussianMeasure
from starlings.comparison.samplers.settings import units_of
from starlings.theory import gaussian_w2, law, moments_at
from starlings.theory.bound import Distances
from tests.problems import irregular_graph, paper_problem, unequal_linear_problem

SAMPLERS = {
    "one matrix": st.DADMMS(3.0),
    "velocities": st.DSGHMC(0.05, 7.0),
    "a cycle": st.MAHMC(0.05, tracking_rounds=2, consensus_rounds=3),
    "decaying steps": st.DULA(st.Decay(0.002, 10.0, 0.3), 0.1),
    "no matrix": st.PeerLearning(updates=3),
}


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_laws_at_far_rounds_are_those_of_one_round_after_the_other(sampler):
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    exact = law(problem, network.matched_to(problem.sites), sampler)
    start = {"initial_mean": 0.5, "initial_covariance": 2.0}
    one_by_one = list(exact.moments(97, **start))
    rounds = [0, 1, 4, 5, 6, 31, 32, 97]
    for k, found in zip(rounds, moments_at(exact, rounds, **start), strict=True):
        np.testing.assert_allclose(found.mean, one_by_one[k].mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            found.covariance, one_by_one[k].covariance, rtol=1e-9, atol=1e-12
        )


def test_a_law_that_no_longer_varies_is_not_followed_for_ever():
    problem = paper_problem(5)
    exact = law(problem, st.Network.ring(5).matched_to(problem.sites), st.PeerLearning())
    far, farther = moments_at(exact, [1_000, 10**12])
    np.testing.assert_array_equal(far.covariance, farther.covariance)


def test_distances_are_those_of_the_theory():
    problem = unequal_linear_problem()
    network = st.Network(irregular_graph()).matched_to(problem.sites)
    measure, sampler = GaussianMeasure.of(problem), st.DSGLD(0.004)
    exact = law(problem, network, sampler)
    run = ExactRun(exact, measure, np.arange(6))
    for found, moments in zip(run.curve(np.arange(4)), exact.moments(3), strict=True):
        theirs = Distances.of(moments, problem)
        apart = [gaussian_w2(*moments.agent(i), *problem.exact_posterior()) for i in range(6)]
        expected = np.array([np.mean(apart), theirs.worst_agent, theirs.average])
        np.testing.assert_allclose(found[:3], expected / measure.radius, rtol=1e-9)
        mean, covariance = problem.exact_posterior()
        sds = np.sqrt(np.diag(covariance))
        own = np.sqrt(np.diag(moments.covariance)).reshape(6, -1)
        by_parameter = np.hypot(moments.mean - mean, own - sds) / sds
        assert found[3] == pytest.approx(by_parameter.max(), rel=1e-9)
    limit = Distances.of(exact.stationary(), problem)
    assert run.limit(10)[1] == pytest.approx(limit.worst_agent / measure.radius, rel=1e-9)
    assert run.relaxation() == pytest.approx(exact.relaxation_rounds(), rel=1e-12)


def test_the_rounds_to_a_target_are_the_first_from_which_on_it_is_kept():
    problem = paper_problem(5)
    network = st.Network.ring(5).matched_to(problem.sites)
    measure = GaussianMeasure.of(problem)
    run = ExactRun(law(problem, network, st.DADMMS(3.0)), measure, np.arange(5))
    worst = run.curve(np.arange(200))[:, 1]
    for goal in (1.0, 0.2, 0.08):
        outside = np.flatnonzero(worst > goal)
        assert run.reached(goal, 200) == outside[-1] + 1
    assert np.isnan(run.reached(worst[150:].min() / 2, 200))
    assert run.reached(1e6, 200) == 0


@pytest.mark.parametrize(("most", "cycle"), [(1, 1), (1000, 1), (1000, 7), (3, 10)])
def test_curves_have_whole_cycles(most, cycle):
    rounds = rounds_of_curve(most, cycle)
    assert rounds[0] == 0
    assert np.all(np.diff(rounds) > 0)
    assert np.all(rounds % cycle == 0)
    assert rounds[-1] == cycle * max(1, most // cycle)


def _dadmms(rho, noise, output="iterate"):
    return [st.DADMMS(float(r), noise, output) for r in rho]


GOLDEN = {
    "D-SGLD, complete 20": (20, "complete", 450, lambda u: st.DSGLD.candidates(u)),
    "GEXTRA, complete 20": (20, "complete", 615, lambda u: st.GEXTRA.candidates(u)),
    "DIGing, complete 5": (5, "complete", 87, lambda u: st.DIGing.candidates(u)),
    "D-SGLD, ring 5": (5, "ring", 120, lambda u: st.DSGLD.candidates(u)),
    "D-SGLD shared, ring 5": (5, "ring", 40, lambda u: st.DSGLD.candidates(u, noise="coherent")),
    "GEXTRA shared, ring 5": (5, "ring", 5.6, lambda u: st.GEXTRA.candidates(u, noise="coherent")),
    "D-ADMMS paper, complete 5": (5, "complete", 11.3, lambda u: _dadmms(u.penalties, "paper")),
    "D-ADMMS private, ring 5": (5, "ring", 152, lambda u: _dadmms(u.penalties, "private")),
    "D-ADMMS shared, ring 5": (5, "ring", 5.9, lambda u: _dadmms(u.penalties, "coherent")),
    "D-ADMMS, ring 5": (5, "ring", 2.7, lambda u: _dadmms(u.penalties, "coherent", "half-noise")),
    "D-ADMMS, complete 20": (
        20,
        "complete",
        2.4,
        lambda u: _dadmms(u.penalties, "coherent", "half-noise"),
    ),
}
"""Rounds in which the slowest mode shrinks by a factor e, at the best setting at which the agents'
mean distance is at most 0.05 posterior radii in the end."""
GRID_STEP = (1000 / 0.03) ** (1 / 59)
"""The golden numbers are those of a grid of 60 penalties between 0.03 and 1000, so that the best
setting on a finer grid is better, and by at most one step."""
ROUNDING = 0.01
"""The golden numbers have two or three digits, and the grid here has steps of 2 %, half of which
may be missing."""


@pytest.mark.slow
@pytest.mark.parametrize("case", GOLDEN)
def test_golden_rounds_per_e_fold(case):
    size, graph, golden, candidates = GOLDEN[case]
    problem = paper_problem(size)
    network = getattr(st.Network, graph)(size).matched_to(problem.sites)
    units = units_of(problem, network, np.geomspace(8, 5e-4, 400))
    found = st.compare(
        problem, network, {"it": candidates(units)}, chains=0, rounds=10, progress=False
    )
    close = found.candidates[found.candidates["mean_agent"] <= 0.05]
    best = close["relaxation"].min()
    assert best * (1 - ROUNDING) <= golden <= best * GRID_STEP * (1 + ROUNDING)
