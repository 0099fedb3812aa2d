"""Priors: their densities, quantiles and draws, texts that are refused, defaults and the table."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import starlings as st
from starlings.models.families import family_of
from starlings.models.families.ordered import Ordered
from starlings.models.families.problem import regression_problem
from starlings.models.priors import (
    DataScale,
    Prior,
    PriorVector,
    RegressionPrior,
    default_texts,
    priors_of,
    regression_prior,
)
from starlings.problem.parameters import Parameter, Parameters

LAWS = {
    "normal(-1, 2)": scipy.stats.norm(-1, 2),
    "student_t(3, 0.5, 2.5)": scipy.stats.t(3, 0.5, 2.5),
    "cauchy(1, 2)": scipy.stats.cauchy(1, 2),
    "laplace(1, 2)": scipy.stats.laplace(1, 2),
    "half_normal(2)": scipy.stats.halfnorm(scale=2),
    "half_student_t(4, 1.5)": scipy.stats.foldnorm(0),  # see `law_of`
    "half_cauchy(2)": scipy.stats.halfcauchy(scale=2),
    "exponential(0.4)": scipy.stats.expon(scale=2.5),
    "gamma(2.5, 0.5)": scipy.stats.gamma(2.5, scale=2),
    "beta(2, 3.5)": scipy.stats.beta(2, 3.5),
    "uniform(-1, 3)": scipy.stats.uniform(-1, 4),
}
LABELS = ("Intercept", "age", "C(ward)[T.B]", "C(ward)[T.C]")
SCALE = DataScale([1.0, 50.0, 0.2, 0.1], [0.0, 20.0, 0.4, 0.3], 120.0, 15.0)
INSIDE = np.array([0.001, 0.1, 0.4, 0.7, 0.99])


@pytest.mark.parametrize("text", LAWS)
def test_priors_are_the_distributions_of_scipy(text):
    prior, law = Prior.of(text), LAWS[text]
    if text.startswith("half_student_t"):
        whole = scipy.stats.t(4, 0, 1.5)
        values = whole.ppf((1 + INSIDE) / 2)
        density, std = (
            whole.logpdf(values) + np.log(2),
            prior.quantile(np.linspace(5e-7, 1, 10**6, False)).std(),
        )
    else:
        values, std = law.ppf(INSIDE), law.std()
        density = law.logpdf(values)
    with jax.enable_x64(True):
        np.testing.assert_allclose(prior.log_density(values), density, rtol=1e-10)
        outside = {"positive": -0.1, "unit_interval": 1.1, "interval": 3.1}
        if (support := prior._kind.support) in outside:
            assert prior.log_density(outside[support]) == -np.inf
    np.testing.assert_allclose(prior.quantile(INSIDE), values, rtol=1e-8)
    expected = std if np.isfinite(std) else np.inf
    np.testing.assert_allclose(prior.std, expected, rtol=1e-2 if "half_st" in text else 1e-12)
    assert Prior.of(str(prior)) == prior
    drawn = prior.draw(np.random.default_rng(0), (4000,))
    chances = np.searchsorted(prior.quantile(np.linspace(0.05, 0.95, 19)), drawn)
    assert scipy.stats.chisquare(np.bincount(chances, minlength=20)).pvalue > 1e-4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nromal(0, 1)", "Did you mean 'normal'"),
        (
            "normal(0)",
            r"needs 2 numbers, normal\(location, standard deviation\); got 'normal\(0\)'",
        ),
        ("normal(0, -1)", "must have a positive standard deviation"),
        ("normal(0, nan)", "finite numbers in its brackets, got 'nan'"),
        ("normal(0, exp(1))", "must be a text such as 'normal"),
        ("normal(0, one)", "finite numbers in its brackets, got 'one'"),
        ("uniform(2, 1)", "a lower end below the upper one"),
        (3.0, "must be a text such as 'normal"),
        ("flat(1)", r"needs 0 numbers, flat\(\)"),
    ],
)
def test_bad_texts_are_refused(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        Prior.of(text, "priors['age']")
    assert "`priors['age']`" in str(caught.value)


def test_a_vector_is_the_sum_of_its_entries():
    texts = ["normal(0, 1)", "flat()", "normal(1, 2)", "student_t(3, 0, 2)", "laplace(0, 1)"]
    priors, values = [Prior.of(text) for text in texts], np.array([0.3, -1.0, 2.0, 0.1, -0.7])
    with jax.enable_x64(True):
        found = jax.jit(PriorVector(tuple(priors)).log_density)(jnp.asarray(values))
        expected = sum(float(p.log_density(v)) for p, v in zip(priors, values, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert PriorVector(tuple(priors)).log_density(jnp.asarray(values, "f4")).dtype == np.float32


def test_defaults_follow_the_scale_of_the_data():
    gaussian = default_texts(family_of("gaussian"), LABELS, SCALE)
    assert gaussian["Intercept"] == "normal(120, 37.5)"
    assert gaussian["age"] == "normal(0, 1.88)"
    assert gaussian["sigma"] == "exponential(0.0667)"
    logistic = default_texts(family_of("logistic"), LABELS, SCALE)
    assert logistic["age"] == "normal(0, 0.125)"
    assert logistic["Intercept"] == "normal(0, 2.5)"
    constant = DataScale([1.0], [0.0], 0.0, 0.0)
    assert default_texts(family_of("gaussian"), ["x"], constant)["x"] == "normal(0, 2.5)"
    assert default_texts(family_of("poisson"), ["Intercept"], constant) == {
        "Intercept": "normal(0, 2.5)"
    }


def test_the_default_of_the_intercept_is_of_an_average_row():
    family = family_of("gaussian")
    prior = regression_prior(family, LABELS, SCALE)
    beta, sigma = np.array([20.0, 2.0, 5.0, -3.0]), 3.0
    with jax.enable_x64(True):
        found = prior({"beta": jnp.asarray(beta), "sigma": jnp.asarray(sigma)})
    average = 20 + 2 * 50 + 5 * 0.2 - 3 * 0.1
    own = [Prior.of(text) for text in prior.texts.values()]
    values = [average, *beta[1:], sigma]
    with jax.enable_x64(True):
        expected = sum(float(p.log_density(v)) for p, v in zip(own, values, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    rng, parameters = np.random.default_rng(0), Parameters({"beta": 4, **family.parameters()})
    drawn = np.array([prior.draw(rng, parameters)["beta"] for _ in range(4000)])
    centred = drawn @ np.array([1.0, 50.0, 0.2, 0.1])
    assert abs(centred.mean() - 120) < 4 * 37.5 / np.sqrt(4000)
    np.testing.assert_allclose(centred.std(), 37.5, rtol=4 / np.sqrt(2 * 4000))
    itself = regression_prior(family, LABELS, SCALE, {"Intercept": "normal(0, 1)"})
    assert itself.average is None


@pytest.mark.parametrize(("name", "sign"), [("piecewise_exponential", 1), ("ordinal", -1)])
def test_what_stands_for_an_intercept_has_the_prior_of_an_average_row(name, sign):
    settings = {"ordinal": {"levels": ["a", "b", "c"]}, "piecewise_exponential": {"cuts": [1.0]}}
    family = family_of(name, **settings[name])
    (own,) = family.parameters()
    scale = DataScale([2015.0], [3.0], 1.5, 1.0, 0.7)
    beta, value = np.array([0.1]), np.array([-1.0, 2.0])
    with jax.enable_x64(True):
        found = regression_prior(family, ["year"], scale)(
            {"beta": jnp.asarray(beta), own: jnp.asarray(value)}
        )
        centred = value + sign * (201.5 + 0.7)
        still = DataScale([0.0], [3.0], 1.5, 1.0)
        expected = regression_prior(family, ["year"], still)(
            {"beta": jnp.asarray(beta), own: jnp.asarray(centred)}
        )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_priors_of_ascending_numbers_integrate_to_one():
    block = Parameter((2,), transform=Ordered())
    prior = RegressionPrior.of({"x": "flat()", "c": "normal(0, 1)"}, ("x",), {"c": block})
    grid = np.linspace(-7, 7, 281)
    with jax.enable_x64(True):

        def density(a, b):
            return jnp.exp(prior({"beta": jnp.zeros(1), "c": jnp.stack([a, b])}))

        values = jax.vmap(jax.vmap(density, (None, 0)), (0, None))(grid, grid)
        total = np.sum(np.where(grid[:, None] < grid, values, 0)) + np.trace(values) / 2
    np.testing.assert_allclose(total * (grid[1] - grid[0]) ** 2, 1.0, rtol=1e-6)


def test_given_priors_replace_defaults_by_label_term_and_parameter():
    family = family_of("negative_binomial")
    given = {
        "age": "student_t(3, 0, 1)",
        "C(ward)": "normal(0, 1)",
        "C(ward)[T.C]": "laplace(0, 2)",
    }
    texts = regression_prior(family, LABELS, SCALE, {**given, "dispersion": "half_normal(1)"}).texts
    assert texts["age"] == "student_t(3, 0, 1)"
    assert texts["C(ward)[T.B]"] == "normal(0, 1)"
    assert texts["C(ward)[T.C]"] == "laplace(0, 2)"
    assert texts["dispersion"] == "half_normal(1)"
    others = {"site_sd": (Parameter((2,), "positive"), "half_normal(1)")}
    assert (
        regression_prior(family, LABELS, SCALE, None, others).texts["site_sd"] == "half_normal(1)"
    )
    for bad, message in {
        ("agee", "normal(0, 1)"): "Did you mean 'age'",
        ("age", "half_normal(1)"): "`age`, which can be any number, is half_normal",
        ("dispersion", "normal(0, 1)"): "half_normal",
    }.items():
        with pytest.raises(ValueError, match=message):
            regression_prior(family, LABELS, SCALE, dict([bad]))


def test_the_table_says_what_priors_mean():
    family = family_of("logistic")
    prior = regression_prior(family, LABELS, SCALE, {"C(ward)": "flat()"})
    shards = {"a": {"x": np.ones((1, 4)), "y": [1.0]}}
    lines = priors_of(regression_problem(shards, LABELS, family, prior)).splitlines()
    assert lines[0].split() == ["parameter", "prior", "95", "%", "between", "as", "odds", "ratio"]
    assert lines[1].split("  ")[0] == "Intercept (of an average row)"
    assert "normal(0, 0.125)" in lines[2]
    assert lines[2].endswith("-0.24 and 0.24  0.78 and 1.3")
    assert lines[3].split() == ["C(ward)[T.B]", "flat()", "anything", "anything"]
    with pytest.raises(ValueError, match="has no priors in its description"):
        priors_of(st.models.gaussian([[[1.0]]]))
