"""Problems: the prior split, padding, constraints, minibatches, NumPyro models."""

from __future__ import annotations

import copy
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import starlings as st
from starlings.models import gaussian
from starlings.models._logistic import log_of_one_plus
from starlings.models.families.binary import Logistic
from starlings.problem.likelihood import derivatives_of
from starlings.problem.parameters import CONSTRAINTS
from starlings.problem.shards import divide_by_site
from starlings.problem.stacking import computed_quadratic
from tests.problems import logistic_rows, paper_problem, unequal_linear_problem
from tests.quick import quick_cases


def rows_of(problem):
    return {
        name: np.concatenate([shard[name] for shard in problem.shards.values()])
        for name in ("x", "y")
    }


def regressions():
    X, y, sites = logistic_rows(60)
    counts = np.random.default_rng(0).poisson(2.0, size=60)
    outcome = X @ [1.0, 2.0, -1.0] + np.random.default_rng(1).normal(size=60)
    normal = scipy.stats.norm
    half_normal = scipy.stats.halfnorm(scale=10.0).logpdf

    def prior(beta):
        return normal(0, np.sqrt(10.0)).logpdf(beta).sum()

    return {
        "linear, known noise": (
            st.models.linear_regression(X, outcome, sites, noise_std=0.7, intercept=False),
            lambda p, r: normal(r["x"] @ p["beta"], 0.7).logpdf(r["y"]).sum() + prior(p["beta"]),
        ),
        "linear, unknown noise": (
            st.models.linear_regression(X, outcome, sites, intercept=False),
            lambda p, r: (
                normal(r["x"] @ p["beta"], p["sigma"]).logpdf(r["y"]).sum()
                + prior(p["beta"])
                + half_normal(p["sigma"])
                + np.log(p["sigma"])
            ),
        ),
        "logistic": (
            st.models.logistic_regression(X, y, sites, intercept=False),
            lambda p, r: (
                scipy.stats.bernoulli(1 / (1 + np.exp(-r["x"] @ p["beta"]))).logpmf(r["y"]).sum()
                + prior(p["beta"])
            ),
        ),
        "poisson": (
            st.models.poisson_regression(X, counts, sites, intercept=False),
            lambda p, r: (
                scipy.stats.poisson(np.exp(r["x"] @ p["beta"])).logpmf(r["y"]).sum()
                + prior(p["beta"])
            ),
        ),
        "student-t": (
            st.models.student_t_regression(
                X, outcome, sites, degrees_of_freedom=3.0, intercept=False
            ),
            lambda p, r: (
                scipy.stats.t(3.0, r["x"] @ p["beta"], p["scale"]).logpdf(r["y"]).sum()
                + prior(p["beta"])
                + half_normal(p["scale"])
                + np.log(p["scale"])
            ),
        ),
    }


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", regressions())
def test_local_potentials_sum_to_the_pooled_one(name):
    """Against SciPy's densities on all rows at once; the last term is the constraint's Jacobian."""
    problem, log_density = regressions()[name]
    for seed in range(5):
        z = np.random.default_rng(seed).normal(size=problem.dim)
        pooled = -log_density(problem.constrain(z), rows_of(problem))
        assert float(problem.potential(z)) == pytest.approx(pooled, rel=1e-10, abs=1e-10)
        assert float(problem.pooled().potential(z)) == pytest.approx(pooled, rel=1e-10, abs=1e-10)


def test_the_prior_is_split_evenly_and_counts_once():
    X, y, sites = logistic_rows(60)
    tight = st.models.logistic_regression(X, y, sites, prior_std=0.1**0.5, intercept=False)
    loose = st.models.logistic_regression(X, y, sites, prior_std=10**0.5, intercept=False)
    z = np.ones(3)
    shares = np.asarray(tight.potentials(z) - loose.potentials(z))
    difference = scipy.stats.norm(0, 10**0.5).logpdf(z) - scipy.stats.norm(0, 0.1**0.5).logpdf(z)
    np.testing.assert_allclose(shares, difference.sum() / 5, rtol=1e-10)


