"""The real posteriors of the benchmark: the problems say what the reference draws say."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("STARLINGS_POSTERIORDB", ROOT.parent / "shared" / "posteriordb"))

if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))
cases = importlib.import_module("benchmarks.posteriors.cases")
scoring = importlib.import_module("benchmarks.posteriors.score")

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="no folder of posteriors; name it in STARLINGS_POSTERIORDB"
)

NEARLY_GAUSSIAN = [name for name in cases.BUILDERS if name not in cases.HARD]


@jax.jit
def pooled_values(agents, points):
    return jax.vmap(lambda z: jnp.sum(jax.vmap(lambda a: a.potential(z))(agents)))(points)


@jax.jit
def pooled_derivatives(agents, z):
    gradients = jax.vmap(lambda agent: agent.gradient(z))(agents)
    hessians = jax.vmap(lambda agent: agent.hessian(z))(agents)
    return gradients.sum(axis=0), hessians.sum(axis=0)


def near_reference(case, count=3):
    """Points drawn from the Gaussian with the reference's marginals."""
    reference = case.reference["unconstrained"]
    noise = np.random.default_rng(1).normal(size=(count, case.problem.dim))
    return np.array(reference["mean"]) + noise * np.array(reference["sd"])


@pytest.mark.parametrize("name", cases.BUILDERS)
def test_divisions_share_one_posterior(name):
    both = [cases.load(FOLDER, name, division) for division in cases.DIVISIONS]
    points = near_reference(both[0])
    with jax.enable_x64(True):
        first, second = (pooled_values(c.problem.agents(), jnp.asarray(points)) for c in both)
    assert np.all(np.isfinite(first))
    np.testing.assert_allclose(first, second, rtol=1e-8)


@pytest.mark.parametrize("division", cases.DIVISIONS)
@pytest.mark.parametrize("name", cases.BUILDERS)
def test_every_row_is_used_once(name, division):
    data = cases.read(FOLDER, f"{name}.json")
    shards = cases.divide(data, division)
    assert len(shards) == data["agents"]
    assert sorted(np.concatenate(data["splits"][division])) == list(range(data["n_rows"]))
    for column, values in data["rows"].items():
        dealt = np.concatenate([shard[column].reshape(len(shard[column]), -1) for shard in shards])
        whole = np.reshape(values, (data["n_rows"], -1))
        np.testing.assert_array_equal(np.sort(dealt, axis=0), np.sort(whole, axis=0))


@pytest.mark.parametrize("name", NEARLY_GAUSSIAN)
def test_laplace_approximation_meets_the_reference(name):
    case = cases.load(FOLDER, name, "random")
    reference = case.reference["unconstrained"]
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    mode = mean
    with jax.enable_x64(True):
        agents = case.problem.agents()
        for _ in range(4):
            gradient, hessian = pooled_derivatives(agents, jnp.asarray(mode))
            mode = mode - np.linalg.solve(hessian, gradient)
    assert np.max(np.abs(mode - mean) / sd) < 1
    np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(hessian))), sd, rtol=0.12)


@pytest.mark.parametrize("name", cases.HARD)
def test_reported_quantities_are_where_the_reference_is(name):
    case = cases.load(FOLDER, name, "sorted")
    reference = case.reference["constrained"]
    centre = case.problem.constrain(case.reference["unconstrained"]["q50"])
    with jax.enable_x64(True):
        named = {name: jnp.asarray(value) for name, value in centre.items()}
        reported = np.asarray(case.model.reported(named))
    assert reported.shape == (len(case.parameters),)
    assert np.max(np.abs(reported - np.array(reference["q50"])) / reference["sd"]) < 1


def test_exact_draws_score_at_the_noise_floor():
    random = np.random.default_rng(2)
    covariance = np.array([[1.0, -0.9], [-0.9, 4.0]])
    draws = random.multivariate_normal([3.0, 1.0], covariance, size=(2, 40_000))
    levels = (np.arange(200) + 0.5) / 200
    exact = random.multivariate_normal([3.0, 1.0], covariance, size=400_000)
    grid = dict(zip("ab", np.quantile(exact, levels, axis=0).T, strict=True))
    reference = {"mean": [3.0, 1.0], "sd": [1.0, 2.0], "covariance": covariance}
    reference |= {"parameters": ["a", "b"], "quantile_grid": grid}
    figures = scoring.marginal_figures(draws, reference, levels)
    figures |= scoring.joint_figures(draws, reference)
    assert max(figures[k] for k in ("mean_error", "w2", "mahalanobis")) < 0.03
    ratios = ("sd_ratio_least", "sd_ratio_most", "eigenvalue_least", "eigenvalue_most")
    assert all(abs(figures[k] - 1) < 0.03 for k in ratios)


def test_errors_of_known_size_are_seen():
    draws = np.random.default_rng(3).normal(size=(2, 40_000, 2)) * [1.0, 2.0]
    draws[1] = draws[1] * [1.0, 1.5] + [0.5, 0.0]
    levels = (np.arange(200) + 0.5) / 200
    exact = np.random.default_rng(4).normal(size=400_000)
    grid = {"a": np.quantile(exact, levels), "b": 2 * np.quantile(exact, levels)}
    reference = {"mean": [0.0, 0.0], "sd": [1.0, 2.0], "covariance": np.diag([1.0, 4.0])}
    reference |= {"parameters": ["a", "b"], "quantile_grid": grid}
    figures = scoring.marginal_figures(draws, reference, levels)
    figures |= scoring.joint_figures(draws, reference)
    assert figures["mean_error"] == pytest.approx(0.5, abs=0.02)
    assert figures["w2"] == pytest.approx(0.5, abs=0.03)
    assert figures["sd_ratio_most"] == pytest.approx(1.5, abs=0.03)
    assert figures["mahalanobis"] == pytest.approx(0.5 / np.sqrt(2), abs=0.02)
    assert figures["eigenvalue_most"] == pytest.approx(2.25, abs=0.06)
