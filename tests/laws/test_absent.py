"""Absent agents: the law of the others alone, and that with a Gaussian in place of what is missing.

Numbers with three or four digits were computed once by another program, from recursions for means
and covariances.
"""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

import starlings as st
from starlings.problem.coordinates import frame
from starlings.theory import gaussian_w2, law

STEP = 0.1
"""The Langevin step eps = 1 / (2 rho sum_i d_i) of the numbers."""


def gaussian_problem(agents: int) -> st.Problem:
    """Gaussian potentials from ten rows each, in coordinates where the posterior is N(mu, I)."""
    random, hessians, linear = np.random.default_rng(0), [], []
    for _ in range(agents):
        X = random.standard_normal((10, 2))
        hessians.append(X.T @ X / 10)
        linear.append(hessians[-1] @ random.standard_normal(2))
    L = np.linalg.cholesky(np.linalg.inv(np.sum(hessians, axis=0)))
    return st.models.gaussian(L.T @ hessians @ L, linear @ L)


def from_node(problem: st.Problem, network: st.Network, sampler: st.Sampler):
    """The stationary law, worst W2 over the root of the trace, and mean variance over the agents"""
    mean, covariance = problem.exact_posterior()
    found = law(problem, network, sampler).stationary()
    worst = found.worst_agent_w2(mean, covariance) / np.sqrt(np.trace(covariance))
    return worst, np.mean([np.trace(found.agent(i)[1]) / 2 for i in range(network.size)])


def test_the_law_after_one_of_twenty_has_left_is_that_of_the_others_started_afresh():
    problem = gaussian_problem(20)
    mean, covariance = problem.exact_posterior()
    np.testing.assert_allclose(mean, [-1.66909014, 2.00777773], atol=5e-9)
    np.testing.assert_allclose(covariance, np.eye(2), atol=1e-12)
    others, path = st.without(problem, st.Network.ring(20), ["0"])
    assert (path.size, path.num_edges, path.names) == (19, 18, others.sites)
    D, fewer = 40, 36  # sums of degrees
    afresh, _ = from_node(others, path, st.DADMMS(rho=1 / (2 * STEP * fewer)))
    kept, variance = from_node(others, path, st.DADMMS(rho=1 / (2 * STEP * D)))
    assert round(afresh, 4) == 0.1233  # rho' = rho D / D', which keeps the step
    assert round(kept, 4) == 0.1352
    assert round(variance, 3) == 1.075  # of the variance with all twenty
    alone = st.models.gaussian(*(part[1:] for part in matrices(problem)))
    np.testing.assert_allclose(others.exact_posterior()[0], alone.exact_posterior()[0], atol=1e-12)


def matrices(problem: st.Problem):
    assert problem.quadratic is not None
    return problem.quadratic.hessian, problem.quadratic.linear


@pytest.mark.parametrize("absent", [["0"], ["3", "4"]])
def test_a_stand_in_gives_the_posterior_of_all_where_potentials_are_quadratic(absent):
    problem, ring = gaussian_problem(20), st.Network.ring(20)
    mean, covariance = problem.exact_posterior()
    fewer, path = st.without(problem, ring, absent, "stand-in")
    found = fewer.exact_posterior()
    np.testing.assert_allclose(found[0], mean, atol=1e-12)
    np.testing.assert_allclose(found[1], covariance, atol=1e-12)
    tuned = st.tune(fewer, path)
    assert tuned.newton_iterations == 0
    exact = law(tuned.problem(fewer), path, tuned.sampler).stationary()
    assert exact.worst_agent_w2(np.zeros(2), np.eye(2)) < 0.01


def test_a_prior_counts_once_whoever_is_absent():
    """Of linear regression, where the answer is in closed form."""
    random = np.random.default_rng(1)
    X, sites = random.normal(size=(40, 2)), np.repeat(list("abcd"), 10)
    y = X @ [1.0, -1.0] + random.normal(size=40)
    how = {"noise_std": 1.0, "prior_std": 0.5, "intercept": False}
    every = st.models.linear_regression(X, y, sites, **how)
    here = sites != "c"
    wanted = {
        "leave": st.models.linear_regression(X[here], y[here], sites[here], **how),
        "stand-in": every,
    }
    for name, same in wanted.items():
        fewer, _ = st.without(every, st.Network.complete(4), ["c"], name)
        for found, exact in zip(fewer.exact_posterior(), same.exact_posterior(), strict=True):
            np.testing.assert_allclose(found, exact, atol=1e-10)