def test_shards_keep_their_rows_and_padding_weighs_nothing():
    X, y, sites = logistic_rows(100)
    problem = st.models.logistic_regression(X, y, sites, intercept=False)
    assert problem.sites == sorted(set(sites))
    assert problem.num_rows.sum() == 100
    assert problem.num_rows.min() < problem.num_rows.max() / 5
    with jax.enable_x64(True):
        agents = problem.agents()
    for i, site in enumerate(problem.sites):
        own = X[sites == site]
        np.testing.assert_array_equal(problem.of_site(site).shards[site]["x"], own)
        weights, rows = np.asarray(agents.row_weights[i]), np.asarray(agents.rows["x"][i])
        assert weights.tolist() == [1.0] * len(own) + [0.0] * (len(weights) - len(own))
        np.testing.assert_array_equal(rows[weights > 0], own)
        np.testing.assert_array_equal(rows[weights == 0], np.tile(own[0], (sum(weights == 0), 1)))
    np.testing.assert_array_equal(agents.num_rows, problem.num_rows)


def test_gradients_and_hessians_of_padded_agents_are_those_of_their_own_rows():
    X, y, sites = logistic_rows(100)
    problem = st.models.logistic_regression(X, y, sites, intercept=False)
    z = np.array([0.3, -0.5, 1.0])
    hessians = problem.hessians(z)
    for i, site in enumerate(problem.sites):
        x = X[sites == site]
        p = 1 / (1 + np.exp(-x @ z))
        expected = x.T @ (x * (p * (1 - p))[:, None]) + np.eye(3) / (10 * 5)
        np.testing.assert_allclose(hessians[i], expected, rtol=1e-9, atol=1e-12)


def every_way(agent, z):
    slopes = agent.gradient(z), agent.hessian(z)
    return agent.derivatives(z), derivatives_of(agent.potential, z), slopes


