"""Problems of regressions: modes against other programs, awkward data, simulated data."""

from __future__ import annotations

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special

import starlings as st
from starlings.models.families import family_of
from starlings.models.families.problem import regression_problem
from starlings.models.priors import DataScale, regression_prior
from starlings.problem.columns import RowError
from starlings.solvers.pooled.mode import local_mode

LABELS = ("Intercept", "a", "b")
CUTS = (0.4, 1.1)
ROWS = 200


def rows_of(name, seed=0):
    """Rows of a family, with offsets and weights."""
    rng = np.random.default_rng(seed)
    family = family_of(name, **SETTINGS.get(name, {}))
    x = np.column_stack([np.ones(ROWS), rng.normal(size=ROWS), rng.integers(0, 2, ROWS)])
    x = x if family.takes_intercept else x[:, 1:]
    own = {"sigma": 0.7, "scale": 0.7, "shape": 2.0, "dispersion": 0.5}
    vectors = {"cutpoints": np.array([-1.0, 0.8]), "log_hazard": np.array([-0.5, 0.4, 0.2])}
    p = {k: {**own, **vectors}[k] for k in family.parameters()}
    columns = {"offset": rng.normal(size=ROWS) / 3, "weight": rng.integers(1, 4, ROWS)}
    if name == "binomial":
        columns["trials"] = rng.integers(1, 9, ROWS)
    eta = x @ np.array([0.3, 0.8, -0.5])[-x.shape[1] :] + columns["offset"]
    y = family.draw(rng, p, eta, columns)
    if "event" in family.row_columns:
        end = rng.exponential(2.0, ROWS)
        columns["event"], y = (y < end).astype(float), np.minimum(y, end)
    return family, {"x": x, "y": y, **columns}


SETTINGS = {"ordinal": {"levels": ("low", "mid", "high")}, "piecewise_exponential": {"cuts": CUTS}}


def problem_of(family, rows, priors=None, sites=3):
    labels = LABELS[-rows["x"].shape[1] :]
    x, y = rows["x"], rows["y"]
    scale = DataScale(x.mean(0), x.std(0), float(y.mean()), float(y.std()))
    prior = regression_prior(family, labels, scale, priors)
    shards = {f"s{k}": {c: v[k::sites] for c, v in rows.items()} for k in range(sites)}
    return regression_problem(shards, labels, family, prior)


def flat_mode(family, rows):
    """The named parameters at the mode under flat priors of the named parameters."""
    names = (*LABELS[-rows["x"].shape[1] :], *family.parameters())
    problem = problem_of(family, rows, dict.fromkeys(names, "flat()"))
    with jax.enable_x64(True):
        shard = {c: jnp.asarray(v) for c, v in problem.pooled().shards["pooled"].items()}

        def objective(z):
            prior = problem.log_prior(z) - problem.parameters.log_determinant(z)
            return -jnp.sum(problem.log_likelihoods(z, shard)) - prior

        functions = [jax.jit(f) for f in (objective, jax.grad(objective), jax.hessian(objective))]
        value, slope, curvature = functions
        start = np.zeros(problem.dim)
        found = scipy.optimize.minimize(
            value, start, jac=slope, hess=curvature, method="trust-exact"
        )
    assert np.abs(found.jac).max() < 1e-4
    return problem.constrain(found.x)


def by_least_squares(rows):
    w, r = rows["weight"], rows["y"] - rows["offset"]
    beta = np.linalg.solve((rows["x"].T * w) @ rows["x"], (rows["x"].T * w) @ r)
    return {"beta": beta, "sigma": np.sqrt(np.average((r - rows["x"] @ beta) ** 2, weights=w))}


def by_reweighting(rows, nu=4.0):
    beta, scale, r = np.zeros(3), 1.0, rows["y"] - rows["offset"]
    for _ in range(500):
        own = rows["weight"] * (nu + 1) / (nu + ((r - rows["x"] @ beta) / scale) ** 2)
        beta = np.linalg.solve((rows["x"].T * own) @ rows["x"], (rows["x"].T * own) @ r)
        scale = np.sqrt(np.sum(own * (r - rows["x"] @ beta) ** 2) / rows["weight"].sum())
    return {"beta": beta, "scale": scale}


