"""The ladder of exactness: the laws of its rungs, shares, predictions, and the floor of rho."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.network.gossip import Gossip
from starlings.samplers import Metropolis, MidpointADMMS, UnitPosterior
from starlings.samplers.metropolis import CANDIDATE_POINTS
from starlings.solvers.pooled.directions import inverse_root
from starlings.solvers.pooled.mode import DECREASE_TOLERANCE
from starlings.solvers.pooled.potential import LARGEST_DENSE_HESSIAN
from starlings.theory import law, regular_variances
from starlings.tuning import ladder, tune
from starlings.tuning.ladder import RUNGS, prediction
from starlings.tuning.shares import even_shares, shared_points
from starlings.tuning.tuner import STEP
from starlings.tuning.tuning import NEGLIGIBLE_TILT
from tests.problems import (
    irregular_graph,
    paper_problem,
    unequal_linear_problem,
    unequal_poisson_problem,
    wavy_problem,
)

IRREGULAR = st.Network(irregular_graph())
GRAPHS = {
    "ring": st.Network.ring(5),
    "complete": st.Network.complete(6),
    "star": st.Network.star(6),
    "irregular": IRREGULAR,
}
REGULAR = {
    "ring": st.Network.ring(5),
    "complete": st.Network.complete(6),
    "cube": st.Network(nx.convert_node_labels_to_integers(nx.hypercube_graph(3))),
}
RHOS = (0.02, 0.3, 5.0, 50.0)
on_graphs = pytest.mark.parametrize("network", GRAPHS.values(), ids=GRAPHS)
on_regular_graphs = pytest.mark.parametrize("network", REGULAR.values(), ids=REGULAR)
at_rhos = pytest.mark.parametrize("rho", RHOS)


def coherent(rho):
    return st.DADMMS(rho, output="iterate")


ADMM_SAMPLERS = {
    "coherent": coherent,
    "half-noise": st.DADMMS,
    "curvature": lambda rho: st.DADMMS(rho, noise="coherent-curvature", output="iterate"),
    "midpoint": MidpointADMMS,
}


def shares(network):
    return network.degrees / network.degrees.sum()


def shared_problem(network, curvature=1.0):
    """A Gaussian of one parameter of which every agent carries its share."""
    return st.models.gaussian(curvature * shares(network)[:, None, None])


def curvature_noise(rho, noise="curvature"):
    return st.DADMMS(rho, noise=noise, output="iterate")


# The rungs that are exact for Gaussians


def test_private_noise_with_the_curvature_has_the_right_average():
    """On the ring of five at rho = 5: 4 rho d alone gives 0.9756, 4 rho d + m gives 1."""
    without, exact = (regular_variances(GRAPHS["ring"], 1.0, 5.0, v)[0] for v in (40.0, 41.0))
    assert f"{without:.4f}" == "0.9756"
    assert exact == pytest.approx(1.0, rel=1e-14)


@on_regular_graphs
@at_rhos
def test_curvature_noise_has_the_right_average_and_scatters_the_agents(network, rho):
    """The average is exact; the modes of disagreement have the private part alone."""
    m, size = 1.3, network.size
    problem = st.models.gaussian(np.full((size, 1, 1), m))
    moments = law(problem, network, curvature_noise(rho)).stationary()
    assert moments.average()[1][0, 0] == pytest.approx(1 / (m * size), rel=1e-9)
    scatter = regular_variances(network, m, rho, m)[1:].sum() / size
    assert np.diag(moments.covariance) == pytest.approx(1 / (m * size) + scatter, rel=1e-8)


@on_graphs
@at_rhos
@pytest.mark.parametrize(
    "rung", [MidpointADMMS, lambda rho: curvature_noise(rho, "coherent-curvature")]
)
def test_agents_with_their_shares_have_exactly_the_posterior(network, rho, rung):
    moments = law(shared_problem(network), network, rung(rho)).stationary()
    np.testing.assert_allclose(moments.covariance, 1.0, rtol=1e-9)
    np.testing.assert_allclose(moments.mean, 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("rung", "order"),
    [(coherent, 1), (st.DADMMS, 2), (MidpointADMMS, 2)],
    ids=["coherent", "half-noise", "midpoint"],
)
@pytest.mark.parametrize("name", ["alike", "unequal"])
def test_orders_of_the_error_where_agents_differ(name, rung, order):
    """Without tilts; from the exact law, where a hundredfold rho has left the higher orders."""
    problem, network = paper_problem(5), GRAPHS["ring"]
    if name == "unequal":
        problem, network = unequal_linear_problem(), IRREGULAR
    target, rhos = problem.exact_posterior(), np.geomspace(100, 1000, 4)
    errors = [law(problem, network, rung(rho)).stationary().worst_agent_w2(*target) for rho in rhos]
    slope = np.polyfit(np.log(rhos), np.log(errors), 1)[0]
    assert slope == pytest.approx(-order, abs=0.15)


# Shares by tilting


@functools.cache
def tuned_poisson():
    problem = unequal_poisson_problem()
    return problem, tune(problem, IRREGULAR)


@pytest.mark.slow
def test_tilts_keep_the_pooled_potential():
    """But for what the search leaves of the gradient: a decrease of less than its tolerance."""
    problem, tuning = tuned_poisson()
    moved, pooled = tuning.problem(problem), problem.pooled()
    slope, curvature = tuning.tilt_slope.sum(axis=0), tuning.tilt_curvature.sum(axis=0)
    for z in np.random.default_rng(0).normal(size=(5, 3)):
        apart = tuning.centre + tuning.scale @ z
        left = slope @ z + z @ curvature @ z / 2
        assert moved.potential(z) + left == pytest.approx(pooled.potential(apart), rel=1e-12)
    assert slope @ slope / 2 < DECREASE_TOLERANCE
    assert np.abs(curvature).max() < NEGLIGIBLE_TILT
    assert np.abs(tuning.tilt_slope).max() > 0.5, "the agents were not alike before"
    assert np.abs(tuning.tilt_curvature).max() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, 0.5], ids=["mode", "elsewhere"])
def test_every_agent_has_its_share_of_gradient_and_curvature(offset):
    """At any centre; at the mode the gradients are nothing's shares."""
    problem, tuning = tuned_poisson()
    centre, scale = tuning.centre + tuning.scale @ np.full(3, offset), tuning.scale
    slopes = jax.jit(jax.vmap(lambda agent: agent.gradient(jnp.zeros(3))))
    with jax.enable_x64(True):
        untilted = problem.affine(centre, scale).agents(IRREGULAR)
        slope = np.asarray(slopes(untilted)).sum(axis=0)
        tilts = even_shares(Gossip(IRREGULAR), untilted)
        gradients = slopes(problem.affine(centre, scale, *tilts).agents(IRREGULAR))
    hessians = problem.affine(centre, scale, *tilts).hessians(np.zeros(3))
    whole = scale.T @ problem.hessians(centre).sum(axis=0) @ scale
    share = shares(IRREGULAR)
    np.testing.assert_allclose(gradients, np.multiply.outer(share, slope), atol=1e-10)
    np.testing.assert_allclose(hessians, np.multiply.outer(share, whole), atol=1e-10)
    assert (np.abs(slope).max() > 0.1) == (offset > 0)