@pytest.mark.quick(2)
@pytest.mark.parametrize("model", [st.models.logistic_regression, st.models.poisson_regression])
@pytest.mark.parametrize("moved", ["own", "matrix", "diagonal"])
@pytest.mark.parametrize(
    "dim_and_size", quick_cases([(3, 1.0), (20, 1.0), (3, 0.0), (100, 1.0)], [(3, 1.0)])
)
def test_derivatives_by_structure_are_those_of_the_potential(model, moved, dim_and_size):
    dim, size = dim_and_size
    rng = np.random.default_rng(0)
    X, y, sites = rng.normal(size=(60, dim)) / dim, rng.integers(0, 2, 60), np.arange(60) % 7 // 3
    problem = model(X, y, sites, intercept=False)
    if moved != "own":
        scale = np.exp(rng.normal(size=dim)) if moved == "diagonal" else rng.normal(size=(dim, dim))
        tilts = [rng.normal(size=(3, dim)), rng.normal(size=(3, *scale.shape))]
        if moved == "matrix":
            tilts[1] += np.moveaxis(tilts[1], 1, 2)
        tilts = [tilt - tilt.mean(axis=0) for tilt in tilts]
        problem = problem.affine(rng.normal(size=dim), scale, *tilts)
    with jax.enable_x64(True):
        agents, z = problem.agents(), jnp.asarray(size * rng.normal(size=dim))
        assert agents.has_derivatives
        found, expected, slopes = jax.jit(jax.vmap(every_way, (0, None)))(agents, z)
    for own, known in zip((*found, *slopes), (*expected, *expected[1:]), strict=True):
        np.testing.assert_allclose(own, known, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("eta", [-800.0, -30.0, 0.0, 30.0, 800.0])
def test_a_logistic_is_right_far_out(eta):
    with jax.enable_x64(True):
        value, slope, bend = Logistic().of_predictor(jnp.asarray(eta), {"y": 0.0})
        grown = jax.grad(lambda t: Logistic().of_predictor(t, {"y": 0.0})[0])(jnp.asarray(eta))
    np.testing.assert_allclose(value, -np.logaddexp(0, eta), rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(grown, slope, atol=1e-15)
    chance = 1 / (1 + np.exp(-eta)) if eta > -700 else 0.0
    np.testing.assert_allclose([slope, bend], [-chance, -chance * (1 - chance)], atol=1e-15)


@pytest.mark.parametrize(("dtype", "rounding"), [("float64", 4e-16), ("float32", 2e-7)])
def test_a_logarithm_by_products_alone(dtype, rounding):
    small = np.concatenate([[0.0, 1.0], np.logspace(-300 if dtype == "float64" else -30, 0, 999)])
    with jax.enable_x64(dtype == "float64"):
        found = log_of_one_plus(jnp.asarray(small, dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.log1p(small.astype(dtype)), rtol=rounding)


@pytest.mark.parametrize("shape", [(3,), (3, 3)], ids=["diagonal", "matrix"])
def test_a_quadratic_in_other_coordinates_is_the_one_that_differentiation_finds(shape):
    rng = np.random.default_rng(0)
    problem, tilt = unequal_linear_problem(), rng.normal(size=(6, *shape))
    tilts = [t - t.mean(axis=0) for t in (rng.normal(size=(6, 3)), tilt)]
    moved = problem.affine(rng.normal(size=3), rng.normal(size=shape), *tilts)
    found = computed_quadratic(moved)
    known, wanted = ((*q.derivatives(np.ones(3)), q.curvatures) for q in (moved.quadratic, found))
    for own, other in zip(known, wanted, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-10, atol=1e-9)


def test_whole_numbers_do_not_overflow():
    rows = [{"x": np.full((3, 2), 100, np.int8), "y": np.array([0, 1, 1], np.int8)}]
    parameters = {"beta": st.Parameter((2,))}
    problem = st.Problem(Logistic(), lambda p: -0.5 * p["beta"] @ p["beta"], parameters, rows)
    np.testing.assert_allclose(problem.hessians(np.zeros(2))[0], 7500 + np.eye(2))


@pytest.mark.parametrize("shape", [(3,), (3, 3)], ids=["diagonal", "matrix"])
@pytest.mark.parametrize("lead", [(), (4,), (2, 5)], ids=str)
def test_other_coordinates_there_and_back(shape, lead):
    """x = centre + scale z, and the z of such an x is the one that it came from."""
    rng = np.random.default_rng(1)
    problem = gaussian(np.eye(3)[None])
    centre, scale, z = rng.normal(size=3), rng.normal(size=shape), rng.normal(size=(*lead, 3))
    moved = problem.affine(centre, scale)
    x = moved.constrain(z)["x"]
    matrix = np.diag(scale) if len(shape) == 1 else scale
    np.testing.assert_allclose(x, centre + z @ matrix.T, rtol=1e-12, atol=1e-12)
    back = moved.frame.from_original(x)
    np.testing.assert_allclose(back, z, rtol=1e-9, atol=1e-9)
    if lead == ():
        np.testing.assert_allclose(moved.unconstrain({"x": x}), z, rtol=1e-9, atol=1e-9)
        assert moved.potential(z) == pytest.approx(problem.potential(x), rel=1e-12)


def test_a_part_of_the_sites_has_the_potentials_that_they_have_in_the_whole():
    """With a share of the prior for each of all sites, not of those that are held."""
    whole, z = unequal_linear_problem(), np.array([0.5, -1.0, 2.0])
    densities = (whole.log_likelihoods, whole.log_prior, whole.parameters)
    held = {site: whole.shards[site] for site in ("4", "1")}
    part = st.Problem.from_flat(*densities, held).part_of(whole.sites)
    assert part.local.tolist() == [1, 4]
    np.testing.assert_allclose(part.potentials(z), whole.potentials(z)[[1, 4]], rtol=1e-12)
    np.testing.assert_allclose(part.hessians(z), whole.hessians(z)[[1, 4]], rtol=1e-12)


def test_sites_alone_and_pooled_keep_the_coordinates_and_leave_the_tilts():
    problem, z = unequal_linear_problem(), np.array([0.5, -1.0, 2.0])
    rng = np.random.default_rng(0)
    centre, scale, tilt = rng.normal(size=3), rng.normal(size=(3, 3)), rng.normal(size=(6, 3))
    moved = problem.affine(centre, scale, tilt - tilt.mean(axis=0), np.zeros((6, 3, 3)))
    x = centre + scale @ z
    assert moved.pooled().potential(z) == pytest.approx(problem.potential(x), rel=1e-10)
    assert moved.of_site("2").potential(z) == pytest.approx(problem.of_site("2").potential(x))
    np.testing.assert_allclose(moved.of_site("2").constrain(z)["beta"], x, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("quadratic", [False, True])
def test_a_tilt_is_its_symmetric_part(quadratic):
    """z'Az / 2 is all that it says, however A is written; Hessians stay symmetric."""
    rng = np.random.default_rng(0)
    tilt = rng.normal(size=(2, 3, 3))
    tilt -= tilt.mean(axis=0)
    shards = [{"x": rng.normal(size=(4, 3)), "y": rng.integers(0, 2, 4)} for _ in range(2)]
    parameters = {"beta": st.Parameter((3,))}
    problem = st.Problem(Logistic(), lambda p: -0.5 * p["beta"] @ p["beta"], parameters, shards)
    if quadratic:
        problem = gaussian(np.stack([np.eye(3), 2 * np.eye(3)]))
    frame, nothing, z = (np.zeros(3), np.eye(3)), np.zeros((2, 3)), rng.normal(size=3)
    given = problem.affine(*frame, nothing, tilt)
    symmetric = problem.affine(*frame, nothing, (tilt + tilt.swapaxes(1, 2)) / 2)
    with jax.enable_x64(True):
        both = [jax.vmap(every_way, (0, None))(p.agents(), z) for p in (given, symmetric)]
    for own, other in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-12)
    hessians = given.hessians(z)
    np.testing.assert_allclose(hessians, hessians.swapaxes(1, 2), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("linear", "quadratic", "message"),
    [
        (np.zeros((1, 1)), None, "have to be given together"),
        (np.zeros((2, 1)), np.zeros((2, 1, 1)), "`linear_tilt` must have shape"),
        (np.ones((1, 1)), np.zeros((1, 1, 1)), "`linear_tilt` must sum to zero"),
        (np.zeros((1, 1)), np.ones((1, 1, 1)), "`quadratic_tilt` must sum to zero"),
    ],
    ids=["one alone", "agents", "linear", "quadratic"],
)
def test_tilts_that_would_change_the_posterior_are_refused(linear, quadratic, message):
    with pytest.raises(ValueError, match=message):
        gaussian([[[1.0]]]).affine([0.0], [[1.0]], linear, quadratic)


def test_structure_is_claimed_only_where_the_flat_vector_is_beta():
    rows = [{"x": [[1.0]], "y": [1.0]}]
    parameters = {"beta": st.Parameter((1,), "positive")}
    problem = st.Problem(Logistic(), lambda p: -p["beta"].sum(), parameters, rows)
    with jax.enable_x64(True):
        assert not problem.agents().has_derivatives


def test_quadratic_problems_match_their_rows():
    problem = unequal_linear_problem()
    rows = rows_of(problem)
    precision = rows["x"].T @ rows["x"] + np.eye(3) / 5.0
    mean, covariance = problem.exact_posterior()
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-10)
    np.testing.assert_allclose(mean, np.linalg.solve(precision, rows["x"].T @ rows["y"]), rtol=1e-9)


def test_a_wrong_claim_to_be_quadratic_is_refused():
    problem = st.Problem(
        lambda p, row: -jnp.cosh(p["x"] - row["y"]),
        lambda p: 0.0,
        {"x": ()},
        [{"y": [0.0]}, {"y": [1.0]}],
        quadratic=True,
    )
    with pytest.raises(ValueError, match="not quadratic"):
        st.sample(problem, st.Network.path(2), st.CADMM(rho=1.0), draws=1)


def test_paper_problem_has_the_known_posterior_size():
    _, covariance = paper_problem(5).exact_posterior()
    assert f"{np.sqrt(np.trace(covariance)):.4f}" == "0.3805"


def test_sites_are_divided_by_label():
    shards = divide_by_site({"y": np.arange(5)}, [2.0, 1.0, 2.0, 10.0, 1.0])
    assert list(shards) == ["1", "2", "10"]
    assert shards["2"]["y"].tolist() == [0, 2]


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_constraints_invert_and_have_the_right_jacobian(constraint):
    import numpyro.distributions as dist

    transform = CONSTRAINTS[constraint]
    theirs = dist.biject_to(getattr(dist.constraints, constraint))
    with jax.enable_x64(True):
        z = jnp.linspace(-3, 3, 13)
        theta = transform(z)
        np.testing.assert_allclose(transform._inverse(theta), z, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(theta, theirs(z), rtol=1e-12)
        expected = np.log(np.abs(jax.vmap(jax.grad(transform))(z)))
        found = transform.log_abs_det_jacobian(z, theta)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def numpyro_model(x, y=None):
    import numpyro
    import numpyro.distributions as dist

    beta = numpyro.sample("beta", dist.Normal(0, 2).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(3.0))
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    mean = x @ beta + weights[0]
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(mean, sigma), obs=y)


def numpyro_shards(sizes=(1, 12, 5)):
    random = np.random.default_rng(0)
    return {
        f"s{i}": {"x": random.normal(size=(n, 2)), "y": random.normal(size=n)}
        for i, n in enumerate(sizes)
    }


@pytest.mark.slow
def test_numpyro_models_sum_to_their_pooled_density():
    from numpyro.infer.util import potential_energy

    shards = numpyro_shards()
    problem = st.Problem.from_numpyro(numpyro_model, shards)
    assert problem.dim == 2 + 1 + 2
    pooled = {k: np.concatenate([s[k] for s in shards.values()]) for k in ("x", "y")}
    with jax.enable_x64(True):
        for seed in range(4):
            z = np.random.default_rng(seed).normal(size=5)
            named = {"beta": z[:2], "sigma": z[2], "weights": z[3:]}
            named = {k: jnp.asarray(v) for k, v in named.items()}
            expected = potential_energy(numpyro_model, (), pooled, named)
            assert float(problem.potential(z)) == pytest.approx(float(expected), abs=1e-10)


@pytest.mark.slow
def test_a_parameter_after_a_simplex_begins_where_its_free_entries_end():
    """Three shares have two free entries, in whatever order parameters are declared."""
    import numpyro
    import numpyro.distributions as dist

    def model(y):
        weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
        mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(mean + weights[0]), obs=y)

    problem = st.Problem.from_numpyro(model, {"a": {"y": np.ones(3)}, "b": {"y": np.zeros(2)}})
    z = np.array([0.3, -0.7, 1.25])
    named = problem.constrain(z)
    assert problem.dim == 3
    assert named["mean"] == pytest.approx(1.25)
    assert named["weights"].shape == (3,)
    np.testing.assert_allclose(problem.unconstrain(named), z, rtol=1e-9)


def test_a_scaled_likelihood_of_numpyro_counts_as_often_as_it_says():
    import numpyro
    import numpyro.distributions as dist

    def model(y, scale):
        mean = numpyro.sample("mean", dist.Normal(0.0, 2.0))
        with numpyro.plate("rows", len(y)), numpyro.handlers.scale(scale=scale):
            numpyro.sample("y", dist.Normal(mean), obs=y)

    y, z = np.array([1.0, 2.0, -1.0]), np.array([0.4])
    problem = st.Problem.from_numpyro(
        lambda y: model(y, 3.0), {"a": {"y": y[:2]}, "b": {"y": y[2:]}}
    )
    normal = scipy.stats.norm
    wanted = -3.0 * normal(0.4).logpdf(y).sum() - normal(0, 2.0).logpdf(0.4)
    assert problem.potential(z) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.slow
def test_numpyro_models_can_be_sampled():
    problem = st.Problem.from_numpyro(numpyro_model, numpyro_shards())
    result = st.sample(problem, st.Network.path(3), st.DADMMS(rho=5.0), draws=5, chains=2)
    assert result.posterior["weights"].shape == (2, 5, 3, 3)
    np.testing.assert_allclose(result.posterior["weights"].sum("weights_dim_0"), 1.0, rtol=1e-9)
    assert (result.posterior["sigma"] > 0).all()


def test_numpyro_models_with_local_latents_are_refused():
    import numpyro
    import numpyro.distributions as dist

    def model(y):
        with numpyro.plate("rows", len(y)):
            z = numpyro.sample("z", dist.Normal())
            numpyro.sample("y", dist.Normal(z), obs=y)

    with pytest.raises(ValueError, match="may not grow with the rows"):
        st.Problem.from_numpyro(model, {"a": {"y": np.ones(3)}, "b": {"y": np.ones(4)}})


def test_gaussian_targets_are_problems():
    problem = gaussian(np.array([[[2.0]], [[4.0]]]), np.array([[1.0], [5.0]]))
    mean, covariance = problem.exact_posterior()
    assert mean[0] == pytest.approx(1.0)
    assert covariance[0, 0] == pytest.approx(1 / 6)


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(st.Problem)] + ["quadratic"])
def test_a_problem_cannot_be_changed(name):
    problem = unequal_linear_problem()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(problem, name, None)


