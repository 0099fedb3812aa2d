"""Densities, derivatives, means and draws of every family."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from scipy.special import expit

from starlings.models.families import FAMILIES, family_of
from starlings.models.families.family import PredictorFamily
from starlings.models.families.ordered import Ordered
from starlings.problem.columns import RowError
from tests.families.cases import CASES, CUTPOINTS, CUTS, ETA, LEVELS, LOG_HAZARD, ordinal_law

COUNTED = ("poisson", "negative_binomial", "nearly poisson")
DISCRETE = {"logistic": 2, "binomial": 6, "ordinal": 4, **dict.fromkeys(COUNTED, 400)}
PREDICTORS = [name for name, case in CASES.items() if isinstance(case.family, PredictorFamily)]


def log_density(name, eta, **columns):
    """The log-likelihood of rows of a case, with other columns than its own."""
    case = CASES[name]
    return case.family.row_log_likelihood(case.own, eta, {**case.columns, **columns})


def cumulative_hazard(time):
    """Of the piecewise exponential case at eta = 0, one interval after the other."""
    edges, total = (0.0, *CUTS, np.inf), 0.0
    for start, end, value in zip(edges, edges[1:], LOG_HAZARD, strict=False):
        total += np.exp(value) * max(0.0, min(time, end) - start)
    return total


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.law is not None])
def test_densities_are_those_of_scipy(name):
    case = CASES[name]
    law, y = case.law(ETA), case.columns["y"]
    if name in DISCRETE:
        expected = law.logpmf(y)
    else:
        expected = np.where(case.columns.get("event", 1) == 1, law.logpdf(y), law.logsf(y))
    np.testing.assert_allclose(log_density(name, ETA), expected, rtol=1e-11, atol=1e-12)


def test_densities_that_scipy_lacks():
    hazard = np.exp(LOG_HAZARD[[0, 0, 0, 1, 2]] + ETA)  # a time at a cut is in the interval before
    y, event = (CASES["piecewise_exponential"].columns[c] for c in ("y", "event"))
    total = np.array([cumulative_hazard(time) for time in y]) * np.exp(ETA)
    found = log_density("piecewise_exponential", ETA)
    np.testing.assert_allclose(found, event * np.log(hazard) - total, rtol=1e-12)
    expected = [ordinal_law(e).logpmf(k) for e, k in zip(ETA, (0, 1, 2, 3, 3), strict=True)]
    np.testing.assert_allclose(log_density("ordinal", ETA), expected, rtol=1e-12)
    own = CASES["ordinal"].family.probabilities(CASES["ordinal"].own, ETA)
    np.testing.assert_allclose(own[2], ordinal_law(0.0).pmf(range(4)), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_probabilities_sum_to_one_and_have_the_mean(name):
    case, eta = CASES[name], 0.4
    whole = {"trials": np.full(1, 5)} if name == "binomial" else {}
    whole |= {"event": np.ones(1)} if "event" in case.columns else {}

    def moments(y):
        y = np.asarray(y, float)
        extra = {key: np.broadcast_to(value, y.shape) for key, value in whole.items()}
        density = np.exp(log_density(name, np.full(y.shape, eta), y=y, **extra))
        return density, y * density

    if name in DISCRETE:
        total, mean = (part.sum() for part in moments(np.arange(DISCRETE[name])))
    else:
        edges = [-np.inf, 0.0, np.inf] if name in ("gaussian", "student_t") else [0, *CUTS, np.inf]
        pieces = [
            [scipy.integrate.quad(lambda t, k=k: moments([t])[k][0], a, b)[0] for k in (0, 1)]
            for a, b in itertools.pairwise(edges)
        ]
        total, mean = np.sum(pieces, axis=0)
    np.testing.assert_allclose(total, 1.0, rtol=1e-7)
    np.testing.assert_allclose(case.family.mean(case.own, [eta], whole), [mean], rtol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_mean_and_the_density(name):
    case, rng, count = CASES[name], np.random.default_rng(1), 20_000
    p = {key: np.broadcast_to(v, (count, *np.shape(v))) for key, v in case.own.items()}
    eta = np.broadcast_to(ETA, (count, len(ETA)))
    drawn = case.family.draw(rng, p, eta, case.columns)
    mean = case.family.mean(p, eta, case.columns)
    assert drawn.shape == mean.shape == eta.shape
    error = drawn.std(0) / np.sqrt(count)
    assert np.abs((drawn.mean(0) - mean[0]) / error).max() < 4.5
    if name in DISCRETE:
        cells = np.arange(min(DISCRETE[name], 12))
        own = np.stack([np.exp(log_density(name, ETA, y=np.full(5, k))) for k in cells])
        shares = np.stack([(drawn == k).mean(0) for k in cells])
        spread = np.sqrt(np.maximum(own * (1 - own), 1e-12) / count)
        if name == "binomial":  # no more successes than trials
            own[cells[:, None] > case.columns["trials"]] = 0.0
        assert np.all(np.abs(shares - own) < 4.5 * spread + 1e-6)
    elif case.law is not None:
        chances = case.law(ETA).cdf(drawn)
        assert np.abs(chances.mean(0) - 0.5).max() < 4.5 / np.sqrt(12 * count)
        assert np.abs((chances**2).mean(0) - 1 / 3).max() < 4.5 * np.sqrt(4 / 45 / count)
    else:
        survival = np.exp(-np.array([cumulative_hazard(t) for t in drawn[:, 2]]))
        assert scipy.stats.kstest(survival, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("name", PREDICTORS)
def test_derivatives_by_eta_are_those_of_automatic_differentiation(name):
    case = CASES[name]

    @jax.jit
    @jax.vmap
    def both(eta, row):
        at = jax.grad(lambda t: case.family.of_predictor(t, row)[0])
        return case.family.of_predictor(eta, row)[1:], (at(eta), jax.grad(at)(eta))

    with jax.enable_x64(True):
        known, automatic = both(jnp.asarray(ETA), case.columns)
    np.testing.assert_allclose(known, automatic, rtol=1e-10)


@pytest.mark.parametrize("x64", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_finite_far_out(name, x64):
    case = CASES[name]
    constants = {key: np.asarray(value) for key, value in case.own.items()}
    family = case.family
    blocks = family.parameters()

    def total(z, eta, row):
        p = {key: blocks[key].bijection(part) for key, part in z.items()}
        return family.log_density(p, eta, row)

    with jax.enable_x64(x64):
        slopes = jax.jit(jax.vmap(jax.value_and_grad(total, argnums=(0, 1)), (None, None, 0)))
        for move in (-25.0, 0.0, 25.0):
            z = {
                key: move + jnp.asarray(blocks[key].bijection._inverse(value))
                for key, value in constants.items()
            }
            for eta in (-1000.0, -100.0, 100.0, 1000.0):
                found = slopes(z, jnp.asarray(eta), case.columns)
                assert all(np.isfinite(part).all() for part in jax.tree.leaves(found))


def test_single_precision_has_the_digits_that_it_can():
    for name, case in CASES.items():
        p = {key: np.float32(value) for key, value in case.own.items()}
        with jax.enable_x64(False):
            rows = {c: jnp.asarray(v, np.float32) for c, v in case.columns.items()}
            found = jax.jit(case.family.log_density)(p, jnp.asarray(ETA, np.float32), rows)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, log_density(name, ETA), rtol=3e-5, atol=3e-5)


def test_a_negative_binomial_without_dispersion_is_poisson():
    family, y = family_of("negative_binomial"), np.array([0.0, 3.0, 40.0])
    found = family.row_log_likelihood({"dispersion": 1e-12}, np.log([2.0, 2.0, 30.0]), {"y": y})
    np.testing.assert_allclose(found, scipy.stats.poisson([2.0, 2.0, 30.0]).logpmf(y), rtol=1e-10)


def test_ordered_numbers_have_the_log_determinant():
    with jax.enable_x64(True):
        z = jnp.array([0.3, -1.0, 2.0, 0.1])
        c = Ordered()(z)
        assert np.all(np.diff(c) > 0)
        np.testing.assert_allclose(Ordered()._inverse(c), z, rtol=1e-12)
        expected = np.linalg.slogdet(jax.jacobian(Ordered())(z))[1]
        np.testing.assert_allclose(Ordered().log_abs_det_jacobian(z, c), expected, rtol=1e-12)


def test_parameters_broadcast_over_draws():
    case = CASES["ordinal"]
    p = {"cutpoints": CUTPOINTS + np.arange(6.0).reshape(3, 2, 1)}
    eta = ETA + np.zeros((3, 2, 1))
    found = case.family.row_log_likelihood(p, eta, {**case.columns, "weight": np.full(5, 2.0)})
    one = case.family.row_log_likelihood({"cutpoints": CUTPOINTS + 3.0}, ETA, case.columns)
    np.testing.assert_allclose(found[1, 1], 2 * one)
    np.testing.assert_allclose(
        case.family.mean(p, eta, case.columns)[1, 1],
        expit(ETA[:, None] - CUTPOINTS - 3.0).sum(1),
    )


BAD = [
    ("logistic", {"y": [0, 2]}, "`died` must be 0 or 1, got 2 in row 1"),
    ("poisson", {"y": [0, -1]}, r"must be a count \(0, 1, 2, ...\), got -1"),
    ("negative_binomial", {"y": [0.5]}, "must be a count"),
    (
        "binomial",
        {"y": [1, 4], "trials": [2, 3]},
        "`trials` must be at least the successes in `died`",
    ),
    ("binomial", {"y": [1]}, "needs a column `trials`"),
    ("gamma", {"y": [1.0, 0.0]}, "must be positive .*got 0 in row 1"),
    ("weibull", {"y": [0.0], "event": [1]}, "must be a positive time"),
    ("weibull", {"y": [1.0], "event": [2]}, "`event` must be 0 or 1 "),
    ("ordinal", {"y": [0, 4]}, "one of the codes 0 to 3 .*'none'.*got 4"),
    ("gaussian", {"y": ["a"]}, "`died` has entries that are not numbers"),
    ("gaussian", {"y": [np.nan]}, "`died` has missing or infinite values"),
    ("gaussian", {"y": [1.0], "event": [1]}, "`event` is for the family weibull"),
    ("poisson", {"y": [1], "weight": [-1.0]}, "`weight` must be 0 or positive"),
]


@pytest.mark.parametrize(("name", "columns", "message"), BAD)
def test_outcomes_that_cannot_be_are_refused(name, columns, message):
    rows = {key: np.array(value) for key, value in columns.items()}
    with pytest.raises(ValueError, match=message) as caught:
        CASES[name].family.check(rows, {"y": "died"})
    assert isinstance(caught.value, RowError) == str(caught.value).endswith(
        "; rows are counted from 0."
    )


def test_settings_are_checked():
    for text, call in {
        "Did you mean 'poisson'": lambda: family_of("poison"),
        "Did you mean 'degrees_of_freedom'": lambda: family_of("student_t", degrees_freedom=3),
        "needs the setting `cuts`, times": lambda: family_of("piecewise_exponential"),
        "has no `levels`": lambda: family_of("ordinal").parameters(),
        "ascending order": lambda: family_of("piecewise_exponential", cuts=[2, 1]),
        "two different names": lambda: family_of("ordinal", levels="ab"),
        "which has none": lambda: family_of("poisson", levels=LEVELS),
    }.items():
        with pytest.raises(ValueError, match=text):
            call()


def test_families_can_be_made_again_from_their_settings():
    assert family_of("ordinal").with_levels(LEVELS) == CASES["ordinal"].family
    for case in CASES.values():
        again = family_of(case.family.name, **case.family.settings)
        assert again == case.family
        assert hash(again) == hash(case.family)
    assert {case.family.name for case in CASES.values()} == set(FAMILIES)
