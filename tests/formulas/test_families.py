"""Every family can be the outcome of a formula, and its likelihood is that of the family."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.errors import FormulaError
from starlings.models import family_of

CASES = {
    "student_t": ("x ~ w", {}),
    "binomial": ("k / m ~ w", {}),
    "poisson": ("k ~ w", {"offset": "x", "weights": "t"}),
    "negative_binomial": ("k ~ w", {}),
    "gamma": ("t ~ w", {}),
    "weibull": ("survival(t, e) ~ w", {}),
    "piecewise_exponential": ("survival(t, e) ~ w", {"cuts": [0.5, 1.0]}),
    "ordinal": ("o ~ w", {"levels": {"o": ["none", "mild", "bad"]}}),
}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng, n = np.random.default_rng(0), 60
    table = pd.DataFrame({"h": rng.choice(list("ab"), n), "w": rng.choice(list("pqr"), n)})
    table["x"], table["t"] = rng.normal(size=n), rng.exponential(size=n)
    table["e"], table["k"] = rng.random(n) < 0.7, rng.poisson(2, n)
    table["m"], table["o"] = table["k"] + 3, rng.choice(["none", "mild", "bad"], n)
    return table


@pytest.mark.parametrize("name", CASES)
def test_a_formula_has_the_likelihood_of_its_family(name, table):
    text, said = CASES[name]
    problem = st.regression(text, table, "h", name, **said)
    settings = problem.description["regression"]["family_settings"]
    family, z = family_of(name, **settings), np.full(problem.dim, 0.1)
    p = problem.constrain(z)
    rows = table.sort_values("h", kind="stable")
    outcome = {"x": "x", "k": "k", "t": "t", "o": "o"}[text.split("(")[-1][0]]
    y = rows[outcome].map({"none": 0, "mild": 1, "bad": 2}) if outcome == "o" else rows[outcome]
    columns = {"y": y.to_numpy(float)}
    if name == "binomial":
        columns["trials"] = rows["m"].to_numpy(float)
    if "event" in family.row_columns:
        columns["event"] = rows["e"].to_numpy(float)
    if "weights" in said:
        columns["weight"] = rows["t"].to_numpy()
    x = np.column_stack([rows["w"] == level for level in "qr"]).astype(float)
    if family.takes_intercept:
        x = np.column_stack([np.ones(len(x)), x])
    eta = x @ p["beta"] + (rows["x"].to_numpy() if "offset" in said else 0.0)
    expected = family.row_log_likelihood(p, eta, columns).sum()
    with jax.enable_x64(True):
        found = -problem.potential(z) - float(problem.log_prior(jnp.asarray(z)))
    assert found == pytest.approx(expected, rel=1e-9)


def test_outcomes_with_an_order_need_it_to_be_said(table):
    with pytest.raises(FormulaError, match="whose order matters"):
        st.regression("o ~ w", table, "h", "ordinal")
    problem = st.regression("k ~ w", table, "h", "ordinal")
    levels = problem.description["regression"]["family_settings"]["levels"]
    assert list(levels) == sorted(levels, key=float)
    with pytest.raises(FormulaError, match="has its own intercept"):
        st.regression("k ~ 1", table, "h", "ordinal")