def test_changing_what_a_problem_returns_does_not_change_the_problem():
    problem = unequal_linear_problem()
    sites, provenance = problem.sites, problem.provenance()
    problem.sites.append("another")
    problem.shards[sites[0]]["another"] = np.ones(1)
    assert problem.sites == sites
    with pytest.raises(TypeError, match="does not support item assignment"):
        problem.shards["another"] = {}
    for rows in problem.shards.values():
        with pytest.raises(ValueError, match="read-only"):
            rows["y"][0] = 0.0
    assert problem.provenance() == provenance


def test_a_problem_and_the_arrays_of_its_caller_are_independent():
    y = np.array([1.0, 2.0])
    shards = {"north": {"y": y}, "south": {"y": y[:1]}}
    problem = st.Problem(
        lambda p, row: -0.5 * (row["y"] - p["mean"]) ** 2,
        lambda p: -0.5 * p["mean"] ** 2,
        parameters={"mean": ()},
        shards=shards,
    )
    y[:] = 7.0  # the caller's array can still be written to
    shards["west"] = {"y": y}
    assert [rows["y"].tolist() for rows in problem.shards.values()] == [[1.0, 2.0], [1.0]]
    assert problem.sites == ["north", "south"]


def test_problems_with_the_same_rows_share_them():
    problem = unequal_linear_problem()
    moved = problem.affine(np.zeros(problem.dim), np.ones(problem.dim))
    again = copy.deepcopy(problem.shards)
    for site, rows in problem.shards.items():
        for name, column in rows.items():
            assert moved.shards[site][name] is column
            np.testing.assert_array_equal(again[site][name], column)


def test_copies_of_a_problem_keep_what_they_do_not_change():
    problem = gaussian([[[2.0]], [[3.0]]]).with_description(source="a test")
    moved = problem.renamed(["north", "south"]).affine([1.0], [[2.0]])
    assert problem.sites == ["0", "1"]
    assert problem.frame is None
    assert moved.sites == ["north", "south"]
    assert moved.description == {"source": "a test"}
    assert moved.quadratic.hessian.ravel().tolist() == [8.0, 12.0]
