"""Tuning without a coordinator: the mode, the metric, the penalty, the draws."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.errors import TuningError
from starlings.solvers.pooled.mode import local_mode
from starlings.theory import law
from starlings.tuning import tune
from starlings.tuning.tuner import STEP
from tests.problems import irregular_graph, logistic_rows, paper_problem, unequal_linear_problem
from tests.quick import quick_cases


@pytest.mark.slow
@pytest.mark.parametrize("step", [0.055, 0.1, 0.02])
def test_a_step_that_is_wanted_is_long_enough(step, logistic_problem):
    """1 / (4 E (1 / (4 E step))) may be a little less than the step, and is not the potentials'."""
    network = st.Network.ring(logistic_problem.num_agents)
    tuning = tune(logistic_problem, network, step=step)
    assert isinstance(tuning.sampler, st.DADMMS)
    assert tuning.step == pytest.approx(step)


def test_quadratic_problems_are_solved_in_one_newton_step():
    problem, network = unequal_linear_problem(), st.Network(irregular_graph())
    tuning = tune(problem, network)
    mean, covariance = problem.exact_posterior()
    np.testing.assert_allclose(tuning.centre, mean, rtol=1e-9)
    np.testing.assert_allclose(tuning.scale @ tuning.scale.T, covariance, rtol=1e-9)
    assert tuning.newton_iterations == 1


def test_the_prediction_is_the_exact_law_on_quadratic_problems():
    problem, network = paper_problem(5), st.Network.ring(5)
    tuning = tune(problem, network)
    exact = law(tuning.problem(problem), network, tuning.sampler)
    limit = exact.stationary()
    found = limit.worst_agent_w2(np.zeros(2), np.eye(2)) / np.sqrt(2)
    assert tuning.predicted_w2 == pytest.approx(found, rel=1e-6)
    slowest = max(exact.autocorrelation_rounds(i).max() for i in range(5))
    assert tuning.predicted_rounds_per_draw == pytest.approx(slowest, rel=1e-6)
    assert 4 * tuning.sampler.rho * network.num_edges * tuning.step == pytest.approx(1.0)


def test_affine_coordinates_keep_the_posterior():
    X, y, sites = logistic_rows(60)
    problem = st.models.linear_regression(X, y, sites, intercept=False)
    random = np.random.default_rng(0)
    centre, scale = random.normal(size=4), random.normal(size=(4, 4))
    moved = problem.affine(centre, scale)
    for _ in range(3):
        z = random.normal(size=4)
        assert moved.potential(z) == pytest.approx(problem.potential(centre + scale @ z), rel=1e-12)
        values = moved.constrain(z)
        np.testing.assert_allclose(values["sigma"], problem.constrain(centre + scale @ z)["sigma"])
        with jax.enable_x64(True):
            np.testing.assert_allclose(moved.unconstrain(values), z, rtol=1e-8)


def uncentred_problem():
    """A regression on the calendar year: intercept and slope are correlated by -0.99999."""
    random = np.random.default_rng(0)
    year = np.arange(1952.0, 2014.0)
    temperature = 9.3 + 0.018 * (year - 1980) + random.normal(size=len(year))
    design = np.column_stack([np.ones_like(year), year])
    sites = random.permutation(np.arange(len(year)) % 8)
    return st.models.linear_regression(design, temperature, sites, prior_std=100.0, intercept=False)


@pytest.mark.slow
def test_uncentred_regressors_need_nothing_from_the_user():
    """Against a pooled Laplace approximation, whose t-like tails the limits leave room for."""
    problem, network = uncentred_problem(), st.Network.ring(8)
    tuning = tune(problem, network)
    pooled = problem.hessians(tuning.centre).sum(axis=0)
    np.testing.assert_allclose(tuning.scale.T @ pooled @ tuning.scale, np.eye(3), atol=1e-5)
    result = st.sample(problem, network, draws=2000, chains=4, thin=5)
    sd = np.sqrt(np.diag(np.linalg.inv(pooled)))[:2]
    draws = result.posterior["beta"].values.reshape(-1, 8, 2)
    covariance = np.linalg.inv(pooled)
    correlation = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    assert correlation < -0.9999
    assert np.corrcoef(draws[:, 0].T)[0, 1] == pytest.approx(correlation, abs=1e-5)
    assert (np.abs(draws.mean(axis=0) - tuning.centre[:2]) < 0.15 * sd).all()
    assert (np.abs(draws.std(axis=0) / sd - 1) < 0.12).all()
    recorded = json.loads(result.attrs["tuning"])
    assert recorded["step"] == pytest.approx(tuning.step)
    assert recorded["messages"] > tuning.sent.messages, "a pilot's are counted too"


