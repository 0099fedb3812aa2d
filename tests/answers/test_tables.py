"""The table of the parameters: ratios from the draws, intervals, and exports with hostile names."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from starlings.results.intervals import interval_levels
from starlings.results.markup import escaped_latex
from tests.answers.made import made

LABELS = ["intercept", "age_1 & 5%", "=C(x)[T.a|b]", "<b>\\'\"{}~^$#"]
LOGISTIC = {"kind": "regression", "outcome": "Bernoulli"}


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    noise = np.random.default_rng(0).normal(size=(4, 1000, 4))
    return noise * [0.2, 0.5, 1.0, 0.1] + [1.0, -0.4, 0.0, 2.0]


def test_ratios_are_those_of_the_draws(draws):
    """exp of a normal draw is log-normal: its mean is exp(m + s^2 / 2), and not exp(m)."""
    result = made({"beta": (draws, LABELS), "sigma": (draws[..., 0], None)}, LOGISTIC)
    table, plain = result.summary(exp=True, prob=0.8), result.summary(prob=0.8)
    assert list(table.index) == [f"beta[{label}]" for label in LABELS]
    assert table.attrs["row_heading"] == "odds ratio"
    ratios = np.exp(draws.reshape(-1, 4))
    np.testing.assert_allclose(table["mean"], ratios.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(table["sd"], ratios.std(axis=0), rtol=1e-12)
    ends = np.quantile(ratios, (0.1, 0.5, 0.9), axis=0).T
    np.testing.assert_allclose(table[["10%", "50%", "90%"]], ends, rtol=1e-3)  # interpolation
    mean, sd = np.array([1.0, -0.4, 0.0, 2.0]), np.array([0.2, 0.5, 1.0, 0.1])
    exact = np.exp(mean + sd**2 / 2)
    assert (abs(table["mean"] - exact) < 4 * table["mcse"]).all()
    np.testing.assert_allclose(table["mcse"], ratios.std(axis=0) / np.sqrt(4000), rtol=0.3)
    same = ["rhat", "ess_bulk", "ess_tail", "mean_range"]
    np.testing.assert_array_equal(table[same], plain.loc[table.index, same])


def test_infinite_ratios_of_separable_data(draws):
    table = made({"beta": (draws * 500, LABELS)}, LOGISTIC).summary(exp=True)
    assert np.isinf(table["mean"]).all()
    assert not table[["5%", "50%", "95%"]].isna().any(axis=None)
    assert "nan" not in str(table)


def test_ratios_of_something_else_have_to_be_asked_for(draws):
    result = made({"theta": (draws[..., 0], None)}, {})
    with pytest.raises(ValueError, match=r"`exp=True` needs a regression .* \['theta'\]"):
        result.summary(exp=True)
    mean = result.summary(exp=True, parameters="theta")["mean"].iloc[0]
    assert mean == pytest.approx(np.exp(draws[..., 0]).mean(), rel=1e-12)


def test_the_rows_that_are_asked_for(draws):
    result = made({"beta": (draws, LABELS), "sigma": (draws[..., 0], None)}, LOGISTIC)
    chosen = result.summary(parameters=["beta[intercept]", "sigma"])
    assert list(chosen.index) == ["beta[intercept]", "sigma"]
    with pytest.raises(ValueError, match=r"`parameters` .* got 'sigme'. Did you mean 'sigma'"):
        result.summary(parameters="sigme")
    for wrong in (0.0, 1, 95, "0.9"):
        with pytest.raises(ValueError, match="`prob` must be a probability"):
            result.summary(prob=wrong)
    assert list(interval_levels(0.999)) == ["0.05%", "50%", "99.95%"]


def test_exports_have_all_numbers_and_escape_names(draws, tmp_path):
    result = made({"beta": (draws, LABELS)}, LOGISTIC)
    table = result.summary()
    read = list(csv.reader(result.to_csv().splitlines()))
    assert read[0][:3] == ["parameter", "mean", "sd"]
    assert [row[0] for row in read[1:]] == list(table.index)
    assert [float(row[1]) for row in read[1:]] == table["mean"].tolist()
    records = json.loads(result.to_json(tmp_path / "table.json"))
    assert [record["5%"] for record in records] == table["5%"].tolist()
    assert json.loads((tmp_path / "table.json").read_text()) == records
    markdown = result.to_markdown(exp=True).splitlines()
    assert markdown[0].startswith("| odds ratio | mean | sd | 5 % | 95 % | MCSE |")
    assert all(line.replace("\\|", "").count("|") == 11 for line in markdown)
    assert r"\<b\>" in markdown[-1]


def test_latex_is_what_booktabs_takes(draws, tmp_path):
    result = made({"beta": (draws, LABELS)}, LOGISTIC)
    text = result.to_latex(tmp_path / "table.tex", caption="Odds", label="tab:odds")
    assert (tmp_path / "table.tex").read_text() == text
    lines = text.splitlines()
    assert lines[:4] == [r"\begin{table}", r"\centering", r"\caption{Odds}", r"\label{tab:odds}"]
    assert [line for line in lines if "rule" in line] == [r"\toprule", r"\midrule", r"\bottomrule"]
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert all(line.replace(r"\&", "").count("&") == 9 for line in body)
    assert all(line.endswith(r" \\") for line in body)
    assert body[1].startswith(r"beta{[}age\_1 \& 5\%{]} & $-0.")
    assert escaped_latex("a\\b{c}") == r"a\textbackslash{}b\{c\}"
