"""PyMC and Bambi models against the same models written for this library."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from jax.scipy import stats

import starlings as st

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ 0.23 announces version 1
    pm = pytest.importorskip("pymc")

SITES = np.repeat(["a", "b", "c"], [12, 7, 1])
RANDOM = np.random.default_rng(1)
X = RANDOM.normal(size=len(SITES))
WARD = RANDOM.integers(0, 2, size=len(SITES))
Y = RANDOM.poisson(np.exp(0.5 * X))
COLUMNS = {"x": X, "ward": WARD, "y": Y}
SHARDS = {site: {k: v[site == SITES] for k, v in COLUMNS.items()} for site in "abc"}
NAMES = {"wards": ["east", "west"]}


def build(x, ward, y):
    with pm.Model(coords=NAMES) as model:
        sd = pm.HalfNormal("sd", 2.0)
        top = pm.Uniform("top", 0, sd)
        effect = pm.Normal("effect", 0, sd, dims="wards")
        pm.Deterministic("twice", 2 * effect, dims="wards")
        pm.Deterministic("ratio", effect / sd)
        pm.Potential("sum to zero", -5 * effect.sum() ** 2)
        pm.Potential("by row", -0.1 * (x - top) ** 2)
        pm.Poisson("y", pm.math.exp(top * x + effect[ward]), observed=y)
    return model


def same_problem():
    """The same with the parameters of the coordinates: u is the logit of top / sd."""

    def top(p):
        return p["sd"] * jax.nn.sigmoid(p["u"])

    def log_likelihood(p, row):
        rate = jnp.exp(top(p) * row["x"] + p["effect"][row["ward"]])
        return stats.poisson.logpmf(row["y"], rate) - 0.1 * (row["x"] - top(p)) ** 2

    def log_prior(p):
        uniform = jnp.log(jax.nn.sigmoid(p["u"])) + jnp.log(jax.nn.sigmoid(-p["u"]))
        effect = stats.norm.logpdf(p["effect"], 0, p["sd"]).sum() - 5 * p["effect"].sum() ** 2
        return stats.norm.logpdf(p["sd"], 0, 2) + jnp.log(2) + uniform + effect

    parameters = {"sd": st.Parameter((), "positive"), "u": (), "effect": (2,)}
    return st.Problem(log_likelihood, log_prior, parameters, SHARDS)


def data_model():
    with pm.Model():
        data = {name: pm.Data(name, values) for name, values in COLUMNS.items()}
    return data


WAYS = {
    "function": lambda: st.Problem.from_pymc(build, SHARDS),
    "all rows": lambda: st.Problem.from_pymc(build(**COLUMNS), sites=SITES),
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("way", WAYS)
def test_the_densities_of_every_site_are_those_of_the_model(way):
    problem, same = WAYS[way](), same_problem()
    assert problem.sites == same.sites
    for z in np.random.default_rng(2).normal(size=(5, problem.dim)):
        np.testing.assert_allclose(problem.potentials(z), same.potentials(z), atol=1e-10)
    assert not jax.config.jax_enable_x64, "reading a model changes no setting of JAX"


def test_names_dims_and_deterministic_variables_are_kept():
    problem = st.Problem.from_pymc(build, SHARDS)
    assert problem.coordinate_names[:2] == ["log sd", "top_interval__"]
    z = np.array([0.2, -0.3, 0.5, 1.0])
    values = problem.saved_values(z)
    sd = np.exp(0.2)
    assert list(values) == ["effect", "ratio", "sd", "top", "twice"]
    np.testing.assert_allclose(values["top"], sd / (1 + np.exp(0.3)), rtol=1e-12)
    np.testing.assert_allclose(values["ratio"], [0.5 / sd, 1 / sd], rtol=1e-12)
    assert problem.dims_of("twice", 1) == ("wards",)
    assert problem.axis_labels(["wards"]) == {"wards": ["east", "west"]}
    assert problem.labels_of("effect") == ("east", "west")


def refused(make):
    def model(x, ward, y):
        with pm.Model() as built:
            make(x, y)
        return built

    return model


BAD = {
    "discrete": (
        lambda x, y: pm.Normal("y", pm.Bernoulli("k", 0.5) * x, observed=y),
        "'k' is discrete.*sum it out",
    ),
    "grows": (
        lambda x, y: pm.Normal("y", pm.Normal("b", shape=x.shape[0]) * x, observed=y),
        "'b' depends on the rows.*may not grow",
    ),
    "one number": (
        lambda x, y: (
            pm.Normal("y", pm.Normal("b") * x, observed=y),
            pm.Potential("all", -(x**2).sum()),
        ),
        "'all' must have one log-probability for each row",
    ),
    "unobserved": (lambda x, y: pm.Normal("b"), "no observed variables.*`observed=`"),
    "length": (lambda x, y: pm.Normal("b", shape=len(x)), "x.shape\\[0\\]"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_sampled_is_refused_with_a_reason(case):
    make, text = BAD[case]
    with pytest.raises(ValueError, match=f"(?s){text}"):
        st.Problem.from_pymc(refused(make), SHARDS)


@pytest.mark.slow
def test_a_model_with_data_containers_takes_the_rows_of_the_sites():
    with pm.Model() as model:
        x, y = pm.Data("x", X), pm.Data("y", Y)
        rate = pm.Gamma("rate", 2, 1)
        pm.Poisson("count", rate * pm.math.exp(x), observed=y)
    rows = {site: {"x": s["x"], "y": s["y"]} for site, s in SHARDS.items()}
    problem = st.Problem.from_pymc(model, rows)
    same = st.Problem(
        lambda p, row: stats.poisson.logpmf(row["y"], p["rate"] * jnp.exp(row["x"])),
        lambda p: stats.gamma.logpdf(p["rate"], 2),
        {"rate": st.Parameter((), "positive")},
        rows,
    )
    np.testing.assert_allclose(problem.potentials([0.3]), same.potentials([0.3]), atol=1e-10)
    with pytest.raises(ValueError, match=r"no `pm\.Data` for the columns \['ward'\]"):
        st.Problem.from_pymc(model, SHARDS)


def test_constants_that_are_not_of_rows_are_found_out():
    """There are as many sites as rows, and the effect of a site is no row's."""
    with pm.Model() as model:
        effect = pm.Normal("effect", np.arange(3.0), 1.0, shape=3)
        pm.Normal("y", effect[[0, 1, 2]] * np.arange(3.0), 1.0, observed=[1.0, 2.0, 0.5])
    with pytest.raises(ValueError, match=r"depends on the rows|not all data of the rows"):
        st.Problem.from_pymc(model, sites=["a", "b", "c"])


