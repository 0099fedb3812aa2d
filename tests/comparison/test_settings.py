"""The settings that classes say of themselves: published ones, and candidates on a common grid."""

from __future__ import annotations

import numpy as np
import pytest

import starlings as st
from starlings.comparison.samplers.places import Places
from starlings.comparison.samplers.settings import units_of
from starlings.samplers.names import BUILT_IN
from tests.comparison.samplers import Demanding, Slow
from tests.problems import paper_problem, skewed_problem

GRID = np.array([2.0, 0.5, 0.01])


def units(problem=None, network=None):
    problem = paper_problem(5) if problem is None else problem
    network = st.Network.ring(5) if network is None else network
    return units_of(problem, network.matched_to(problem.sites), GRID)


def test_units_are_curvatures():
    found = units(st.models.gaussian([[[1.0]], [[3.0]]]), st.Network.path(2))
    assert (found.curvature, found.pooled) == (3.0, 4.0)
    np.testing.assert_allclose(found.steps, GRID / 3)
    np.testing.assert_allclose(found.penalties, 4 / (4 * GRID))


def test_units_of_other_posteriors_are_those_at_the_mode():
    problem = skewed_problem()
    found = units(problem)
    mode = st.theory.posterior_mode(problem)
    hessians = problem.hessians(mode)
    assert found.curvature == pytest.approx(np.linalg.eigvalsh(hessians).max())
    assert found.pooled == pytest.approx(hessians.sum())


@pytest.mark.parametrize("name", BUILT_IN)
def test_candidates_and_published_settings_can_run(name):
    kind, problem = BUILT_IN[name], paper_problem(5)
    place = Places(problem, st.Network.ring(5)).of(kind)
    published = kind.published(place.problem, place.network)
    if published is not None:
        assert type(published) is kind
        published.check(place.problem, place.network)
    candidates = kind.candidates(units_of(place.problem, place.network, GRID))
    assert {type(each) for each in candidates} == {kind}
    assert len({str(each) for each in candidates}) == len(candidates)
    for each in candidates:
        each.check(place.problem, place.network)


def test_the_default_is_the_step_size_or_the_penalty():
    found = units()
    np.testing.assert_allclose([s.step_size for s in Slow.candidates(found)], found.steps)
    np.testing.assert_allclose([s.rho for s in st.DADMMS.candidates(found)], found.penalties)
    fixed = st.DSGLD.candidates(found, noise="coherent")
    assert {each.noise for each in fixed} == {"coherent"}
    assert [each.taste for each in Demanding.candidates(found, taste=2)] == [2, 2, 2]


def test_step_sizes_of_several_kinds_are_in_one_unit():
    """The Langevin step of the network's average is g in units of M or P."""
    found = units()
    momentum = st.MAHMC.candidates(found)
    np.testing.assert_allclose([s.drift for s in momentum], found.steps)
    gossip = [s for s in st.DULA.candidates(found) if s.consensus_step < 0.2]
    np.testing.assert_allclose([5 * s.step_size for s in gossip], found.steps)
    lengths = [s.step_length**2 * found.pooled for s in st.Metropolis.candidates(found)]
    np.testing.assert_allclose(lengths, GRID)
    velocities = st.DSGHMC.candidates(found)
    steps = {round(s.step_size**2 * found.curvature, 9) for s in velocities}
    assert steps <= {round(g, 9) for g in GRID}


def test_samplers_of_penalties_have_none_where_the_posterior_has_none():
    """Their laws are then those of Langevin steps without a penalty, whatever the smoothing."""
    found = units()
    pairs = zip(st.DEPSGLD.candidates(found), st.DSGLD.candidates(found), strict=True)
    network = st.Network.ring(5)
    for one, plain in pairs:
        laws = [st.theory.law(found.problem, network, each).recursion(1) for each in (one, plain)]
        np.testing.assert_allclose(*(each.transition for each in laws), rtol=1e-14)
    lasso = st.Lasso(1.0)
    assert {each.penalty for each in st.MYULA.candidates(found, penalty=lasso)} == {lasso}
    assert {each.smoothing for each in st.MYULA.candidates(found)} == {1 / found.curvature}


def test_private_candidates_clip_nothing_at_the_mode_and_pay_nothing_for_privacy():
    problem, sigma = paper_problem(5), 4.0
    found = st.DPSGLD.candidates(units(problem))
    mode = problem.exact_posterior()[0]
    X, y = (np.concatenate([s[k] for s in problem.shards.values()]) for k in ("x", "y"))
    pulls = np.abs(y - X @ mode) * np.linalg.norm(X, axis=1) / sigma**2
    assert [each.clip for each in found] == pytest.approx([pulls.max()] * len(GRID), rel=1e-6)
    assert [each.attributes(1, 1)["temperature"] for each in found] == [1.0] * len(GRID)
    np.testing.assert_allclose([each.kick**2 for each in found], 2 * units().steps, rtol=1e-6)
    assert st.DPSGLD.candidates(units(), clip=2.0)[0].clip == 2.0


def test_published_settings_of_the_paper():
    """Those of its experiments, see `research.paper`."""
    from starlings.research.paper.experiments.linear import paper_dadmms, paper_dula

    problem = paper_problem(5)
    for name in ("ring", "complete"):
        network = getattr(st.Network, name)(5)
        assert st.DADMMS.published(problem, network) == paper_dadmms()
        assert st.DULA.published(problem, network) == paper_dula(name, 5)
    assert st.DULA.published(problem, st.Network.complete(50)) == paper_dula("complete", 50)
    assert st.DSGHMC.published(problem, network) == st.DSGHMC(0.1, 7.0)