def by_glm(rows, family, **options):
    import statsmodels.api as sm

    y = rows["y"]
    if "trials" in rows:
        y = np.column_stack([y, rows["trials"] - y])
    given = {"offset": rows["offset"], "freq_weights": rows["weight"], **options}
    return {"beta": sm.GLM(y, rows["x"], family(sm.families), **given).fit(tol=1e-12).params}


def by_gamma_glm(rows):
    found = by_glm(rows, lambda f: f.Gamma(f.links.Log()))
    ratio = rows["y"] / np.exp(rows["x"] @ found["beta"] + rows["offset"])
    gap = np.average(ratio - np.log(ratio) - 1, weights=rows["weight"])
    equation = lambda k: np.log(k) - scipy.special.digamma(k) - gap  # noqa: E731
    return {**found, "shape": scipy.optimize.brentq(equation, 1e-2, 1e3, xtol=1e-12)}


def repeated(rows):
    """Rows as often as their weights say, for programs without weights."""
    return {c: np.repeat(v, rows["weight"], axis=0) for c, v in rows.items() if c != "weight"}


def by_negative_binomial(rows):
    import statsmodels.api as sm

    long = repeated(rows)
    model = sm.NegativeBinomial(long["y"], long["x"], offset=long["offset"])
    found = model.fit(disp=0, maxiter=500, gtol=1e-9).params
    return {"beta": found[:-1], "dispersion": found[-1]}


def by_ordered_model(rows):
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    long = repeated(rows)
    model = OrderedModel(long["y"], long["x"], offset=long["offset"], distr="logit")
    found = model.fit(method="bfgs", disp=0, gtol=1e-8, maxiter=500).params
    return {"beta": found[:2], "cutpoints": model.transform_threshold_params(found)[1:-1]}


def by_lifelines(rows):
    import lifelines
    import pandas as pd

    table = pd.DataFrame(rows["x"][:, 1:], columns=["a", "b"])
    table["weight"], table["event"] = rows["weight"], rows["event"]
    table["time"] = rows["y"] * np.exp(-rows["offset"])  # an offset of log times, without one
    fitter = lifelines.WeibullAFTFitter()
    fitter.fit(table, "time", "event", weights_col="weight", fit_options={"gtol": 1e-9})
    own = fitter.params_
    beta = [own["lambda_"][name] for name in ("Intercept", "a", "b")]
    return {"beta": beta, "shape": np.exp(own["rho_"]["Intercept"])}


def by_poisson_glm_of_episodes(rows):
    """Each row once for each interval that it has lived in, with the time in it as exposure."""
    import statsmodels.api as sm

    edges, parts = (0.0, *CUTS, np.inf), []
    for k, (start, end) in enumerate(itertools.pairwise(edges)):
        here = rows["y"] > start
        y = rows["event"][here] * (rows["y"][here] <= end)
        watched = np.minimum(rows["y"][here], end) - start
        x = np.column_stack([rows["x"][here], np.zeros((here.sum(), 3))])
        x[:, 2 + k] = 1.0
        parts.append((y, x, rows["offset"][here] + np.log(watched), rows["weight"][here]))
    y, x, offset, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    model = sm.GLM(y, x, sm.families.Poisson(), offset=offset, freq_weights=weight)
    found = model.fit(tol=1e-12).params
    return {"beta": found[:2], "log_hazard": found[2:]}