def test_agents_without_a_posterior_of_their_own_get_their_share():
    """Two agents' potentials are saddles; only the sum is a proper posterior."""
    hessians = np.array([[[6.0, 0.0], [0.0, -2.0]], [[-1.0, 0.0], [0.0, 8.0]], np.eye(2)])
    network = st.Network.path(3)
    problem = st.models.gaussian(hessians)
    tuning = tune(problem, network)
    shares = network.degrees / network.degrees.sum()
    expected = shares[:, None, None] * np.eye(2)
    np.testing.assert_allclose(tuning.problem(problem).quadratic.hessian, expected, atol=1e-12)
    assert tuning.step == pytest.approx(STEP)
    assert tuning.sampler.rho == pytest.approx(1 / (4 * network.num_edges * STEP))


def balanced_problem(sites, quadratic=False):
    """The same rows at every site: all tilts are zero but for rounding."""
    rows = {str(k): {"y": [1.0, 2.0]} for k in range(sites)}
    return st.Problem(
        lambda p, row: -0.5 * (row["y"] - p["m"]) ** 2,
        lambda p: -0.5 * p["m"] ** 2,
        {"m": ()},
        rows,
        quadratic,
    )


@pytest.mark.parametrize("quadratic", [False, True])
@pytest.mark.parametrize("make", [st.Network.ring, st.Network.complete])
@pytest.mark.parametrize("sites", quick_cases([3, 6, 7, 10, 12], [7]))
def test_balanced_sites_are_tuned(sites, make, quadratic):
    tuning = tune(balanced_problem(sites, quadratic), make(sites))
    assert tuning.step == pytest.approx(STEP)
    assert tuning.centre == pytest.approx(3 * sites / (2 * sites + 1), abs=1e-7)
    assert abs(tuning.scale) == pytest.approx((2 * sites + 1) ** -0.5)


def test_parameters_that_rows_cannot_tell_apart_are_tuned():
    """Collinear columns of very unlike size, one constant beside another, one for the prior."""
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 2))
    X = np.column_stack([x, 3 * x[:, 0], np.ones(60), 5 * np.ones(60), np.zeros(60)])
    for units, prior_var in ((1.0, 10.0), (1e3, 1e3), ([1e3, 1, 1e3, 1, 1e4, 1], 10.0)):
        columns, sites = X * units, np.arange(60) % 6
        shards = [{"x": columns[sites == k], "y": x[sites == k, 0]} for k in range(6)]
        problem = st.Problem(
            lambda p, row: -0.5 * (row["y"] - row["x"] @ p["b"]) ** 2,
            lambda p, v=prior_var: -0.5 * p["b"] @ p["b"] / v,
            {"b": (6,)},
            shards,
            quadratic=True,
        )
        tuning = tune(problem, st.Network.ring(6))
        hessian = columns.T @ columns + np.eye(6) / prior_var
        unit = tuning.scale.T @ hessian @ tuning.scale
        np.testing.assert_allclose(unit, np.eye(6), atol=1e-2)


def test_parameters_that_nothing_tells_apart_are_refused_by_name():
    x = np.random.default_rng(0).normal(size=(30, 2))
    columns = np.column_stack([x, 3 * x[:, 0]]) * 1e5
    problem = st.Problem(
        lambda p, row: -0.5 * (row["y"] - row["x"] @ p["b"]) ** 2,
        lambda p: -0.5 * p["b"] @ p["b"] / 1e6,
        {"b": st.Parameter((3,), labels=("income", "age", "income in cents"))},
        [{"x": columns[k::3], "y": x[k::3, 0]} for k in range(3)],
        quadratic=True,
    )
    with pytest.raises(TuningError, match=r"of b\[income\], b\[income in cents\]: rows and prior"):
        tune(problem, st.Network.ring(3))


@pytest.mark.parametrize("field", ["linear_tilt", "quadratic_tilt"])
@pytest.mark.parametrize("size", [1e-12, 1.0, 1e6])
def test_tilts_that_do_not_sum_to_zero_are_refused(field, size):
    tilts = {"linear_tilt": np.zeros((3, 2)), "quadratic_tilt": np.zeros((3, 2, 2))}
    tilts[field][0] = size
    problem = st.models.gaussian(np.ones((3, 1, 1)) * np.eye(2))
    with pytest.raises(ValueError, match=f"`{field}` must sum to zero"):
        problem.affine(np.zeros(2), np.eye(2), **tilts)