def test_tilted_agents_have_one_law_on_an_irregular_graph():
    """Equation (3) of `tuner`, for shards of 1 to 40 rows and degrees from 1 to 4."""
    problem = unequal_linear_problem()
    tuning = tune(problem, IRREGULAR)
    exact = law(tuning.problem(problem), IRREGULAR, tuning.sampler)
    moments, eta = exact.stationary(), tuning.step
    assert eta == pytest.approx(STEP)
    variance = 1 + eta**2 / (4 * (1 + eta / 2))
    together = np.kron(np.ones((6, 6)), variance * np.eye(3))
    np.testing.assert_allclose(moments.covariance, together, atol=1e-9)
    np.testing.assert_allclose(moments.mean, 0.0, atol=1e-9)
    for agent in range(6):
        np.testing.assert_allclose(exact.autocorrelation_rounds(agent), 1 + 2 / eta, rtol=1e-9)


# What is promised before a run


def predicted(network, rung):
    """The prediction for a rung at the default step, on agents of one parameter."""
    problem = shared_problem(network)
    rho = 1 / (4 * network.num_edges * STEP)
    with jax.enable_x64(True):
        agents = problem.agents(network)
        unit = UnitPosterior(1, agents, Gossip(network), STEP, rho)
    return prediction(RUNGS[rung], unit, ADMM_SAMPLERS[rung](rho))


@pytest.mark.parametrize("rung", ADMM_SAMPLERS)
@pytest.mark.parametrize("name", ["paper's ring", "unequal, irregular"])
def test_the_prediction_is_the_law_of_the_tuned_problem(name, rung):
    problem, network = paper_problem(5), GRAPHS["ring"]
    if name == "unequal, irregular":
        problem, network = unequal_linear_problem(), IRREGULAR
    tuning = tune(problem, network, exactness=rung)
    exact, dim = law(tuning.problem(problem), network, tuning.sampler), problem.dim
    worst = exact.stationary().worst_agent_w2(np.zeros(dim), np.eye(dim)) / np.sqrt(dim)
    # the square root of what rounding leaves of a zero W2^2
    assert tuning.predicted_w2 == pytest.approx(worst, abs=1e-6)
    slowest = max(exact.autocorrelation_rounds(i).max() for i in range(network.size))
    assert tuning.predicted_rounds_per_draw == pytest.approx(slowest, rel=1e-6)


