"""The proximal step: its optimum, its residual, and what it does on hard potentials."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.solvers.newton import DENSE_HESSIAN_DIMENSION, eliminate, minimise
from starlings.solvers.objective import Objective
from starlings.solvers.proximal import proximal_point
from starlings.tuning import tune
from tests.problems import unequal_linear_problem

ACCEPTED = {dtype: float(np.finfo(dtype).eps) ** (1 / 3) for dtype in (np.float64, np.float32)}
"""The largest residual of a step that converged: 6e-6 in double precision, 5e-3 in single."""


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def agent_of(problem, index=0):
    return jax.tree.map(lambda a: a[index], problem.agents())


def solve(problem, curvature, linear, start, index=0, dense=True):
    agent = agent_of(problem, index)
    solver = partial(proximal_point, dense_dimension=DENSE_HESSIAN_DIMENSION if dense else 0)
    found = jax.jit(solver)(agent, curvature, jnp.asarray(linear), jnp.asarray(start))
    slope = agent.gradient(found.point) + curvature * found.point - jnp.asarray(linear)
    return found, np.asarray(slope)


@pytest.mark.slow
@pytest.mark.parametrize("curvature", [0.01, 3.0, 1e4])
def test_closed_form_and_newton_agree_on_quadratics(curvature):
    closed = unequal_linear_problem()
    rows = st.Problem.from_flat(
        closed.log_likelihoods, closed.log_prior, closed.parameters, closed.shards
    )
    for index in range(closed.num_agents):
        arguments = (curvature, np.array([1.0, -5.0, 2.0]), np.zeros(3), index)
        exact, slope = solve(closed, *arguments)
        newton, _ = solve(rows, *arguments)
        np.testing.assert_allclose(slope, 0.0, atol=1e-8 * max(1, curvature))
        np.testing.assert_allclose(newton.point, exact.point, rtol=1e-9, atol=1e-11)
        assert newton.iterations <= 2
        assert newton.residual <= ACCEPTED[np.float64]


@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("start", [0.0, 3.0, -20.0])
def test_newton_reaches_the_optimum_from_far(logistic_problem, dense, start):
    for index in range(logistic_problem.num_agents):
        found, slope = solve(logistic_problem, 0.5, np.ones(3), np.full(3, start), index, dense)
        assert found.residual <= ACCEPTED[np.float64]
        assert np.abs(slope).max() < 1e-6


@pytest.mark.slow
def test_zero_curvature_finds_the_local_mode(logistic_problem):
    """No neighbours: the argmin of f_i itself, even from one row and a share of the prior."""
    for index in range(logistic_problem.num_agents):
        found, slope = solve(logistic_problem, 0.0, np.zeros(3), np.zeros(3), index)
        assert found.residual <= ACCEPTED[np.float64]
        assert np.abs(slope).max() < 1e-6


def double_well():
    return st.Problem(
        lambda p, row: -row["w"] * jnp.sum((p["x"] ** 2 - 1.0) ** 2),
        lambda p: 0.0,
        {"x": (3,)},
        [{"w": [5.0]}],
    )


@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False])
def test_a_saddle_does_not_stop_it(dense):
    """At the start the Hessian of the double well is negative definite."""
    linear, start = np.array([0.1, -0.2, 0.3]), np.full(3, 0.01)
    found, slope = solve(double_well(), 0.1, linear, start, dense=dense)
    assert found.residual <= ACCEPTED[np.float64]
    assert np.abs(slope).max() < 1e-6
    np.testing.assert_allclose(np.abs(found.point), 1.0, atol=0.05)


def robust_problem():
    """Student-t rows: potentials that automatic differentiation knows, and that are not convex."""
    rng = np.random.default_rng(3)
    X, site = rng.normal(size=(60, 4)) * [1, 10, 0.1, 1], np.arange(60) % 5
    y = X @ [1.0, -0.2, 5.0, 0.0] + rng.standard_t(2, size=60)

    def log_likelihood(p, row):
        scaled = (row["y"] - row["x"] @ p["beta"]) * jnp.exp(-p["log_scale"])
        return -2.5 * jnp.log1p(scaled**2 / 4) - p["log_scale"]

    def log_prior(p):
        return -0.005 * jnp.sum(p["beta"] ** 2) - 0.5 * p["log_scale"] ** 2

    shards = [{"x": X[site == i], "y": y[site == i]} for i in range(5)]
    return st.Problem(log_likelihood, log_prior, {"beta": (4,), "log_scale": ()}, shards)


@pytest.mark.slow
def test_secants_in_tuned_coordinates_find_what_newton_finds():
    """The same minimum to 1e-10, by gradients alone, from nowhere and from far away."""
    problem, network = robust_problem(), st.Network.ring(5)
    tuning = tune(problem, network)
    agents = tuning.problem(problem).agents(network)
    curvature, rng = 2 * tuning.sampler.rho * agents.degree, np.random.default_rng(0)
    distance = np.array([0.0, 1.0, 6.0])[:, None, None]
    starts = distance * rng.normal(size=(3, 5, problem.dim))
    linear = curvature[:, None] * (starts + 0.3 * rng.normal(size=starts.shape))

    @jax.jit
    @partial(jax.vmap, in_axes=(None, None, 0, 0))
    @jax.vmap
    def both(agent, curvature, linear, start):
        def phi(z):
            return agent.potential(z) + 0.5 * curvature * (z @ z) - linear @ z

        found = proximal_point(agent, curvature, linear, start)
        bend = jnp.linalg.eigvalsh(jax.hessian(phi)(found.point))[0]
        by_newton = minimise(Objective.of(phi), start)
        return found, by_newton.point, jax.grad(phi)(found.point), bend

    found, by_newton, slope, bend = both(agents, curvature, linear, starts)
    np.testing.assert_allclose(slope, 0.0, atol=1e-10)
    np.testing.assert_allclose(found.point, by_newton, atol=1e-10)
    assert found.residual.max() <= ACCEPTED[np.float64]
    assert bend.min() > 0


@pytest.mark.slow
def test_tuned_steps_compute_no_hessian():
    problem, network = robust_problem(), st.Network.ring(5)
    tuned = tune(problem, network).problem(problem)
    agent = jax.tree.map(lambda a: a[0], tuned.agents(network))
    arguments = (1.0, jnp.zeros(tuned.dim), jnp.zeros(tuned.dim))
    count_of = {}
    for name, one in {"tuned": agent, "raw": replace(agent, frame=None)}.items():
        count_of[name] = str(jax.make_jaxpr(proximal_point)(one, *arguments)).count("log1p")
    assert 0 < count_of["tuned"] < count_of["raw"]


@pytest.mark.slow
def test_secants_in_single_precision():
    """To some ten roundings of the gradient, from wherever a chain may be."""
    problem, network = robust_problem(), st.Network.ring(5)
    tuned = tune(problem, network).problem(problem)
    exact = jax.tree.map(lambda a: a[2], tuned.agents(network))
    rng = np.random.default_rng(1)
    starts = rng.normal(size=(200, tuned.dim))
    linear = starts + 0.3 * rng.normal(size=starts.shape)
    solve_all = jax.jit(jax.vmap(proximal_point, in_axes=(None, None, 0, 0)))
    right = solve_all(exact, 1.0, linear, starts)
    with jax.enable_x64(False):
        single = jax.tree.map(lambda a: a[2], tuned.agents(network, np.dtype("float32")))
        found = solve_all(single, jnp.float32(1.0), *map(jnp.float32, (linear, starts)))
    assert found.point.dtype == np.float32
    assert found.residual.max() <= ACCEPTED[np.float32]
    np.testing.assert_allclose(found.point, right.point, atol=2e-5)


@pytest.mark.slow
def test_agents_in_a_frame_without_edges():
    """There are no shares then, but still something to begin with."""
    problem = robust_problem()
    framed = problem.affine(np.zeros(problem.dim), np.eye(problem.dim))
    arguments = (0.5, np.ones(problem.dim), np.zeros(problem.dim))
    plain, _ = solve(problem, *arguments)
    found, slope = solve(framed, *arguments)
    np.testing.assert_allclose(slope, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.point, plain.point, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("curvature", [0.02, 1.0, 50.0])
def test_secants_from_a_wrong_curvature_and_a_saddle(curvature):
    """What is said of the curvature is where the search begins, not what it relies on."""

    def wells(z):
        return 5 * jnp.sum((z**2 - 1.0) ** 2) - jnp.array([0.1, -0.2, 0.3]) @ z

    found = minimise(Objective.of(wells), jnp.full(3, 0.01), curvature=jnp.asarray(curvature))
    assert found.residual <= ACCEPTED[np.float64]
    np.testing.assert_allclose(jax.grad(wells)(found.point), 0.0, atol=1e-9)
    assert np.linalg.eigvalsh(jax.hessian(wells)(found.point))[0] > 0


@pytest.mark.slow
@pytest.mark.parametrize("curvature", [None, 1.0])
def test_unbounded_objectives_leave_their_residual(curvature):
    """A potential without a minimum: the residual says so instead of a silent point."""
    objective = Objective.of(lambda z: -jnp.sum(jnp.exp(z)))
    found = minimise(objective, jnp.zeros(2), curvature=curvature)
    bad = ~(found.residual <= ACCEPTED[np.float64])
    assert bad


@pytest.mark.quick(1)
@pytest.mark.parametrize("curvature", [None, 1.0])
def test_not_finite_objectives_leave_their_residual(curvature):
    objective = Objective.of(lambda z: jnp.sum(jnp.log(z)))
    found = minimise(objective, -jnp.ones(2), curvature=curvature)
    assert found.iterations <= 2, "nobody waits for what is not a number"
    assert not found.residual <= ACCEPTED[np.float64]


def kinked_problem():
    """|x| at "south", and x^2 / 2 at the others: a proximal step across the kink never ends.

    Everything stays finite and small, so that nothing but the residual tells.
    """

    def log_likelihood(p, row):
        return -row["kink"] * jnp.abs(p["x"]) - (1 - row["kink"]) * p["x"] ** 2 / 2

    kinks = {"north": 0.0, "south": 1.0, "west": 0.0}
    shards = {site: {"kink": [kink]} for site, kink in kinks.items()}
    return st.Problem(log_likelihood, lambda p: 0.0, {"x": ()}, shards)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "burn_in", "thin"),
    [
        (st.DADMMS, 0, 1),
        (st.DADMMS, 30, 1),
        (st.DADMMS, 0, 7),
        (st.MidpointADMMS, 0, 1),
        (st.CADMM, 0, 1),
    ],
)
def test_the_runtime_stops_on_an_unconverged_step(make, burn_in, thin):
    text = (
        r"agent 'south' diverged in round \d+ of chain 0: its proximal step did not converge. "
        "The likely cause is a potential that is not smooth"
    )
    how = {"draws": 30, "chains": 1, "burn_in": burn_in, "thin": thin, "initial": 1.0}
    with pytest.raises(st.DivergenceError, match=text):
        st.sample(kinked_problem(), st.Network.path(3), make(0.5), **how)


def test_a_potential_without_a_lower_bound_stops_the_run():
    problem = st.Problem(
        lambda p, row: jnp.exp(p["x"] * row["s"]),
        lambda p: 0.0,
        {"x": ()},
        {"north": {"s": [1.0]}, "south": {"s": [1.0]}},
    )
    with pytest.raises(st.DivergenceError, match=r"agent '(north|south)' diverged in round \d+"):
        st.sample(problem, st.Network.path(2), st.DADMMS(rho=0.01), draws=50, chains=1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_newton_leaves_no_more_than_the_square_of_what_it_stops_at(dtype):
    """phi(z) = exp(z) + z^2 / 2 - 4 z, from a thousand starts.

    It stops where the decrement is at most eps^(1/3), and makes one step more. With phi2 and phi3
    the derivatives at the optimum, a step from a small decrement e leaves phi3 / (2 phi2^(3/2)) e^2
    (to the first order, hence the 1.1), beside some roundings.
    """
    eps, starts = float(np.finfo(dtype).eps), np.linspace(-1.0, 4.0, 1000)

    def phi(z):
        return jnp.sum(jnp.exp(z) + z**2 / 2 - 4.0 * z)

    with jax.enable_x64(dtype == np.float64):
        solve_all = jax.jit(jax.vmap(lambda start: minimise(Objective.of(phi), start[None])))
        found = solve_all(jnp.asarray(starts, dtype))
        points, residuals = (np.asarray(a, float).ravel() for a in (found.point, found.residual))
    optimum = 1.0
    for _ in range(50):
        optimum -= (np.exp(optimum) + optimum - 4.0) / (np.exp(optimum) + 1)
    bend = np.exp(optimum) + 1
    left = np.abs(points - optimum) * np.sqrt(bend)
    of_square = 1.1 * np.exp(optimum) / (2 * bend**1.5)
    assert residuals.max() <= ACCEPTED[dtype]
    assert np.all(left <= of_square * residuals**2 + 10 * eps)
    assert left.max() <= of_square * ACCEPTED[dtype] ** 2 + 10 * eps
    assert residuals.max() > 0.1 * ACCEPTED[dtype], "some stopped just there"


@pytest.mark.quick(1)
@pytest.mark.parametrize("dense", [True, False])
def test_products_with_the_hessian_are_as_accurate_as_the_hessian(dense):
    """phi(z) = sum_k exp(s_k z_k) + |z|^2 / 2 - l'z, with curvatures from 1 to 600.

    Conjugate gradients solve a step to the root of what is left, not to rounding, and so go on
    to a finer residual: what is left is no more than the square of eps^(1/3) all the same.
    """
    random, slopes = np.random.default_rng(0), np.geomspace(0.1, 20.0, 8)
    linear = slopes * np.exp(random.normal(size=8) / 3)

    def phi(z):
        return jnp.sum(jnp.exp(slopes * z) + z**2 / 2 - linear * z)

    largest = DENSE_HESSIAN_DIMENSION if dense else 0
    solve_all = jax.jit(jax.vmap(partial(minimise, Objective.of(phi), dense_dimension=largest)))
    found = np.asarray(solve_all(jnp.asarray(random.normal(size=(200, 8)) / slopes)).point)
    grown = np.exp(slopes * found)
    gradient, curvature = slopes * grown + found - linear, slopes**2 * grown + 1
    left = np.sqrt(np.sum(gradient**2 / curvature, axis=1))
    assert left.max() <= ACCEPTED[np.float64] ** 2


@pytest.mark.slow
def test_large_dimension_takes_the_matrix_free_path():
    """d = 150 logistic regression: no Hessian is formed, and the optimum is the dense one."""
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 150))
    y = (random.random(80) < 0.5).astype(float)
    problem = st.models.logistic_regression(X, y, np.zeros(80, int), intercept=False)
    found, slope = solve(problem, 1.0, random.normal(size=150), np.zeros(150))
    assert found.residual <= ACCEPTED[np.float64]
    assert np.abs(slope).max() < 1e-6
    traced = jax.make_jaxpr(proximal_point)(agent_of(problem), 1.0, jnp.zeros(150), jnp.zeros(150))
    assert "150,150" not in str(traced)


@pytest.mark.parametrize("dim", [1, 2, 6])
def test_elimination_solves_and_knows_what_is_not_definite(dim):
    rng = np.random.default_rng(dim)
    root, gradient = rng.normal(size=(dim, dim)), rng.normal(size=dim)
    matrix = root @ root.T + 0.1 * np.eye(dim)
    direction, decrement = eliminate(jnp.asarray(matrix), jnp.asarray(gradient))
    expected = np.linalg.solve(matrix, gradient)
    np.testing.assert_allclose(direction, -expected, rtol=1e-9)
    np.testing.assert_allclose(decrement, np.sqrt(gradient @ expected), rtol=1e-9)
    bad = matrix - 1.1 * np.linalg.eigvalsh(matrix)[-1] * np.eye(dim)
    assert np.isnan(eliminate(jnp.asarray(bad), jnp.asarray(gradient))[1])
    assert np.isnan(eliminate(jnp.zeros((dim, dim)), jnp.asarray(gradient))[1])
    saddle = matrix - (np.linalg.eigvalsh(matrix)[0] + 1e-3) * np.eye(dim)
    assert np.isnan(eliminate(jnp.asarray(saddle), jnp.asarray(gradient))[1])
