"""Predictions, contrasts and effects of draws whose answers have a closed form."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.formulas import Encoding
from starlings.results.answers import prediction
from tests.answers.made import SITES, made

LABELS = ["intercept", "age", "smoker"]
MEAN = np.array([1.0, 0.5, -2.0])
FACTOR = np.array([[0.3, 0.0, 0.0], [0.1, 0.2, 0.0], [-0.1, 0.1, 0.4]])
SIGMA = 1.5
NEW = pd.DataFrame({"smoker": [0, 1, 1], "age": [0.0, 1.0, -2.0]}, index=["a", "b", "c"])
X = np.column_stack([np.ones(3), NEW["age"], NEW["smoker"]])
DRAWS = 4000
ERROR = 4 / np.sqrt(DRAWS)
"""Four Monte Carlo standard errors of a mean, in sd."""


@pytest.fixture(scope="module")
def beta() -> np.ndarray:
    """Independent draws from N(MEAN, FACTOR FACTOR')."""
    return MEAN + np.random.default_rng(1).normal(size=(4, DRAWS // 4, 3)) @ FACTOR.T


def of(beta, outcome, **settings):
    model = {"kind": "regression", "outcome": outcome, **settings}
    return made({"beta": (beta, LABELS)}, model)


def test_a_linear_regression_predicts_its_closed_form(beta):
    """x'beta ~ N(x'm, x'Vx), and an outcome has sigma^2 more variance."""
    result = of(beta, "Normal", noise_std=SIGMA)
    mean, outcome = result.predict(NEW, prob=0.8), result.predict(NEW, kind="outcome", prob=0.8)
    assert list(mean.index) == list(outcome.index) == ["a", "b", "c"]
    assert list(mean.columns) == ["mean", "sd", "10%", "50%", "90%"]
    sd = np.linalg.norm(X @ FACTOR, axis=1)
    for table, spread in ((mean, sd), (outcome, np.hypot(sd, SIGMA))):
        assert (abs(table["mean"] - X @ MEAN) < ERROR * spread).all()
        np.testing.assert_allclose(table["sd"], spread, rtol=ERROR)
        np.testing.assert_allclose((table["90%"] - X @ MEAN) / spread, 1.2816, atol=2 * ERROR)
    assert (abs(outcome["mean"] - mean["mean"]) > 0).all()
    pd.testing.assert_frame_equal(outcome, result.predict(NEW, "outcome", 0.8))


def test_blocks_and_fewer_draws_change_nothing_but_the_error(beta, monkeypatch):
    result = of(beta, "Bernoulli")
    whole = result.predict(NEW)
    monkeypatch.setattr(prediction, "BLOCK_NUMBERS", DRAWS)  # one row at a time
    pd.testing.assert_frame_equal(result.predict(NEW), whole)
    few = result.predict(NEW, draws=400)
    assert (abs(few["mean"] - whole["mean"]) < 4 * whole["sd"] / np.sqrt(400)).all()
    with pytest.raises(ValueError, match="`draws` must be a whole number of at least 1, got 0"):
        result.predict(NEW, draws=0)


def test_predictions_of_counts_have_their_offset(beta):
    """exp(x'beta) is log-normal: its mean is exp(x'm + x'Vx / 2)."""
    result = of(beta * 0.3, "Poisson")
    variance = (X @ FACTOR * 0.3) ** 2 @ np.ones(3)
    exact = np.exp(0.3 * X @ MEAN + variance / 2)
    plain = result.predict(NEW)
    assert (abs(plain["mean"] - exact) < ERROR * plain["sd"]).all()
    moved = result.predict(NEW.assign(offset=np.log(10.0)))
    np.testing.assert_allclose(moved["mean"], 10 * plain["mean"], rtol=1e-12)
    outcomes = result.predict(NEW, "outcome")
    spread = np.sqrt(plain["sd"] ** 2 + plain["mean"])
    np.testing.assert_allclose(outcomes["sd"], spread, rtol=0.1)


def test_contrasts_and_effects_of_a_linear_regression_are_its_coefficients(beta):
    result = of(beta, "Normal", noise_std=SIGMA)
    table = result.contrasts(NEW, {"age": [1.0, 3.0, 0.0]})
    assert list(table.index) == ["age = 3.0 minus age = 1.0", "age = 0.0 minus age = 1.0"]
    slope = beta[..., 1]
    np.testing.assert_allclose(table["mean"], [2 * slope.mean(), -slope.mean()], rtol=1e-9)
    np.testing.assert_allclose(table["sd"], [2 * slope.std(), slope.std()], rtol=1e-9)
    effects = result.effects(NEW)
    assert list(effects.index) == ["age: slope", "smoker: slope"]
    np.testing.assert_allclose(effects["mean"], beta.reshape(-1, 3).mean(0)[1:], rtol=1e-6)
    both = result.contrasts({"age": 0, "smoker": 0}, [{"smoker": 0}, {"smoker": 1, "age": 1}])
    exact = (beta[..., 1] + beta[..., 2]).mean()
    np.testing.assert_allclose(both["mean"], [exact], rtol=1e-9)


def test_a_contrast_of_probabilities_is_averaged_over_the_rows_for_every_draw(beta):
    result = of(beta, "Bernoulli")
    flat = beta.reshape(-1, 3)

    def share(smoker):
        x = np.column_stack([np.ones(3), NEW["age"], np.full(3, smoker)])
        return (1 / (1 + np.exp(-flat @ x.T))).mean(axis=1)

    table = result.contrasts(NEW, {"smoker": [0, 1]}, ratio=True)
    assert list(table.index) == ["smoker = 1 relative to smoker = 0"]
    np.testing.assert_allclose(table["50%"], np.median(share(1) / share(0)), rtol=1e-9)
    eta = flat @ X.T
    slopes = (flat[:, [1]] / (2 + np.exp(eta) + np.exp(-eta))).mean(axis=1)
    effects = result.effects(NEW, ["age"])
    np.testing.assert_allclose(effects["mean"], [slopes.mean()], rtol=1e-5)


def test_what_cannot_be_predicted_says_why(beta):
    result = of(beta, "Bernoulli")
    with pytest.raises(ValueError, match=r"new rows .* 'smoker' is missing. Did you mean 'smo"):
        result.predict({"age": [1.0], "smoke": [1]})
    with pytest.raises(ValueError, match="finite numbers in the column 'age'"):
        result.predict({"age": np.nan, "smoker": 1})
    with pytest.raises(ValueError, match="`kind` must be"):
        result.predict(NEW, kind="median")
    with pytest.raises(ValueError, match=r"`settings` must map .* got \{'smoker': \[1\]\}"):
        result.contrasts(NEW, {"smoker": [1]})
    with pytest.raises(ValueError, match=r"covariates \['age', 'smoker'\], got 'ages'"):
        result.effects(NEW, ["ages"])
    with pytest.raises(ValueError, match="not of a regression of starlings"):
        made({"theta": (beta, None)}, {}).predict(NEW)


FORMULA = Encoding(
    formula="age + C(ward)",
    outcome="cost",
    random="1 + age",
    offset="known",
    kinds={"age": "number", "ward": "category"},
    levels={"ward": ("A", "B")},
    labels=("Intercept", "age", "C(ward)[T.B]"),
    random_labels=("Intercept", "age"),
    means=(1.0, 60.0, 0.5),
    scales=(0.0, 10.0, 0.5),
)
PATIENTS = pd.DataFrame({"age": [2.0, -1.0], "ward": ["B", "A"], "known": [0.0, 10.0]})
EFFECTS = np.array([[1.0, 0.0], [0.0, -2.0], [3.0, 1.0]])
"""Effects of the three sites, which are known."""


def test_a_named_site_has_its_own_effects_and_a_new_one_those_of_a_law(beta):
    """Of a new site, x'beta + r'u has the variance x'Vx + r'Sr with S the covariance of sites."""
    sd, correlation = np.array([0.7, 0.2]), np.array([[1.0, -0.6], [-0.6, 1.0]])
    lead = beta.shape[:2]
    parameters = {
        "beta": (beta, list(FORMULA.labels)),
        "site_effect": (np.broadcast_to(np.zeros(2), (*lead, 2)), None),
        "sd_site": (np.broadcast_to(sd, (*lead, 2)), None),
        "correlation_site": (np.broadcast_to(correlation, (*lead, 2, 2)), None),
        "sigma": (np.full(lead, SIGMA), None),
    }
    about = {"encoding": FORMULA.as_json(), "family": "gaussian", "family_settings": {}}
    plain = made(parameters, json.loads(json.dumps({"kind": "regression", "regression": about})))
    tree = plain.tree.copy()
    effects = np.broadcast_to(EFFECTS, (*lead, 3, 2))
    tree["posterior"] = (
        tree["posterior"]
        .to_dataset()
        .assign(site_effect=(("chain", "draw", "agent", "site_effect_dim_0"), effects))
    )
    result = st.Result(tree)
    x = np.array([[1.0, 2.0, 1.0], [1.0, -1.0, 0.0]])
    exact, spread = x @ MEAN + [0.0, 10.0], np.linalg.norm(x @ FACTOR, axis=1)
    for site, own in zip(SITES, EFFECTS, strict=True):
        table = result.predict(PATIENTS, site=site)
        error = ERROR * spread
        assert (abs(table["mean"] - exact - x[:, :2] @ own) < error).all()
        np.testing.assert_allclose(table["sd"], spread, rtol=ERROR)
    of_sites = np.einsum("ri,ij,rj->r", x[:, :2], sd[:, None] * correlation * sd, x[:, :2])
    table, whole = result.predict(PATIENTS), np.sqrt(spread**2 + of_sites)
    assert (abs(table["mean"] - exact) < ERROR * whole).all()
    np.testing.assert_allclose(table["sd"], whole, rtol=ERROR)
    with pytest.raises(ValueError, match=r"`site` must be one of .* got 'nort'\. Did you mean"):
        result.predict(PATIENTS, site="nort")
    effects_of_ward = result.effects(PATIENTS, ["ward"])
    assert list(effects_of_ward.index) == ["ward: B minus A"]
    assert effects_of_ward["mean"].iloc[0] == pytest.approx(beta[..., 2].mean(), rel=1e-9)