@on_graphs
@pytest.mark.parametrize("rung", ADMM_SAMPLERS)
def test_two_agents_stand_for_a_large_network(network, rung, monkeypatch):
    own = predicted(network, rung)
    monkeypatch.setattr(ladder, "LARGEST_PREDICTED", 2)
    assert predicted(network, rung) == pytest.approx(own, rel=1e-7, abs=1e-7)


@on_graphs
def test_rounding_errors_do_not_decide_on_numbers_of_rounds(network):
    """Half of 17 rounds is between two numbers of rounds, and five times 17 is one."""
    assert predicted(network, "half-noise").rounds_per_draw == 1 + 2 / STEP


def test_midpoint_needs_half_the_rounds():
    euler, midpoint = (
        predicted(IRREGULAR, rung).rounds_per_draw for rung in ("half-noise", "midpoint")
    )
    assert (euler, midpoint) == pytest.approx((1 + 2 / STEP, 1 / STEP))


# The floor of the penalty


def test_the_penalty_keeps_proximal_steps_convex():
    """Tilted, agent i has the curvature s_i + wave_i (1 - cos(1.5 z))."""
    waves = 2.0 * np.array([1, -1, 0, 1, -1, 0])
    problem = wavy_problem(waves)
    tuning = tune(problem, IRREGULAR, exactness="half-noise")
    points = shared_points(problem.dim)
    curvatures = shares(IRREGULAR) + waves * (1 - np.cos(1.5 * points))  # (point, agent)
    floor = np.max(-curvatures / IRREGULAR.degrees)
    assert tuning.sampler.rho == pytest.approx(floor, rel=1e-9)
    assert floor > 1 / (4 * 7 * STEP)
    assert tuning.step == pytest.approx(1 / (4 * 7 * floor))
    assert np.all(curvatures + 2 * tuning.sampler.rho * IRREGULAR.degrees > 0)


def test_auto_takes_metropolis_where_proximal_steps_would_be_short():
    problem, mild = wavy_problem([20, -10, -10]), wavy_problem([0.2, -0.1, -0.1])
    network = st.Network.path(3)
    assert isinstance(tune(problem, network).sampler, Metropolis)
    assert isinstance(tune(problem, network, exactness="half-noise").sampler, st.DADMMS)
    assert isinstance(tune(mild, network).sampler, st.DADMMS)
    assert isinstance(tune(mild, network, exactness="metropolis").sampler, Metropolis)


def waves_for(network, directions, step):
    """Amplitudes of `wavy_problem` for which the floor of rho leaves just this step.

    Tilted, agent i has the curvature s_i + a w_i (1 - cos(1.5 z)): the smallest a at which
    one of them at one of the points is -rho d_i, with rho = 1 / (4 |E| step).
    """
    points = shared_points(1)
    falls = -np.asarray(directions) * (1 - np.cos(1.5 * points))  # (point, agent)
    wanted = network.degrees / (4 * network.num_edges * step) + shares(network)
    return np.min((wanted / np.where(falls > 0, falls, np.nan))[falls > 0]) * np.array(directions)


@pytest.mark.parametrize(
    ("wanted", "left", "kind"),
    [
        (STEP, 0.102, st.DADMMS),
        (STEP, 0.098, Metropolis),
        (STEP, 0.05, Metropolis),
        (0.5, 0.102, st.DADMMS),
        (0.5, 0.098, Metropolis),
        (0.05, 0.041, st.DADMMS),
        (0.05, 0.039, Metropolis),
    ],
)
def test_auto_takes_metropolis_where_a_draw_would_take_more_than_twenty_rounds(wanted, left, kind):
    """An eta below 0.1, or where less than 0.125 is wanted below 0.8 of that."""
    network = st.Network.path(3)
    problem = wavy_problem(waves_for(network, [1, -2, 1], left))
    chosen = tune(problem, network, step=wanted)
    assert chosen.step == pytest.approx(left, rel=1e-6)
    assert isinstance(chosen.sampler, kind)


def test_curvature_noise_is_for_iterates():
    for noise in ("curvature", "coherent-curvature"):
        with pytest.raises(ValueError, match="take output='iterate' with it"):
            st.DADMMS(1.0, noise=noise)