def logistic(rows: int, agents: str) -> st.Problem:
    random = np.random.default_rng(0)
    X, sites = random.normal(size=(len(agents) * rows, 2)), np.repeat(list(agents), rows)
    y = (random.logistic(size=len(X)) < X @ [1.0, -0.7]).astype(float)
    return st.models.logistic_regression(X, y, sites, intercept=False)


def moments(problem: st.Problem, centre, sd) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of a posterior of two parameters, by a sum over a grid."""
    axes = [c + s * np.linspace(-6, 6, 41) for c, s in zip(centre, sd, strict=True)]
    points = np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)
    with jax.enable_x64(True):
        each = jax.vmap(lambda agent: jax.lax.map(agent.potential, points))(problem.agents())
        potentials = np.asarray(each).sum(axis=0)
    weights = np.exp(potentials.min() - potentials)
    weights /= weights.sum()
    mean = weights @ points
    return mean, ((points - mean) * weights[:, None]).T @ (points - mean)


def test_a_stand_in_is_close_where_potentials_are_not_quadratic():
    """One of five sites of a logistic regression is gone."""
    problem, network = logistic(100, "abcde"), st.Network.complete(5)
    mean, covariance = moments(problem, [1.0, -0.7], [0.3, 0.3])
    sd = np.sqrt(np.diag(covariance))
    distances = {"leave": [], "stand-in": []}
    for how, found in distances.items():
        for site in "abc":
            fewer, _ = st.without(problem, network, [site], how)
            law_here = moments(fewer, mean, sd)
            found.append(gaussian_w2(*law_here, mean, covariance) / np.sqrt(np.trace(covariance)))
    assert max(distances["stand-in"]) < 0.025  # .011 to .025 elsewhere, with .33 to .57 for "leave"
    assert min(distances["leave"]) > 0.2


@pytest.mark.quick(1)
@pytest.mark.parametrize("method", ["weights", "hmc", "dadmms"])
def test_draws_with_a_stand_in_are_those_of_all_and_nothing_is_summed_at_the_mode(method):
    problem, network = gaussian_problem(5), st.Network.ring(5)
    mean, _ = problem.exact_posterior()
    fewer, path = st.without(problem, network, ["2"], "stand-in")
    result = st.sample(fewer, path, method=method, draws=500, seed=3, progress=False)
    draws = result.posterior.x.values.reshape(-1, 2)
    ess = result.summary()["ess_bulk"].min()
    assert ess > 1000
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=5 / np.sqrt(ess))
    np.testing.assert_allclose(draws.std(axis=0), 1, atol=5 / np.sqrt(ess))
    assert "derivatives" not in json.loads(result.attrs["disclosed"])
    assert result.attrs.get("newton_iterations", 0) == 0
    assert json.loads(result.attrs["data_of"]) == ["0", "1", "3", "4"]
    assert json.loads(result.attrs["absent"]) == {"sites": ["2"], "how": "stand-in"}
    words = "about the data of 0, 1, 3, 4; a Gaussian approximation stands in for the data of 2"
    assert words in repr(result)
    with pytest.raises(ValueError, match="no log-evidence: a Gaussian stands in for the rows"):
        _ = result.log_evidence


def test_the_search_for_the_mode_begins_elsewhere_where_a_site_has_left():
    """At the points where all sites have begun, a total without a site would tell its own part."""
    seen = []
    problem, network = gaussian_problem(5), st.Network.ring(5)
    fewer, path = st.without(problem, network, ["2"])
    for each, graph, seed in ((problem, network, 0), (fewer, path, 0), (fewer, path, 1)):
        found = record_points(each, graph, seed)
        seen.append(found)
    everybody, first, second = (set(map(tuple, points)) for points in seen)
    assert (0.0, 0.0) in everybody
    assert everybody.isdisjoint(first)
    assert first.isdisjoint(second)


def record_points(problem, network, seed) -> np.ndarray:
    """The points at which derivatives are summed in a run."""
    from starlings.solvers.pooled.potential import SummedPotential

    points, original = [], SummedPotential.derivatives

    def derivatives(self, at, may_be_far=False):
        points.append(np.array(at))
        return original(self, at, may_be_far)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SummedPotential, "derivatives", derivatives)
        st.sample(problem, network, method="weights", draws=100, seed=seed, progress=False)
    return np.concatenate(points)


def test_leave_one_out_needs_rows_and_not_a_gaussian():
    problem, network = logistic(20, "abc"), st.Network.complete(3)
    fewer, smaller = st.without(problem, network, ["c"], "stand-in")
    with pytest.raises(ValueError, match="single rows of a Gaussian"):
        st.loo(fewer, smaller, None)
    with pytest.raises(ValueError, match="a Gaussian stands in for the rows"):
        fewer.pooled()


@pytest.mark.parametrize("is_diagonal", [(True, True), (False, False), (True, False)])
def test_a_frame_in_another_one_is_one_frame(is_diagonal):
    """Eq. (4) of `problem.coordinates`, with as many agents as dimensions."""
    random = np.random.default_rng(2)

    def made(diagonal: bool):
        scale = random.uniform(1, 2, 3) if diagonal else random.normal(size=(3, 3))
        curvature = random.normal(size=(3, 3) if diagonal else (3, 3, 3))
        tilts = random.normal(size=(3, 3)), curvature
        return frame(random.normal(size=3), scale, 3, *tilts, has_all_agents=False)

    outer, inner = map(made, is_diagonal)
    both, points = outer.then(inner), random.normal(size=(2, 3))

    def tilts(each, z):
        whole = np.array([each.linear_tilt[i] @ z for i in range(3)])
        diagonal = each.quadratic_tilt.ndim == 2
        matrices = [np.diag(A) if diagonal else A for A in each.quadratic_tilt]
        return whole + [z @ A @ z / 2 for A in matrices]

    steps = []
    for z in points:
        between = inner.to_original(z)
        np.testing.assert_allclose(both.to_original(z), outer.to_original(between), atol=1e-12)
        steps.append(tilts(both, z) - tilts(outer, between) - tilts(inner, z))
    np.testing.assert_allclose(steps[0], steps[1], atol=1e-12)  # a constant is left out


def test_a_stand_in_works_where_hessians_are_diagonal():
    dim = 301  # above `LARGEST_DENSE_HESSIAN`
    random = np.random.default_rng(3)
    curvatures, linear = random.uniform(0.5, 2, size=(3, dim)), random.normal(size=(3, dim))
    problem = st.models.gaussian([np.diag(c) for c in curvatures], linear)
    fewer, _ = st.without(problem, st.Network.complete(3), ["0"], "stand-in")
    np.testing.assert_allclose(fewer.exact_posterior()[0], problem.exact_posterior()[0], atol=1e-9)


REFUSED = {
    "unknown": (["Ashbi"], "leave", "'Ashbi' is not one of the sites .* 'Ashby'"),
    "nobody": ([], "leave", "must name some of the sites .*, and not all, got \\[\\]"),
    "everybody": (["Ashby", "Brook", "Cliff", "Downs"], "leave", "and not all"),
    "cut": (["Brook"], "leave", "falls into 2 parts .*Wait for the absent agents, or give"),
    "how": (["Ashby"], "forget", "`how` must be one of"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_left_out_is_refused(name):
    absent, how, words = REFUSED[name]
    problem = gaussian_problem(4).renamed(["Ashby", "Brook", "Cliff", "Downs"])
    with pytest.raises(ValueError, match=words):
        st.without(problem, st.Network.path(4), absent, how)
    fewer, path = st.without(problem, st.Network.path(4), "Downs")
    with pytest.raises(ValueError, match="call `without` on the original one"):
        st.without(fewer, path, ["Cliff"])


def test_the_links_that_are_left_keep_their_faults():
    network = st.Network.path(4).lossy(loss=[[0.1, 0.2, 0.3, 0.4]], asleep=[0.0, 0.1, 0.2, 0.3])
    smaller = network.without(["0"])
    assert smaller.faults is not None
    np.testing.assert_array_equal(smaller.faults.loss, [[0.2, 0.3, 0.4]])
    np.testing.assert_array_equal(smaller.faults.asleep, [0.1, 0.2, 0.3])
    assert smaller.faults.size == smaller.size
    assert smaller.pace == smaller.faults.pace(smaller.adjacency) < 1
