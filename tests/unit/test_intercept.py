"""One behaviour in Python and in studies: an intercept unless it is turned off; and units."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.errors import ConstantColumnWarning
from starlings.problem.shards import digest
from starlings.study.schema import MODELS, ModelSection
from starlings.study.study import Study

STUDY = """
[model]
kind = "linear_regression"
outcome = "y"
covariates = ["age", "income"]
noise_std = 1.0
prior_std = 100.0
{more}
[data]
file = "rows.csv"
site = "site"

[network]
graph = "ring"
"""


@pytest.fixture
def table(tmp_path):
    random = np.random.default_rng(4)
    rows = pd.DataFrame(
        {
            "site": random.choice(["a", "b", "c"], 90, p=[0.2, 0.3, 0.5]),
            "age": random.normal(50.0, 12.0, 90),
            "income": random.normal(40_000.0, 9_000.0, 90),
        }
    )
    rows["y"] = 2.0 + 0.1 * rows["age"] - 2e-4 * rows["income"] + random.normal(size=90)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    return rows


def study(tmp_path, more=""):
    (tmp_path / "study.toml").write_text(STUDY.format(more=more))
    return Study.read(tmp_path / "study.toml")


def test_studies_and_functions_have_one_default():
    default = inspect.signature(ModelSection).parameters["intercept"].default
    for make in MODELS.values():
        assert inspect.signature(make).parameters["intercept"].default is default is True


@pytest.mark.parametrize("intercept", [True, False])
def test_a_study_is_the_problem_that_python_makes(tmp_path, table, intercept):
    by_study = study(tmp_path, f"intercept = {str(intercept).lower()}").make_problem()
    in_python = st.models.linear_regression(
        table[["age", "income"]],
        table["y"],
        table["site"],
        noise_std=1.0,
        prior_std=100.0,
        intercept=intercept,
    )
    names = ["beta[intercept]", "beta[age]", "beta[income]"][not intercept :]
    assert by_study.parameters.labels() == in_python.parameters.labels() == names
    for one, other in zip(by_study.exact_posterior(), in_python.exact_posterior(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_an_intercept_is_the_column_of_ones(table):
    X, y, sites = table[["age"]].to_numpy(), table["y"], table["site"]
    given = st.models.linear_regression(X, y, sites, noise_std=1.0)
    ones = np.column_stack([np.ones(len(X)), X])
    by_hand = st.models.linear_regression(ones, y, sites, noise_std=1.0, intercept=False)
    assert given.parameters.labels() == ["beta[intercept]", "beta[x0]"]
    np.testing.assert_array_equal(given.exact_posterior()[0], by_hand.exact_posterior()[0])
    alone = st.models.linear_regression(X[:, :0], y, sites, noise_std=1.0, prior_std=1e9**0.5)
    assert alone.exact_posterior()[0] == pytest.approx([y.mean()])


@pytest.mark.slow
def test_a_constant_column_beside_the_intercept_is_told_and_sampled(table):
    X = table[["age"]].assign(unit=3.0)
    with pytest.warns(ConstantColumnWarning, match="column 'unit' of `X`"):
        problem = st.models.linear_regression(X, table["y"], table["site"], noise_std=1.0)
    result = st.sample(problem, st.Network.ring(3))
    mean, covariance = problem.exact_posterior()
    found = result.posterior["beta"].mean(("chain", "draw", "agent")).values
    assert (np.abs(found - mean) < 0.15 * np.sqrt(np.diag(covariance))).all()
    named = table[["age"]].rename(columns={"age": "intercept"})
    with pytest.raises(ValueError, match="more than one column 'intercept'"):
        st.models.linear_regression(named, table["y"], table["site"])


@pytest.mark.slow
@pytest.mark.parametrize("intercept", [True, False])
def test_standardised_coefficients_are_reported_in_original_units(tmp_path, table, intercept):
    """The prediction of every row is the same by both, and by hand."""
    plan = study(tmp_path, f"standardise = true\nintercept = {str(intercept).lower()}")
    problem = plan.make_problem()
    result = st.sample(problem, plan.make_network(problem.sites), draws=50, chains=2, check=False)
    posterior = result.posterior
    X = table[["age", "income"]].to_numpy()
    mean, sd = X.mean(axis=0) * intercept, X.std(axis=0)
    standardised = posterior["beta_standardised"].values
    own, slopes = (standardised[..., :1], standardised[..., 1:]) if intercept else (0, standardised)
    wanted = own + slopes @ ((X - mean) / sd).T
    original = posterior["beta"].values
    columns = np.column_stack([np.ones(len(X)), X])[:, not intercept :]
    found = original @ columns.T
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    names = ["intercept", "age", "income"][not intercept :]
    assert posterior["beta_dim_0"].values.tolist() == names
    assert posterior["beta_standardised_dim_0"].values.tolist() == names
    kept = json.loads(result.attrs["model"])
    assert kept["standardised"]["age"] == pytest.approx({"mean": mean[0], "sd": sd[0]})


@pytest.mark.parametrize("intercept", ["true", "false"])
def test_with_a_vague_prior_units_do_not_matter(tmp_path, table, intercept):
    plain, scaled = (
        study(tmp_path, f"intercept = {intercept}\nstandardise = {standardise}").make_problem()
        for standardise in ("false", "true")
    )
    assert plain.report is None
    mean = plain.exact_posterior()[0]
    centre = scaled.exact_posterior()[0]
    np.testing.assert_allclose(scaled.saved_values(centre)["beta"], mean, rtol=1e-3)


def test_a_result_says_what_it_was_made_of(tmp_path, table):
    plan = study(tmp_path, "standardise = true")
    problem = plan.make_problem()
    result = st.sample(problem, plan.make_network(problem.sites), draws=5, check=False)
    saved = st.load(result.save(tmp_path / "draws.nc"))
    kept = json.loads(saved.attrs["model"])
    assert kept["rows"] == table["site"].value_counts().to_dict()
    assert kept["digests"] == {site: digest(rows) for site, rows in problem.shards.items()}
    assert kept["study"] == "study.toml"
    assert kept["data"]["file"] == "rows.csv"
    assert kept["model"]["covariates"] == ["age", "income"]
    assert kept["model"]["options"] == {"noise_std": 1.0, "prior_std": 100.0}
    assert saved.attrs["inference_library_version"] == st.__version__
