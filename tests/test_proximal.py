"""The proximal step: its optimum, its residual, and what it does on hard potentials."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from conftest import unequal_linear_problem
from starlings import proximal
from starlings.proximal import Objective, eliminate, minimise, proximal_point, tolerance


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def agent_of(problem, index=0):
    return jax.tree.map(lambda a: a[index], problem.agents())


def solve(problem, curvature, linear, start, index=0):
    agent = agent_of(problem, index)
    found = jax.jit(proximal_point)(agent, curvature, jnp.asarray(linear), jnp.asarray(start))
    slope = agent.gradient(found.point) + curvature * found.point - jnp.asarray(linear)
    return found, np.asarray(slope)


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
        assert newton.residual <= tolerance(np.float64)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("start", [0.0, 3.0, -20.0])
def test_newton_reaches_the_optimum_from_far(logistic_problem, dense, start, monkeypatch):
    monkeypatch.setattr(proximal, "DENSE_DIMENSION", 100 if dense else 0)
    for index in range(logistic_problem.num_agents):
        found, slope = solve(logistic_problem, 0.5, np.ones(3), np.full(3, start), index)
        assert found.residual <= tolerance(np.float64)
        assert np.abs(slope).max() < 1e-6


def test_zero_curvature_finds_the_local_mode(logistic_problem):
    """No neighbours: the argmin of f_i itself, even from one row and a share of the prior."""
    for index in range(logistic_problem.num_agents):
        found, slope = solve(logistic_problem, 0.0, np.zeros(3), np.zeros(3), index)
        assert found.residual <= tolerance(np.float64)
        assert np.abs(slope).max() < 1e-6


def double_well():
    return st.Problem(
        lambda p, row: -row["w"] * jnp.sum((p["x"] ** 2 - 1.0) ** 2),
        lambda p: 0.0,
        {"x": (3,)},
        [{"w": [5.0]}],
    )


@pytest.mark.parametrize("dense", [True, False])
def test_a_saddle_does_not_stop_it(dense, monkeypatch):
    """At the start the Hessian of the double well is negative definite."""
    monkeypatch.setattr(proximal, "DENSE_DIMENSION", 100 if dense else 0)
    found, slope = solve(double_well(), 0.1, np.array([0.1, -0.2, 0.3]), np.full(3, 0.01))
    assert found.residual <= tolerance(np.float64)
    assert np.abs(slope).max() < 1e-6
    np.testing.assert_allclose(np.abs(found.point), 1.0, atol=0.05)


def test_unbounded_objectives_leave_their_residual():
    """A potential without a minimum: the residual says so instead of a silent point."""
    found = minimise(Objective.of(lambda z: -jnp.sum(jnp.exp(z))), jnp.zeros(2))
    bad = ~(found.residual <= tolerance(np.float64))
    assert bad


def test_not_finite_objectives_leave_their_residual():
    found = minimise(Objective.of(lambda z: jnp.sum(jnp.log(z))), -jnp.ones(2))
    assert not found.residual <= tolerance(np.float64)


def test_the_runtime_stops_on_an_unconverged_step():
    problem = st.Problem(
        lambda p, row: jnp.exp(p["x"] * row["s"]),
        lambda p: 0.0,
        {"x": ()},
        {"north": {"s": [1.0]}, "south": {"s": [1.0]}},
    )
    with pytest.raises(st.DivergenceError, match=r"agent '(north|south)' diverged in round \d+"):
        st.sample(problem, st.Network.path(2), st.DADMMS(rho=0.01), draws=50, chains=1)


def test_large_dimension_takes_the_matrix_free_path():
    """d = 150 logistic regression: no Hessian is formed, and the optimum is the dense one."""
    random = np.random.default_rng(0)
    X = random.normal(size=(80, 150))
    y = (random.random(80) < 0.5).astype(float)
    problem = st.models.logistic_regression(X, y, np.zeros(80, int))
    found, slope = solve(problem, 1.0, random.normal(size=150), np.zeros(150))
    assert found.residual <= tolerance(np.float64)
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