def kinked_logistic(logit, y):
    """log p of a Bernoulli outcome, right everywhere, with derivatives that are wrong at 0."""
    return y * logit - jnp.clip(logit, 0.0) - jnp.log1p(jnp.exp(-jnp.abs(logit)))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(200, 100, 50), (40, 40, 40)])
def test_a_kink_at_the_start_of_the_search_does_not_stop_it(sizes):
    random = np.random.default_rng(1)
    shards = []
    for rows in sizes:
        x = np.column_stack([np.ones(rows), random.normal(size=(rows, 2))])
        y = (random.logistic(size=rows) < x @ [-1.0, 1.0, -1.0]).astype(float)
        shards.append({"x": x, "y": y})
    tuned = [
        tune(
            st.Problem(
                lambda p, row, density=density: density(row["x"] @ p["b"], row["y"]),
                lambda p: -0.5 * p["b"] @ p["b"] / 9,
                {"b": (3,)},
                shards,
            ),
            st.Network.ring(3),
        )
        for density in (kinked_logistic, lambda e, y: y * e - jnp.logaddexp(0.0, e))
    ]
    kinked, smooth = ((t.centre, t.scale @ t.scale.T) for t in tuned)
    np.testing.assert_allclose(kinked[0], smooth[0], atol=1e-6)
    np.testing.assert_allclose(kinked[1], smooth[1], rtol=1e-6)


def test_a_mode_at_a_kink_has_the_right_curvature():
    """As many successes as failures everywhere: the mode is exactly 0, where the kink is."""
    shards = [{"y": [0.0, 1.0] * n} for n in (5, 3, 2)]
    problem = st.Problem(
        lambda p, row: kinked_logistic(p["b"], row["y"]),
        lambda p: -0.5 * p["b"] ** 2,
        {"b": ()},
        shards,
    )
    tuning = tune(problem, st.Network.path(3))
    assert tuning.centre == pytest.approx(0.0, abs=1e-6)
    assert abs(tuning.scale) == pytest.approx((20 / 4 + 1) ** -0.5, rel=1e-6)


def test_wrong_derivatives_are_called_wrong():
    problem = st.Problem(
        lambda p, row: -0.5 * (row["y"] - 2 * jax.lax.stop_gradient(p["m"]) + p["m"]) ** 2,
        lambda p: -0.5 * p["m"] ** 2 / 100,
        {"m": ()},
        [{"y": [1.0, 2.0]}, {"y": [3.0]}],
    )
    with pytest.raises(TuningError, match=r"wrong derivatives at m = .* by automatic"):
        tune(problem, st.Network.path(2))


def test_a_start_where_the_density_is_not_finite_is_left():
    def log_likelihood(p, row):
        return jnp.where(p["m"] > 0.05, -0.5 * (row["y"] - p["m"]) ** 2, -jnp.inf)

    shards = [{"y": [2.0, 1.0]}, {"y": [3.0]}]
    problem = st.Problem(log_likelihood, lambda p: 0.0, {"m": ()}, shards)
    assert tune(problem, st.Network.path(2)).centre == pytest.approx(2.0, abs=1e-6)
    with pytest.raises(TuningError, match=r"not finite .* at m = -1; say with `initial`"):
        tune(problem, st.Network.path(2), start=[-1.0])


def centred_problem():
    """Four means with an unknown spread: the density rises without bound as that goes to zero."""

    def log_likelihood(p, row):
        theta, tau = p["theta"], p["tau"]
        here = jnp.sum(row["is_here"] * theta)
        spread = -0.5 * jnp.sum((theta - p["mu"]) ** 2) / tau**2 - 4 * jnp.log(tau)
        return -0.5 * (row["y"] - here) ** 2 / 100 + spread / 4

    parameters = {"mu": (), "tau": st.Parameter(constraint="positive"), "theta": (4,)}
    shards = [{"y": [y], "is_here": np.eye(4)[[k]]} for k, y in enumerate([28.0, 8.0, -3.0, 7.0])]
    return st.Problem(
        log_likelihood, lambda p: -p["tau"] / 5 - (p["mu"] / 5) ** 2 / 2, parameters, shards
    )


def test_a_centred_hierarchical_model_is_told_what_to_do():
    with pytest.raises(TuningError, match=r"still rises at mu = .*, tau = .*write it non-centred"):
        tune(centred_problem(), st.Network.ring(4))


