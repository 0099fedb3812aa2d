"""NumPyro models as people write them: tuned, with their deterministic sites and scoped names."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import starlings as st

RING = st.Network.ring(3)


def shards(make, sizes=(20, 10, 5), seed=0):
    random = np.random.default_rng(seed)
    return {name: make(random, n) for name, n in zip("abc", sizes, strict=True)}


def binary_rows(random, n):
    x = np.column_stack([np.ones(n), random.normal(size=(n, 2))])
    return {"x": x, "y": (random.logistic(size=n) < x @ [-1.0, 1.0, -1.0]).astype(float)}


def plain_rows(random, n):
    return {"x": random.normal(size=n), "y": random.normal(size=n)}


def logistic(x, y):
    b = numpyro.sample("b", dist.Normal(0, 3).expand([3]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)


@pytest.mark.slow
def test_a_bernoulli_model_is_tuned_and_sampled():
    """At b = 0, where a search begins, its derivatives are wrong: 0 or 1 instead of 1/2."""
    rows = shards(binary_rows, (200, 100, 50))
    problem = st.Problem.from_numpyro(logistic, rows)
    result = st.sample(problem, RING)
    X = np.concatenate([shard["x"] for shard in rows.values()])
    y = np.concatenate([shard["y"] for shard in rows.values()])
    sites = np.repeat(list(rows), [200, 100, 50])
    same = st.models.logistic_regression(X, y, sites, prior_std=3.0, intercept=False)
    tuned = st.sample(same, RING)
    one, other = (r.posterior.mean(("chain", "draw", "agent")) for r in (result, tuned))
    sd = tuned.posterior["beta"].std(("chain", "draw", "agent")).values
    assert (np.abs(one["b"].values - other["beta"].values) < 0.15 * sd).all()


def with_deterministic(x, y):
    b = numpyro.sample("b", dist.Normal(0, 3).expand([2]).to_event(1))
    s = numpyro.sample("s", dist.HalfNormal(2))
    numpyro.deterministic("ratio", b[0] / s)
    numpyro.deterministic("two", jnp.full(2, 2.0))
    numpyro.sample("y", dist.Normal(b[0] + x * b[1], s), obs=y)


@pytest.mark.slow
def test_deterministic_sites_are_kept(tmp_path):
    problem = st.Problem.from_numpyro(with_deterministic, shards(plain_rows))
    assert problem.coordinate_names == ["b[0]", "b[1]", "log s"]
    result = st.sample(problem, RING, draws=150)
    posterior = st.load(result.save(tmp_path / "draws.nc")).posterior
    ratio = posterior["b"].values[..., 0] / posterior["s"].values
    np.testing.assert_allclose(posterior["ratio"].values, ratio, rtol=1e-12)
    assert (posterior["two"].values == 2.0).all()
    assert not [text for text in result.check().problems if "two" in text], "constants are no news"


def with_rows(x, y):
    b = numpyro.sample("b", dist.Normal(0, 3))
    mean = numpyro.deterministic("mean", x * b)
    numpyro.deterministic("total", mean.sum())
    numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


@pytest.mark.slow
def test_deterministic_sites_of_the_rows_are_left_out_and_said_to_be():
    with pytest.warns(UserWarning, match="depends on the rows") as caught:
        problem = st.Problem.from_numpyro(with_rows, shards(plain_rows))
    assert ["'mean'" in str(w.message) for w in caught] == [True, False]
    assert list(problem.saved_values(np.zeros(1))) == ["b"]


def scoped(x, y):
    with numpyro.handlers.scope(prefix="north"):
        a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(a + b * x, 1.0), obs=y)


@pytest.mark.slow
def test_scoped_names_are_kept_with_a_dot(tmp_path):
    problem = st.Problem.from_numpyro(scoped, shards(plain_rows))
    result = st.sample(problem, RING, draws=20, check=False)
    loaded = st.load(result.save(tmp_path / "draws.nc"))
    assert set(loaded.posterior.data_vars) == {"north.a", "b"}
    flat = problem.unconstrain({"north.a": 0.5, "b": -1.0})
    rows = {k: np.concatenate([s[k] for s in problem.shards.values()]) for k in ("x", "y")}
    wanted = 0.5 * ((rows["y"] - 0.5 + rows["x"]) ** 2).sum() + 0.5 * (0.5**2 + 1.0)
    constants = (len(rows["y"]) + 2) * 0.5 * np.log(2 * np.pi)
    assert problem.potential(flat) == pytest.approx(wanted + constants)


def a_latent_for_every_row(x, y):
    with numpyro.plate("rows", len(y)):
        b = numpyro.sample("b", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)


@pytest.mark.quick(1)
@pytest.mark.parametrize("sizes", [(5, 5, 5), (1, 1, 1), (5, 4, 3)])
def test_latents_that_grow_with_the_rows_are_refused_whatever_the_sizes(sizes):
    with pytest.raises(ValueError, match=r"latent site 'b' has shape .* may not grow"):
        st.Problem.from_numpyro(a_latent_for_every_row, shards(plain_rows, sizes))


def improper(x, y):
    b = numpyro.sample("b", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.deterministic("log b", jnp.log(b))
    numpyro.sample("y", dist.Normal(b * x, 1.0), obs=y)


@pytest.mark.slow
def test_an_improper_prior_may_have_a_proper_posterior():
    problem = st.Problem.from_numpyro(improper, shards(plain_rows))
    x, y = (np.concatenate([s[k] for s in problem.shards.values()]) for k in "xy")
    result = st.sample(problem, RING, draws=500, check=False)
    found = result.posterior["b"].values
    mean, sd = x @ y / (x @ x), (x @ x) ** -0.5
    assert abs(found.mean() - mean) < 0.15 * sd
    assert "log b" in result.posterior, "not a number at negative b, and no news of the rows"


def plain(x, y):
    b = numpyro.sample("b", dist.Normal(0, 3))
    with numpyro.plate("rows", x.shape[0]):
        numpyro.sample("y", dist.Normal(x * b, 1.0), obs=y)


def with_subsample(x, y):
    b = numpyro.sample("b", dist.Normal(0, 3))
    with numpyro.plate("rows", x.shape[0], subsample_size=4) as some:
        numpyro.sample("y", dist.Normal(x[some] * b, 1.0), obs=y[some])


def with_numpyros_subsample(x, y):
    b = numpyro.sample("b", dist.Normal(0, 3))
    with numpyro.plate("rows", x.shape[0], subsample_size=4):
        some, outcomes = numpyro.subsample(x, event_dim=0), numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Normal(some * b, 1.0), obs=outcomes)


def as_a_subsample(x, y):
    b = numpyro.sample("b", dist.Normal(0, 3))
    with numpyro.plate("rows", 1000, subsample_size=x.shape[0]):
        numpyro.sample("y", dist.Normal(x * b, 1.0), obs=y)


@pytest.mark.parametrize("model", [with_subsample, with_numpyros_subsample, as_a_subsample])
def test_every_row_of_a_plate_counts_once_whatever_it_takes_of_them(model):
    rows = shards(plain_rows)
    found, wanted = (st.Problem.from_numpyro(each, rows) for each in (model, plain))
    np.testing.assert_allclose(found.potentials([0.4]), wanted.potentials([0.4]), rtol=1e-12)


def discrete(x, y):
    k = numpyro.sample("k", dist.Categorical(jnp.ones(3) / 3))
    numpyro.sample("y", dist.Normal(x * k, 1.0), obs=y)


def reserved(x, y):
    b = numpyro.sample("draw", dist.Normal(0, 3))
    numpyro.sample("y", dist.Normal(x * b, 1.0), obs=y)


def constant_sd(x, y, sd):
    b = numpyro.sample("b", dist.Normal(0, 3))
    numpyro.sample("y", dist.Normal(x * b, sd), obs=y)


def alike(x, y):
    numpyro.sample("a.b", dist.Normal(0, 1))
    with numpyro.handlers.scope(prefix="a"):
        b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(x * b, 1.0), obs=y)


def unobserved(x, y):
    numpyro.sample("b", dist.Normal(0, 3))


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (discrete, "latent site 'k' is discrete .* sum it out"),
        (reserved, "no parameter can be called 'draw'"),
        (alike, "have the same name once"),
        (unobserved, "no observed sites.*`obs=`"),
    ],
)
def test_models_that_cannot_be_sampled_are_refused_when_built(model, text):
    with pytest.raises(ValueError, match=text):
        st.Problem.from_numpyro(model, shards(plain_rows))


def test_a_constant_belongs_to_the_model():
    rows = {site: {**r, "sd": 2.0} for site, r in shards(plain_rows).items()}
    with pytest.raises(ValueError, match=r"'sd' of site 'a' is one value.*functools\.partial"):
        st.Problem.from_numpyro(constant_sd, rows)
    fixed = functools.partial(constant_sd, sd=2.0)
    assert st.Problem.from_numpyro(fixed, shards(plain_rows)).dim == 1
