"""`starlings accuracy`: its three posteriors against SciPy, NUTS, and a short run of its pieces."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console
from scipy import stats
from typer.testing import CliRunner

import starlings as st
from starlings.cli import app
from starlings.diagnostics.reference import compare
from starlings.research.accuracy import data, report, run
from starlings.research.packaged_data import check_installed, read_packaged
from starlings.solvers.pooled.mode import local_mode

NEEDED = ("arviz", "blackjax", "lifelines", "matplotlib", "statsmodels")
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in NEEDED),
    reason="needs starlings[accuracy]",
)

TINY = run.Effort(effective_draws=200, nuts_chains=4, nuts_draws=500)


@pytest.fixture(scope="module")
def lung() -> data.Case:
    return data.lung_case()


@pytest.fixture(scope="module")
def smoking() -> data.Case:
    return data.smoking_case()


@pytest.fixture(scope="module")
def lung_rows() -> pd.DataFrame:
    return read_packaged("lifelines", "datasets/lung.csv", extra="accuracy")


def test_rand_has_the_rows_of_the_experiment():
    case = data.rand_case()
    assert (case.rows, case.problem.num_agents, case.problem.dim) == (20_190, 6, 9)


def test_lung_rows_are_at_their_institutions(lung, lung_rows):
    """228 patients; one has no institution and another no ECOG score."""
    assert len(lung_rows) == 228
    assert lung_rows[["inst", "ph.ecog"]].isna().sum().to_list() == [1, 1]
    assert (lung.rows, lung.problem.num_agents, lung.problem.dim) == (226, 18, 5)
    assert lung.note.startswith("2 of 228 rows")
    complete = lung_rows.dropna(subset=["inst", "ph.ecog"])
    deaths = complete.groupby("inst")["status"].agg(["size", "sum"])
    found = [(len(rows["died"]), rows["died"].sum()) for rows in lung.problem.shards.values()]
    assert found == list(deaths.itertuples(index=False, name=None))
    assert lung.problem.sites == [f"institution {number:.0f}" for number in deaths.index]
    assert (lung.problem.num_rows < lung.problem.dim).sum() == 3


def test_lung_potential_is_that_of_scipy(lung, lung_rows):
    """Densities of the deaths and survival functions of the censored, with the Jacobian of k."""
    beta, shape = np.array([-0.4, 0.2, -0.5, 0.3]), 1.3
    rows = lung_rows.dropna(subset=["inst", "ph.ecog"])
    log_risk = (
        beta[0]
        + beta[1] * (rows["age"] - 60) / 10
        + beta[2] * (rows["sex"] == 2)
        + beta[3] * rows["ph.ecog"]
    )
    weibull = stats.weibull_min(shape, scale=np.exp(-log_risk / shape))
    years = rows["time"] / 365.25
    died = rows["status"] == 1
    expected = weibull.logpdf(years)[died].sum() + weibull.logsf(years)[~died].sum()
    expected += stats.norm(0, 2.5).logpdf(beta).sum() + stats.halfnorm(scale=2.0).logpdf(shape)
    expected += np.log(shape)
    z = np.append(beta, np.log(shape))
    np.testing.assert_allclose(-lung.problem.potential(z), expected, rtol=1e-12)
    assert 0 < died.sum() < len(rows)


def test_smoking_counts_are_at_their_cities(smoking):
    assert (smoking.rows, smoking.problem.num_agents, smoking.problem.dim) == (8_419, 8, 11)
    taiyuan = smoking.problem.shards["Taiyuan"]
    persons = dict(
        zip(
            zip(taiyuan["smoking"], taiyuan["cancer"], strict=True), taiyuan["persons"], strict=True
        )
    )
    assert persons == {(1, 1): 60, (1, 0): 99, (0, 1): 11, (0, 0): 43}


def smoking_parameters() -> tuple[np.ndarray, np.ndarray]:
    """A z of eq. (3), and the parameters there by plain NumPy."""
    z = np.array([0.7, -0.5, -1.2, *np.linspace(-6, -2, 8)])
    sigma = np.exp(z[2])
    weight = 0.1**2 / (sigma**2 + 0.1**2)
    return z, np.array([*z[:2], sigma, *(weight * z[1] + sigma * np.sqrt(weight) * z[3:])])


@pytest.mark.slow
def test_smoking_potential_is_that_of_every_person(smoking):
    """One Bernoulli trial a person, where the problem has counts as weights."""
    z, theta = smoking_parameters()
    table = read_packaged(
        "statsmodels", "datasets/china_smoking/china_smoking.csv", extra="accuracy"
    )
    expected = 0.0
    for j, counts in enumerate(table.iloc[:, 1:].to_numpy()):
        smokes = np.repeat([1, 1, 0, 0], counts)
        cancer = np.repeat([1, 0, 1, 0], counts)
        chance = 1 / (1 + np.exp(-(theta[3 + j] + theta[0] * smokes)))
        expected += stats.bernoulli.logpmf(cancer, chance).sum()
    expected += stats.norm(0, 2.5).logpdf(theta[:2]).sum() + stats.halfnorm.logpdf(theta[2])
    expected += stats.norm(theta[1], theta[2]).logpdf(theta[3:]).sum()
    with jax.enable_x64(True):
        bijection = data.HalfCentred(0.1)
        expected += np.linalg.slogdet(jax.jacobian(bijection)(jnp.asarray(z)))[1]
        np.testing.assert_allclose(bijection(jnp.asarray(z)), theta, rtol=1e-12)
        np.testing.assert_allclose(bijection._inverse(jnp.asarray(theta)), z, rtol=1e-10)
    np.testing.assert_allclose(-smoking.problem.potential(z), expected, rtol=1e-12)


def test_a_city_knows_its_own_intercept_only(smoking):
    _, theta = smoking_parameters()
    shards = list(smoking.problem.shards.values())

    def log_likelihood(theta, rows):
        return jax.vmap(lambda row: data.counted_cell({"theta": theta}, row))(rows).sum()

    slopes = np.array([jax.grad(log_likelihood)(jnp.asarray(theta), rows) for rows in shards])
    np.testing.assert_array_equal(slopes[:, 3:] != 0, np.eye(8, dtype=bool))


def test_centred_coordinates_have_no_mode(smoking):
    """Why eq. (3): with all intercepts at m the density of (2) grows like sigma^-7."""

    def log_density(log_sigma):
        sigma = np.exp(log_sigma)
        theta = np.array([0.7, -0.6, sigma, *np.full(8, -0.6)])
        return float(data.smoking_prior({"theta": jnp.asarray(theta)})) + log_sigma

    np.testing.assert_allclose(log_density(-9.0) - log_density(-8.0), 7.0, rtol=1e-5)


def test_thinned_draws_are_spread_over_all():
    draws = {"x": np.arange(100), "y": np.arange(200).reshape(100, 2)}
    few = run.thinned(draws, 5)
    assert few["x"].tolist() == [0, 24, 49, 74, 99]
    assert few["y"][:, 0].tolist() == [0, 48, 98, 148, 198]
    assert len(run.thinned(draws, 1000)["x"]) == 100


def test_the_floor_is_chance():
    """Against a long reference, n draws of the same law show errors of order 1/sqrt(n)."""
    random = np.random.default_rng(0)
    like = xr.Dataset({"x": (["chain", "draw", "agent", "x_dim_0"], np.zeros((1, 1, 1, 4)))})
    reference, again = (random.normal(size=(n, 4)) for n in (100_000, 2_500))
    worst = report.worst(compare(run.one_agent({"x": again}, like, 1), {"x": reference}))
    assert 0.2 / np.sqrt(2500) < worst["mean_error"] < 5 / np.sqrt(2500)
    assert worst["mean_error"] <= worst["w2"] < 6 / np.sqrt(2500)
    assert abs(worst["smallest_sd_ratio"] - 1) < 5 / np.sqrt(2 * 2500)
    assert abs(worst["largest_sd_ratio"] - 1) < 5 / np.sqrt(2 * 2500)


def test_a_run_with_too_few_effective_draws_is_made_longer(monkeypatch):
    """A run that has half of the 4 x 100 effective draws is asked for 1.3 x 2 times as many."""
    asked = []

    def sample(problem, network, method, draws, seed, progress):
        asked.append((method, draws))
        values = np.random.default_rng(0).normal(size=(2, draws, 1))
        return SimpleNamespace(posterior=xr.Dataset({"x": (["chain", "draw", "agent"], values)}))

    monkeypatch.setattr(run, "sample", sample)

    def draws_asked(effort):
        asked.clear()
        run.sample_enough(None, None, effort, "hmc")
        assert {method for method, _ in asked} == {"hmc"}
        return [draws for _, draws in asked]

    first, second = draws_asked(replace(TINY, effective_draws=400))
    assert first == 100
    assert 230 < second < 350
    monkeypatch.setattr(run, "USUAL_CHAINS", 1)
    assert draws_asked(replace(TINY, effective_draws=400)) == [400]
    monkeypatch.setattr(run, "USUAL_CHAINS", 40)
    assert draws_asked(replace(TINY, effective_draws=4000)) == [100, 100 * run.LONGEST]


@pytest.fixture(scope="module")
def known() -> data.Case:
    """A linear regression whose posterior is known in closed form."""
    random = np.random.default_rng(4)
    X = pd.DataFrame(random.normal(size=(60, 2)), columns=["age", "dose"])
    y = X @ [1.0, -2.0] + random.normal(size=60)
    sites = np.repeat(["a", "b", "c"], [5, 15, 40])
    problem = st.models.linear_regression(X, y, sites, noise_std=1.0, intercept=False)
    return data.Case("Known", "wards", 60, "linear regression", problem, "made up")


@pytest.fixture(scope="module")
def both(known) -> dict[str, run.Comparison]:
    return run.compare_case(known, TINY)


@pytest.fixture(scope="module")
def tiny(both) -> run.Comparison:
    return both["auto"]


@pytest.mark.slow
def test_nuts_finds_a_posterior_in_closed_form(known, tiny):
    """Within five Monte Carlo errors, granting NUTS an independent draw in four."""
    mean, covariance = known.problem.exact_posterior()
    sd = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(local_mode(known.problem.pooled()).point, mean, atol=1e-3 * sd.min())
    draws = tiny.nuts["beta"].values.reshape(2000, 2)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * sd / np.sqrt(500)).all()
    assert (np.abs(draws.std(axis=0) / sd - 1) < 5 / np.sqrt(2 * 500)).all()


@pytest.mark.slow
def test_a_short_run_is_compared_with_nuts(tiny):
    assert tiny.nuts["beta"].shape == (4, 500, 1, 2)
    assert len(tiny.check.against_reference) == 3 * 2
    assert len(tiny.floor) == 2
    assert tiny.effective_draws >= 200
    shown = report.lines(report.summary(tiny))
    assert shown["network rounds, all included"] == f"{tiny.result.attrs['network_rounds']:,}"
    assert shown["MB sent by all agents"] == f"{tiny.result.attrs['bytes_sent'] / 1e6:.1f}"


@pytest.mark.slow
def test_the_default_and_dadmms_are_compared(both):
    """On a ring of three all agents are neighbours, so that a sum over the network is one round."""
    numbers = {method: report.summary(found) for method, found in both.items()}
    assert numbers["auto"]["method"] == "weights"
    assert numbers["auto"]["network_rounds"] < 20
    k = both["auto"].result.attrs["pareto_k"]
    assert report.drawn_by(numbers["auto"]) == f"weights, k-hat {k:.2f}"
    assert report.drawn_by(numbers["dadmms"]) == both["dadmms"].result.attrs["method"]
    run_by_rounds = both["dadmms"].result
    drawn = run_by_rounds.posterior.sizes["draw"] * run_by_rounds.attrs["thin"]
    assert numbers["dadmms"]["network_rounds"] >= drawn + run_by_rounds.attrs["burn_in"]


@pytest.mark.slow
def test_a_run_that_is_too_short_is_said_to_be(tiny):
    short = replace(tiny, nuts=tiny.nuts.isel(draw=slice(20)))
    starts = [text.split(":")[0] for text in short.problems]
    assert {"Too short", "NUTS too short"} <= set(starts)
    assert "NUTS too short" not in [text.split(":")[0] for text in tiny.problems]
    shown = report.lines(report.summary(short))["verdict of `check()`"]
    assert shown == ", ".join(starts).lower()
    assert all(text in report.caption([short]) for text in short.problems)
    assert report.verdict([]) == report.GOOD


@pytest.mark.slow
def test_tables_and_figure_are_written(tiny, both, tmp_path):
    report.save({"auto": [tiny, tiny], "dadmms": [both["dadmms"]] * 2}, tmp_path)
    written = json.loads((tmp_path / "accuracy.json").read_text())["methods"]
    assert [[case["name"] for case in found] for found in written.values()] == [["Known"] * 2] * 2
    numbers = written["auto"]
    scores = tiny.check.against_reference
    assert numbers[0]["agents"]["w2"] == scores["w2"].max()
    assert numbers[0]["floor"]["w2"] == tiny.floor["w2"].max()
    text = (tmp_path / "accuracy.md").read_text()
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.count("|") for line in table} == {4}
    assert f"| {scores['w2'].max():.3f} ({tiny.floor['w2'].max():.3f}) |" in text
    assert "3 wards" in text
    assert text.count("Known: made up.") == 2 * 2
    assert all(f"**{title}**" in text for title in report.TITLES.values())
    assert set(report.TITLES) == set(run.METHODS)
    for name in ("accuracy.png", "accuracy.svg"):
        assert (tmp_path / name).stat().st_size > 10_000


@pytest.mark.slow
def test_the_printed_table_fits_a_terminal(tiny, capsys):
    (table,) = report.display_tables({"auto": [tiny] * 3})
    Console(width=80, color_system=None).print(table)
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert "[" in printed  # a parameter's label is not markup


@pytest.mark.slow
def test_intervals_are_those_of_the_draws(tiny):
    table = report.intervals(tiny)
    assert list(table["parameter"]) == ["age", "dose"] * 4
    draws = tiny.result.posterior["beta"].sel(agent="c", beta_dim_0="dose").values
    row = table[(table["parameter"] == "dose") & (table["site"] == "c")].iloc[0]
    np.testing.assert_allclose([row["mean"], row["q95"]], [draws.mean(), np.quantile(draws, 0.95)])
    pooled = table[(table["parameter"] == "age") & (table["estimate"] == "pooled")].iloc[0]
    np.testing.assert_allclose(pooled["mean"], tiny.nuts["beta"].values[..., 0].mean())


def test_the_command_passes_its_options_on(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(run, "run", lambda *given, **options: calls.append((given, options)))
    words = ["accuracy", "--quick", "--output", str(tmp_path / "new"), "-q"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0
    assert calls == [((tmp_path / "new",), {"quick": True, "progress": False})]


@pytest.mark.slow
def test_a_run_makes_its_folder(monkeypatch, tmp_path, both, known):
    monkeypatch.setattr(run, "all_cases", lambda: [known])
    monkeypatch.setattr(run, "compare_case", lambda case, effort, progress: both)
    run.run(tmp_path / "a" / "b", quick=True)
    assert (tmp_path / "a" / "b" / "accuracy.md").is_file()


def test_what_is_missing_is_named_with_its_remedy():
    with pytest.raises(ModuleNotFoundError, match=r"needs no_such.*starlings\[accuracy\]"):
        check_installed("numpy", "no_such", extra="accuracy")
    with pytest.raises(FileNotFoundError, match=r"this statsmodels has no cats.csv.*accuracy"):
        read_packaged("statsmodels", "datasets/cats.csv", extra="accuracy")