def test_an_improper_posterior_is_refused():
    problem = st.Problem(
        lambda p, row: p["x"] * row["s"], lambda p: 0.0, {"x": ()}, [{"s": [1.0]}, {"s": [2.0]}]
    )
    with pytest.raises(TuningError, match="no mode was found"):
        tune(problem, st.Network.path(2))


@pytest.mark.slow
def test_a_study_without_a_sampler_is_tuned(tmp_path):
    from pathlib import Path

    from typer.testing import CliRunner

    from starlings.cli import app

    text = (Path(__file__).parents[2] / "examples" / "meters.toml").read_text()
    before, _, rest = text.partition("[sampler]")
    data = Path(__file__).parents[2] / "examples" / "meters.csv"
    (tmp_path / "meters.csv").write_text(data.read_text())
    (tmp_path / "meters.toml").write_text(before + rest[rest.index("[run]") :])
    output = tmp_path / "out.nc"
    options = ["--draws", "400", "--output", str(output)]
    run = CliRunner().invoke(app, ["sample", str(tmp_path / "meters.toml"), *options])
    assert run.exit_code == 0, run.output
    result = st.load(output)
    tuning = json.loads(result.attrs["tuning"])
    found = result.posterior["beta"].mean(("chain", "draw")).values
    sd = np.sqrt(np.diag(np.array(tuning["scale"]) @ np.array(tuning["scale"]).T))
    # 4 x 400 draws, 5 rounds apart
    errors = sd * np.sqrt(tuning["predicted_rounds_per_draw"] / (1600 * 5))
    assert (np.abs(found - tuning["centre"]) < 5 * errors + 0.05 * sd).all()


@pytest.mark.slow
def test_named_sites_and_given_starts_are_tuned_too():
    X, _, sites = logistic_rows(90)
    y = X @ [1.0, 2.0, -1.0] + np.random.default_rng(3).normal(size=90)
    problem = st.models.linear_regression(X, y, sites, noise_std=1.0, intercept=False)
    start = problem.exact_posterior()[0] + 5.0
    run = {"draws": 1, "chains": 1, "burn_in": 0, "initial": start}
    tuned = st.sample(problem, st.Network.ring(5), **run)
    assert json.loads(tuned.attrs["tuning"])["step"] == pytest.approx(STEP)
    moved = np.abs(tuned.posterior["beta"].values - start).max()
    assert moved < 5.0, "one round goes part of the way from the start to the posterior"
    with pytest.raises(ValueError, match="needs a network with edges"):
        tune(problem.pooled(), st.Network.path(1))


@pytest.mark.slow
def test_the_search_for_the_mode_begins_in_the_middle_of_what_is_given():
    """There are modes at -10 and 10; the one on whose side most chains begin is found."""

    def log_likelihood(p, row):
        x = p["x"]
        return row["share"] * jnp.logaddexp(-0.5 * (x - 10) ** 2, -0.5 * (x + 10) ** 2)

    problem = st.Problem(log_likelihood, lambda p: 0.0, {"x": ()}, 3 * [{"share": [1 / 3]}])
    initial = np.array([-1.0, 7.0, 8.0, 9.0])[:, None, None]  # by chain
    run = {"draws": 1, "chains": 4, "burn_in": 0, "check": False}
    result = st.sample(problem, st.Network.path(3), initial=initial, **run)
    assert json.loads(result.attrs["tuning"])["centre"] == pytest.approx([10.0])


@pytest.mark.parametrize("first", [[[-50.0]], [[60.0, 0.0], [0.0, -50.0]]], ids=["down", "saddle"])
def test_a_quadratic_step_without_a_minimum_stops_the_run(first):
    dim = len(first)
    problem = st.models.gaussian(np.array([first, np.eye(dim), np.eye(dim)]))
    with pytest.raises(st.DivergenceError, match="agent '0' diverged in round 1"):
        st.sample(problem, st.Network.ring(3), st.DADMMS(rho=1.0), draws=5, chains=1)


@pytest.mark.slow
def test_the_mode_is_the_same_over_a_network_and_in_one_process():
    problem, network = uncentred_problem(), st.Network.ring(8)
    tuning, mode = tune(problem, network), local_mode(problem)
    sd = np.sqrt(np.diag(tuning.scale @ tuning.scale.T))
    np.testing.assert_allclose(mode.point, tuning.centre, atol=1e-6 * sd.min())
    assert mode.iterations == tuning.newton_iterations