@pytest.mark.slow
def test_the_posterior_is_that_of_the_same_problem():
    network = st.Network.ring(3)
    found, wanted = (
        st.sample(problem, network, draws=300, method="hmc", check=False).posterior["effect"]
        for problem in (st.Problem.from_pymc(build, SHARDS), same_problem())
    )
    assert found.dims == ("chain", "draw", "agent", "wards")
    over = ("chain", "draw", "agent")
    sd = wanted.std(over).values
    assert (np.abs(found.mean(over).values - wanted.mean(over).values) < 0.2 * sd).all()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pandas 3, about code of Bambi
def test_a_bambi_model_has_bambis_intercept():
    bambi = pytest.importorskip("bambi")
    table = pd.DataFrame({"count": Y, "age": X + 3, "ward": WARD.astype(str), "site": SITES})
    priors = {
        "Intercept": bambi.Prior("Normal", mu=0, sigma=2),
        "age": bambi.Prior("Normal", mu=0, sigma=1),
        "1|ward": bambi.Prior("Normal", mu=0, sigma=bambi.Prior("HalfNormal", sigma=1)),
    }
    formula = "count ~ age + (1|ward)"
    model = bambi.Model(formula, table, family="poisson", priors=priors, noncentered=True)
    problem = st.Problem.from_bambi(model, sites="site")
    names = ["a", "age", "log sd", "z0", "z1"]
    order = ["Intercept of centred columns", "age", "log 1|ward_sigma"]
    order += ["1|ward_offset[0]", "1|ward_offset[1]"]

    def log_likelihood(p, row):
        eta = p["a"] + p["age"] * (row["age"] - table["age"].mean())
        return stats.poisson.logpmf(row["y"], jnp.exp(eta + p["z"][row["ward"]] * p["sd"]))

    def log_prior(p):
        shared = stats.norm.logpdf(p["a"], 0, 2) + stats.norm.logpdf(p["age"])
        return shared + jnp.log(2) + stats.norm.logpdf(p["sd"]) + stats.norm.logpdf(p["z"]).sum()

    shards = {site: {**rows, "age": rows["x"] + 3} for site, rows in SHARDS.items()}
    parameters = {"a": (), "age": (), "sd": st.Parameter((), "positive"), "z": (2,)}
    same = st.Problem(log_likelihood, log_prior, parameters, shards)
    assert sorted(problem.coordinate_names) == sorted(order)
    z = dict(zip(order, np.random.default_rng(3).normal(size=len(names)), strict=True))
    own = np.array([z[name] for name in problem.coordinate_names])
    np.testing.assert_allclose(
        problem.potentials(own), same.potentials(np.array(list(z.values()))), atol=1e-10
    )
    intercept = z[order[0]] - z["age"] * table["age"].mean()
    np.testing.assert_allclose(problem.saved_values(own)["Intercept"], intercept, rtol=1e-12)
    with pytest.raises(ValueError, match="must be a column of the model's data"):
        st.Problem.from_bambi(model, sites="hospital")
