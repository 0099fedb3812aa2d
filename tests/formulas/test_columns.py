"""The columns of X are those that formulaic makes of the pooled rows, though nobody pools them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from formulaic import model_matrix

from starlings.errors import FormulaError
from starlings.formulas import Encoding
from tests.formulas.tables import agreed, rows

SAME = [
    "y ~ age + ward",
    "y ~ age + C(ward) + age:smoker",
    "y ~ 0 + ward + age",
    "y ~ ward * smoker - 1",
    "y ~ ward:smoker + age",
    "y ~ C(`days in bed`) + age:log(`days in bed` + 1)",
    "y ~ C(ward, Treatment('B')) * age",
    "y ~ C(ward, levels=['D', 'C', 'B', 'A'])",
    "y ~ I(age**2) + I(age > 60) + exp(-age / 10) + I(-(age - 1) * 2)",
    "y ~ center(log(stay + 1)) + scale(age, ddof=0):ward",
    "y ~ poly(age, 3) + poly(stay, 1)",
    "y ~ scale(age, center=False) + poly(center(stay), 2):smoker",
    "y ~ bs(age, knots=[55, 60], lower_bound=0, upper_bound=150)",
    "y ~ bs(age, degree=2, lower_bound=0, upper_bound=150, knots=[50])",
    "y ~ cr(age, knots=[50, 60], lower_bound=0, upper_bound=150, constraints='center')",
    "y ~ (age + ward + smoker)**2",
    "y ~ ward / age",
    "y ~ 1",
]


@pytest.mark.parametrize("text", SAME)
def test_columns_and_their_names_are_those_of_the_pooled_rows(text):
    table = rows()
    encoding = agreed(text, table)
    expected = model_matrix(text, table).rhs
    assert list(encoding.labels) == list(expected.columns)
    np.testing.assert_allclose(
        encoding.design(table), np.asarray(expected, float), rtol=1e-8, atol=1e-10
    )
    scales = np.asarray(expected, float).std(axis=0)
    np.testing.assert_allclose(encoding.scales, scales, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(encoding.means, np.asarray(expected, float).mean(axis=0), atol=1e-9)
    assert encoding.outcome_scale == pytest.approx(table["y"].std(ddof=0))


def test_sums_to_zero_have_the_columns_of_their_definition():
    table = rows()
    x = agreed("y ~ C(ward, Sum)", table).design(table)
    own = {"A": [1, 1, 0, 0], "B": [1, 0, 1, 0], "C": [1, 0, 0, 1], "D": [1, -1, -1, -1]}
    np.testing.assert_array_equal(x, np.array([own[ward] for ward in table["ward"]], float))


@pytest.mark.parametrize(
    ("call", "column"), [("bs(stay, df=6)", "stay"), ("bs(log(age), df=5, degree=2)", "age")]
)
def test_knots_are_pooled_quantiles_as_precisely_as_stated_and_the_fit_is_the_pooled_one(
    call, column
):
    table = rows(600)
    encoding = agreed(f"y ~ {call}", table)
    (state,) = encoding.transforms.values()
    values = np.log(table["age"]) if "log" in call else table[column]
    degree = 2 if "degree" in call else 3
    inner = np.array(state["knots"][degree + 1 : -degree - 1])
    quantiles = np.quantile(values, np.linspace(0, 1, len(inner) + 2)[1:-1])
    nearest = np.diff(np.sort(values)).max()  # a quantile lies between two rows
    assert 0 < state["precision"] < 0.02 * np.ptp(values)
    np.testing.assert_allclose(inner, quantiles, atol=state["precision"] + min(nearest, 0.1))
    assert state["lower_bound"] <= values.min() <= values.max() <= state["upper_bound"]
    # with the same inner knots formulaic spans the same space, whatever its bounds are
    knots = inner.tolist()
    own = call.split(", df")[0] + f", knots={knots}, degree={degree})"
    pooled = np.asarray(model_matrix(f"y ~ {own}", table).rhs, float)
    x = encoding.design(table)
    fits = [m @ np.linalg.lstsq(m, table["y"], rcond=None)[0] for m in (x, pooled)]
    np.testing.assert_allclose(*fits, atol=1e-8)


def test_knots_of_whole_numbers_are_whole_where_the_quantile_is():
    table = rows(900).assign(stay=lambda t: t["stay"].round())
    (state,) = agreed("y ~ bs(stay, df=4)", table).transforms.values()
    assert state["knots"][4] == np.median(table["stay"])


def test_levels_and_references_are_those_that_are_declared():
    table = rows()
    encoding = agreed("y ~ ward", table, levels={"ward": list("BADC")}, reference={"ward": "C"})
    assert encoding.levels["ward"] == ("C", "B", "A", "D")
    assert encoding.labels == ("Intercept", "ward[T.B]", "ward[T.A]", "ward[T.D]")


def test_an_encoding_is_the_same_after_json_and_makes_the_columns_of_new_rows():
    table = rows()
    text = "y ~ ward * smoker + poly(age, 2) + cr(stay, df=4, constraints='center')"
    encoding = agreed(text, table, random="(1 + age | site)", offset="stay")
    again = Encoding.from_json(json.loads(json.dumps(encoding.as_json())))
    assert again == encoding
    new = table.iloc[[3]][["ward", "age", "stay", "smoker"]]
    np.testing.assert_allclose(again.design(new), encoding.design(table)[[3]], rtol=1e-12)
    np.testing.assert_array_equal(again.random_design(new), [[1.0, new["age"].iloc[0]]])
    assert again.random_labels == ("Intercept", "age")
    assert again.random_scales == pytest.approx((0.0, table["age"].std(ddof=0)))
    assert again.is_correlated
    assert not agreed("y ~ 1", table, random="(1 + age || site)").is_correlated
    assert "ward: 4 levels, A, B, C, D" in str(again)
    with pytest.raises(FormulaError, match=r"column 'ward' has Z, and its levels are A, B, C, D"):
        again.design(new.assign(ward="Z"))
    with pytest.raises(FormulaError, match=r"has the value 1000, and the spline was made for"):
        agreed("y ~ bs(stay, df=4)", table).design(new.assign(stay=1000.0))
