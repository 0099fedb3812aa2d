"""What sites compute with their rows: predictive checks, groups for ArviZ, and themselves alone."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.comparison.censoring import Watching
from starlings.models.families import family_of
from starlings.results.kinds import ALONE
from tests.answers.made import SITES, made

ROWS = 300


@pytest.fixture(scope="module")
def problem() -> st.Problem:
    random = np.random.default_rng(3)
    X = pd.DataFrame({"age": random.normal(size=ROWS)})
    y = (random.logistic(size=ROWS) < X["age"] - 1).astype(float)
    return st.models.logistic_regression(X, y, np.repeat(SITES, ROWS // 3))


@pytest.fixture(scope="module")
def result(problem) -> st.Result:
    """Draws from about the posterior, as a result of this problem."""
    draws = np.array([-1.0, 1.0]) + 0.15 * np.random.default_rng(0).normal(size=(2, 150, 2))
    labels = ["intercept", "age"]
    found = made({"beta": (draws, labels)}, dict(problem.description))
    return found


def test_a_check_of_the_right_model_finds_nothing_and_of_a_wrong_one_the_site(problem, result):
    check = st.predictive_check(problem, result)
    assert list(check.table.index) == [f"{site}: share of ones" for site in SITES]
    observed = [rows["y"].mean() for rows in problem.shards.values()]
    assert check.table["observed"].tolist() == observed
    assert check.suspicious.empty
    assert check.calibration.groupby("site")["rows"].sum().tolist() == [100] * 3
    grouped = check.calibration.groupby("site")["observed"].mean()  # groups of equal size
    np.testing.assert_allclose(grouped, observed)
    north = {"x": problem.shards["north"]["x"], "y": np.ones(100)}
    rows = {**problem.shards, "north": north}
    wrong = st.Problem.from_flat(
        problem.log_likelihoods, problem.log_prior, problem.parameters, rows
    )
    found = st.predictive_check(wrong, result).suspicious
    assert found["site"].tolist() == ["north"]
    assert found["tail_probability"].tolist() == [0.0]
    pytest.importorskip("matplotlib")
    (panel,) = check.figure().axes
    assert [label.get_text() for label in panel.get_yticklabels()] == SITES


def test_a_check_of_censored_times_knows_how_long_rows_were_watched():
    """Of the right model, tail probabilities are not small; of one with other hazards they are."""
    random, size = np.random.default_rng(7), 1500
    times = random.exponential(3.0, size)
    until = np.minimum(random.exponential(4.0, size), 5.0)
    rows = {"x": np.ones((size, 1)), "y": np.minimum(times, until)}
    rows["event"] = (times <= until).astype(float)
    family = family_of("piecewise_exponential", cuts=(2.0,))
    parameters = {"beta": st.Parameter((1,), labels=("treated",)), **family.parameters()}
    problem = st.Problem(family, lambda p: 0.0, parameters, {SITES[0]: rows})
    model = {"kind": "regression", "outcome": family.name, **family.settings}
    for hazard, is_right in ((1 / 3, True), (1 / 2, False)):
        hazards = np.log(hazard) + 0.01 * random.normal(size=(2, 100, 2))
        draws = {"beta": (np.zeros((2, 100, 1)), ["treated"]), "log_hazard": (hazards, None)}
        table = st.predictive_check(problem, made(draws, model)).table
        found = table.set_index("statistic")["tail_probability"]
        assert list(found.index)[:3] == ["share with the event", "mean", "sd"]
        assert found["share with the event"] > 0.02 if is_right else found["mean"] == 0.0
        assert (found.min() > 0.005) == is_right


def test_until_when_rows_were_watched_is_the_estimate_of_kaplan_and_meier():
    times, event = np.array([1.0, 2.0, 2.0, 3.0, 4.0]), np.array([1, 0, 0, 1, 0])
    watching = Watching.of(times, event)
    # 4 and 3 rows are watched when one each is censored at 2, and the last one at 4
    np.testing.assert_allclose(watching.law, [1 / 4, 1 / 2, 1.0])
    until = watching.draw(np.random.default_rng(0), 4000)
    assert (until[:, [1, 2, 4]] == times[[1, 2, 4]]).all()
    assert set(until[:, 0]) == {2.0, 4.0}
    assert abs((until[:, 0] == 2.0).mean() - 0.5) < 4 * 0.5 / np.sqrt(4000)
    assert (until[:, 3] == 4.0).all()


def test_arviz_reads_the_groups(problem, result):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        arviz = pytest.importorskip("arviz")
    groups = st.arviz_groups(problem, result)
    likelihood = groups["log_likelihood"]["y"]
    assert likelihood.sizes == {"chain": 2, "draw": 150, "row": ROWS}
    x, y = (np.concatenate([rows[c] for rows in problem.shards.values()]) for c in "xy")
    eta = result.posterior["beta"].isel(agent=0).values @ x.T
    np.testing.assert_allclose(likelihood, y * eta - np.logaddexp(0, eta), rtol=1e-9)
    np.testing.assert_array_equal(groups["observed_data"]["y"], y)
    assert groups["constant_data"]["x"].sel(x_dim_0="age").values.tolist() == x[:, 1].tolist()
    assert set(groups["observed_data"]["site"].values) == set(SITES)
    simulated = groups["posterior_predictive"]["y"].values
    share, error = (1 / (1 + np.exp(-eta))).mean(), np.sqrt(0.25 / simulated.size)
    assert abs(simulated.mean() - share) < 4 * error
    found = arviz.loo(groups)
    elpd = getattr(found, "elpd_loo", getattr(found, "elpd", None))
    network = st.Network(nx.path_graph(3))
    assert elpd == pytest.approx(st.loo(problem, network, result).elpd, abs=0.1)


def test_each_site_alone_has_the_posterior_of_its_rows_and_the_whole_prior(tmp_path):
    random = np.random.default_rng(5)
    X, y = random.normal(size=(60, 1)), random.normal(size=60)
    problem = st.models.linear_regression(X, y, np.repeat(SITES, 20), noise_std=1.0)
    table = st.alone(problem, draws=300)
    assert table["entry"].tolist() == ["beta[intercept]", "beta[x0]"] * 3
    for site, own in table.groupby("site"):
        mean, covariance = problem.of_site(site).exact_posterior()
        sd = np.sqrt(np.diag(covariance))
        assert (abs(own["mean"] - mean) < 0.15 * sd).all()  # 4 errors of 1200 draws
        np.testing.assert_allclose(own["sd"], sd, rtol=0.12)
        np.testing.assert_allclose(own["97.5%"], mean + 1.96 * sd, atol=0.35 * sd.max())
    result = made({"beta": (random.normal(size=(2, 50, 2)), ["intercept", "x0"])}, {})
    kept = st.load(result.with_tables(alone=table).save(tmp_path / "draws.nc"))
    pd.testing.assert_frame_equal(kept.table("alone"), table)
    assert kept.table("calibration") is None
    result.set_attribute("disclosed", {"derivatives": 7})
    told = result.with_tables(alone=table[table["site"] != "west"]).disclosed()
    numbers = told[told["kind"] == ALONE]["numbers"]
    assert numbers.to_dict() == {"north": 14, "south": 14}  # seven of each of two entries
    assert set(result.disclosed()["kind"]) == {"derivatives"}
    with pytest.raises(ValueError, match=r"got 'alon'\. Did you mean 'alone'"):
        result.with_tables(alon=table)