# The step length of Metropolis


def transcribed_length(decision, waves):
    """b^2 times what a tenth of the candidates are taken with or less, at its largest.

    In NumPy on `wavy_problem`, tilted, in the coordinates that it has: all agents carry their
    share of N(0, 1), so that phi_i is a wave less its own curvature at 0.
    """
    points, noise = np.random.default_rng(0).standard_normal((2, CANDIDATE_POINTS))
    points, lengths = 1.25 * points, 2.0 ** -(np.arange(1, 13) / 2)

    def energies(z):
        shape = np.cos(1.5 * z) / 1.5**2 + z**2 / 2
        return np.multiply.outer(np.asarray(waves), shape)

    paces = []
    for b in lengths:
        changes = energies(np.sqrt(1 - b**2) * points + b * noise) - energies(points)
        if decision == "factorised":
            chance = np.exp(-np.maximum(changes, 0)).prod(axis=0)
        else:
            chance = np.exp(-np.maximum(changes.sum(axis=0), 0))
        paces.append(b**2 * np.quantile(chance, 0.1))
    return lengths[np.argmax(paces)]


def test_step_lengths_are_those_at_which_the_decision_itself_is_fastest():
    """The waves cancel in the sum, and every one of them may veto."""
    network, waves = st.Network.path(3), [3, -6, 3]
    problem = wavy_problem(waves)
    vote, total = (
        tune(problem, network, exactness=rung).sampler.step_length
        for rung in ("metropolis-vote", "metropolis")
    )
    assert vote == pytest.approx(transcribed_length("factorised", waves))
    assert total == pytest.approx(transcribed_length("sum", waves))
    assert vote < total


def test_a_cautious_step_length_where_none_leaves_the_sticky_points():
    """Waves so high that nine tenths of the candidates are as good as refused at any length."""
    problem, network = wavy_problem([1e6, -2e6, 1e6]), st.Network.path(3)
    with jax.enable_x64(True):
        agents = problem.affine(np.zeros(1), np.eye(1)).agents(network)
        found = Metropolis.tuned(UnitPosterior(1, agents, Gossip(network), step=0.1, rho=1.0))
    assert found.step_length == 0.1
    assert found.flood_rounds == 2


# Many parameters


@pytest.mark.slow
def test_many_parameters_are_tuned_by_limited_memory():
    """Past `LARGEST_DENSE_HESSIAN` the metric is diagonal; the mode is found from gradients."""
    random = np.random.default_rng(2)
    dim, rows = LARGEST_DENSE_HESSIAN + 20, 60
    X = random.normal(size=(rows, dim)) * np.geomspace(0.3, 3, dim)
    y = (random.logistic(size=rows) < X @ random.normal(size=dim) / 10).astype(float)
    problem = st.models.logistic_regression(
        X, y, np.arange(rows) % 3, prior_std=0.1**0.5, intercept=False
    )
    network = st.Network.path(3)
    tuning = tune(problem, network)
    means = 1 / (1 + np.exp(-X @ tuning.centre))
    gradient = X.T @ (means - y) + tuning.centre / 0.1
    hessian = (X.T * (means * (1 - means))) @ X + np.eye(dim) / 0.1
    assert gradient @ np.linalg.solve(hessian, gradient) / 2 < 1e-8
    assert tuning.newton_iterations > 3
    np.testing.assert_allclose(tuning.scale, inverse_root(np.diag(hessian)), rtol=1e-8)
    assert tuning.tilt_curvature.shape == (3, dim)
    moved = tuning.problem(problem)
    result = st.sample(moved, network, tuning.sampler, draws=10, chains=2, burn_in=20)
    assert np.all(np.isfinite(result.posterior["beta"].values))


# From end to end


@pytest.mark.slow
@pytest.mark.parametrize("rung", ["curvature", "midpoint", "metropolis"])
def test_a_rung_samples_a_regression(rung):
    """Against the exact posterior; errors from the effective draws that are promised."""
    problem = paper_problem(5)
    result = st.sample(problem, GRAPHS["ring"], exactness=rung, chains=8, draws=250)
    mean, covariance = problem.exact_posterior()
    draws = result.posterior["beta"].values.reshape(-1, 5, 2)
    effective = len(draws) / 3  # draws are half an autocorrelation time apart
    errors = np.abs(draws.mean(axis=0) - mean) / np.sqrt(np.diag(covariance))
    assert errors.max() < 4.5 / np.sqrt(effective)
    spreads = draws.std(axis=0) / np.sqrt(np.diag(covariance))
    assert np.abs(spreads - 1).max() < 4.5 / np.sqrt(2 * effective)