OTHERS = {
    "gaussian": by_least_squares,
    "poisson": lambda rows: by_glm(rows, lambda f: f.Poisson()),
    "student_t": by_reweighting,
    "logistic": lambda rows: by_glm(rows, lambda f: f.Binomial()),
    "binomial": lambda rows: by_glm(rows, lambda f: f.Binomial()),
    "gamma": by_gamma_glm,
    "negative_binomial": by_negative_binomial,
    "ordinal": by_ordered_model,
    "weibull": by_lifelines,
    "piecewise_exponential": by_poisson_glm_of_episodes,
}


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", OTHERS)
def test_modes_under_flat_priors_are_those_of_other_programs(name):
    family, rows = rows_of(name)
    found = flat_mode(family, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # theirs
        expected = OTHERS[name](rows)
    assert set(found) == set(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["binomial", "poisson"])
def test_derivatives_with_offsets_and_weights_are_those_of_automatic_differentiation(name):
    problem = problem_of(*rows_of(name))
    with jax.enable_x64(True):
        likelihood, z = problem.log_likelihoods, jnp.array([0.2, -0.4, 0.1])
        assert likelihood.has_derivatives
        rows = {c: jnp.asarray(v) for c, v in problem.shards["s1"].items()}
        own = jnp.asarray(np.random.default_rng(0).integers(0, 2, len(rows["y"])), float)

        @jax.jit
        def both(z):
            total = lambda z: own @ likelihood(z, rows)  # noqa: E731
            expected = (total(z), jax.grad(total)(z), jax.hessian(total)(z))
            return likelihood.derivatives(z, rows, own), expected

        for found, expected in zip(*both(z), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.quick(2)
@pytest.mark.parametrize("name", ["logistic", "poisson", "negative_binomial", "ordinal"])
def test_awkward_outcomes_have_a_finite_mode_with_default_priors(name):
    family, rows = rows_of(name)
    del rows["weight"], rows["offset"]
    separable = np.where(rows["x"][:, -2] > 0, 1.0, 0.0)
    outcomes = {"logistic": separable, "ordinal": 2 * separable}
    rows["y"] = outcomes.get(name, np.zeros(ROWS))
    mode = local_mode(problem_of(family, rows)).point
    assert np.isfinite(mode).all()
    assert np.abs(mode).max() < 30


def test_known_noise_is_quadratic_and_other_priors_are_not():
    family, rows = family_of("gaussian", noise_std=0.7), rows_of("gaussian")[1]
    problem = problem_of(family, rows)
    assert problem.is_quadratic
    assert problem.quadratic is not None
    assert not problem_of(family, rows, {"a": "laplace(0, 1)"}).is_quadratic


@pytest.mark.parametrize("name", ["ordinal", "piecewise_exponential"])
def test_an_intercept_beside_others_is_refused(name):
    family, rows = rows_of(name)
    rows["x"] = np.column_stack([np.ones(ROWS), rows["x"]])
    with pytest.raises(ValueError, match="leave the column 'Intercept' out"):
        problem_of(family, rows)


def test_a_row_that_cannot_be_is_named_with_its_site():
    family, rows = rows_of("weibull")
    rows["event"][4] = 2.0
    with pytest.raises(RowError, match=r"`event` must be 0 or 1 .*got 2 \(site 's1'\) in row 1"):
        problem_of(family, rows)


@pytest.mark.parametrize("name", ["weibull", "ordinal"])
def test_data_are_simulated_from_the_prior(name):
    family, rows = rows_of(name)
    del rows["weight"]
    truth, simulated = st.models.simulate(problem_of(family, rows), np.random.default_rng(3))
    assert set(truth) == {"beta", *family.parameters()}
    for shard in simulated.shards.values():
        family.check({c: v for c, v in shard.items() if c != "x"})
    if name == "weibull":
        y, event = (
            np.concatenate([s[c] for s in simulated.shards.values()]) for c in ("y", "event")
        )
        observed = np.concatenate([rows["y"][k::3] for k in range(3)])
        assert np.all(np.where(event == 1, y <= observed, y == observed))


def test_rows_with_weights_are_not_simulated():
    with pytest.raises(ValueError, match="a `weight` cannot be simulated"):
        st.models.simulate(problem_of(*rows_of("poisson")), np.random.default_rng(0))
