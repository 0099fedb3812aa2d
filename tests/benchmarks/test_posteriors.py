"""The real posteriors of the benchmark: the problems say what the reference draws say.

And the table's own machinery, which needs no folder of posteriors.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm

import starlings as st
from benchmarks.posteriors import (
    cases,
    consensus,
    grid,
    methods,
    models,
    report,
    results,
    runs,
    targets,
)
from benchmarks.posteriors import run as bench
from benchmarks.posteriors import score as scoring
from benchmarks.posteriors.draws import Draws
from starlings.methods.one_shot import combine

FOLDER = Path(os.environ.get("STARLINGS_POSTERIORS", ""))
"""The folder with NAME.json and NAME.reference.json of every posterior."""

needs_folder = pytest.mark.skipif(
    "STARLINGS_POSTERIORS" not in os.environ,
    reason="needs a folder of posteriors: set the environment variable STARLINGS_POSTERIORS to it",
)

NEARLY_GAUSSIAN = [name for name in cases.BUILDERS if name not in cases.HARD]


def one_quick(names):
    """All names as parameters of a test, of which the quick suite takes the first."""
    first, *rest = names
    return [first, *(pytest.param(name, marks=pytest.mark.slow) for name in rest)]


@jax.jit
def pooled_values(agents, points):
    return jax.vmap(lambda z: jnp.sum(jax.vmap(lambda a: a.potential(z))(agents)))(points)


@jax.jit
def pooled_derivatives(agents, z):
    gradients = jax.vmap(lambda agent: agent.gradient(z))(agents)
    hessians = jax.vmap(lambda agent: agent.hessian(z))(agents)
    return gradients.sum(axis=0), hessians.sum(axis=0)


def near_reference(case, count=3):
    """Points drawn from the Gaussian with the reference's marginals."""
    reference = case.reference["unconstrained"]
    noise = np.random.default_rng(1).normal(size=(count, case.problem.dim))
    return np.array(reference["mean"]) + noise * np.array(reference["sd"])


@needs_folder
@pytest.mark.parametrize("name", one_quick(cases.BUILDERS))
def test_divisions_share_one_posterior(name):
    both = [cases.load(FOLDER, name, division) for division in cases.DIVISIONS]
    points = near_reference(both[0])
    with jax.enable_x64(True):
        first, second = (pooled_values(c.problem.agents(), jnp.asarray(points)) for c in both)
    assert np.all(np.isfinite(first))
    np.testing.assert_allclose(first, second, rtol=1e-8)


@needs_folder
@pytest.mark.parametrize("division", cases.DIVISIONS)
@pytest.mark.parametrize("name", cases.BUILDERS)
def test_every_row_is_used_once(name, division):
    data = cases.read(FOLDER, f"{name}.json")
    shards = cases.divide(data, division)
    assert len(shards) == data["agents"]
    assert sorted(np.concatenate(data["splits"][division])) == list(range(data["n_rows"]))
    for column, values in data["rows"].items():
        dealt = np.concatenate([shard[column].reshape(len(shard[column]), -1) for shard in shards])
        whole = np.reshape(values, (data["n_rows"], -1))
        np.testing.assert_array_equal(np.sort(dealt, axis=0), np.sort(whole, axis=0))


@needs_folder
@pytest.mark.parametrize("name", one_quick(NEARLY_GAUSSIAN))
def test_laplace_approximation_meets_the_reference(name):
    case = cases.load(FOLDER, name, "random")
    reference = case.reference["unconstrained"]
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    mode = mean
    with jax.enable_x64(True):
        agents = case.problem.agents()
        for _ in range(4):
            gradient, hessian = pooled_derivatives(agents, jnp.asarray(mode))
            mode = mode - np.linalg.solve(hessian, gradient)
    assert np.max(np.abs(mode - mean) / sd) < 1
    np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(hessian))), sd, rtol=0.12)


@needs_folder
@pytest.mark.parametrize("name", one_quick(cases.HARD))
def test_reported_quantities_are_where_the_reference_is(name):
    case = cases.load(FOLDER, name, "sorted")
    reference = case.reference["constrained"]
    centre = case.problem.constrain(case.reference["unconstrained"]["q50"])
    with jax.enable_x64(True):
        named = {name: jnp.asarray(value) for name, value in centre.items()}
        reported = np.asarray(case.model.reported(named))
    assert reported.shape == (len(case.parameters),)
    assert np.max(np.abs(reported - np.array(reference["q50"])) / reference["sd"]) < 1


def test_exact_draws_score_at_the_noise_floor():
    random = np.random.default_rng(2)
    covariance = np.array([[1.0, -0.9], [-0.9, 4.0]])
    draws = random.multivariate_normal([3.0, 1.0], covariance, size=(2, 40_000))
    levels = (np.arange(200) + 0.5) / 200
    exact = random.multivariate_normal([3.0, 1.0], covariance, size=400_000)
    quantiles = dict(zip("ab", np.quantile(exact, levels, axis=0).T, strict=True))
    reference = {"mean": [3.0, 1.0], "sd": [1.0, 2.0], "covariance": covariance}
    reference |= {"parameters": ["a", "b"], "quantile_grid": quantiles}
    figures = scoring.marginal_figures(draws, reference, levels)
    figures |= scoring.joint_figures(draws, reference)
    assert max(figures[k] for k in ("mean_error", "w2", "mahalanobis")) < 0.03
    ratios = ("sd_ratio_least", "sd_ratio_most", "eigenvalue_least", "eigenvalue_most")
    assert all(abs(figures[k] - 1) < 0.03 for k in ratios)


def test_errors_of_known_size_are_seen():
    draws = np.random.default_rng(3).normal(size=(2, 40_000, 2)) * [1.0, 2.0]
    draws[1] = draws[1] * [1.0, 1.5] + [0.5, 0.0]
    levels = (np.arange(200) + 0.5) / 200
    exact = np.random.default_rng(4).normal(size=400_000)
    quantiles = {"a": np.quantile(exact, levels), "b": 2 * np.quantile(exact, levels)}
    reference = {"mean": [0.0, 0.0], "sd": [1.0, 2.0], "covariance": np.diag([1.0, 4.0])}
    reference |= {"parameters": ["a", "b"], "quantile_grid": quantiles}
    figures = scoring.marginal_figures(draws, reference, levels)
    figures |= scoring.joint_figures(draws, reference)
    assert figures["mean_error"] == pytest.approx(0.5, abs=0.02)
    assert figures["w2"] == pytest.approx(0.5, abs=0.03)
    assert figures["sd_ratio_most"] == pytest.approx(1.5, abs=0.03)
    assert figures["mahalanobis"] == pytest.approx(0.5 / np.sqrt(2), abs=0.02)
    assert figures["eigenvalue_most"] == pytest.approx(2.25, abs=0.06)


# The table


def toy_case() -> cases.Case:
    """The mean of a Gaussian in two dimensions at three unequal agents, with the exact answer."""
    random = np.random.default_rng(5)
    shards = [{"y": random.normal(size=(rows, 2)) * [1.0, 3.0]} for rows in (4, 9, 12)]
    parameters = {"x": st.Parameter((2,))}
    model = models.Model(
        lambda p, row: jnp.sum(models.normal(row["y"], p["x"], jnp.array([1.0, 3.0]))),
        models.flat,
        parameters,
    )
    problem = st.Problem(model.log_likelihood, model.log_prior, parameters, shards)
    mean = np.concatenate([shard["y"] for shard in shards]).mean(axis=0)
    sd = np.array([1.0, 3.0]) / 5
    levels = (np.arange(200) + 0.5) / 200
    quantiles = {name: m + s * norm.ppf(levels) for name, m, s in zip("ab", mean, sd, strict=True)}
    marginal = {"mean": mean, "sd": sd, "parameters": ["a", "b"], "quantile_grid": quantiles}
    joint = {"mean": mean, "covariance": np.diag(sd**2)}
    reference = {"constrained": marginal, "unconstrained": joint, "quantile_levels": levels}
    return cases.Case("toy", "random", problem, model, ["a", "b"], reference)


def test_consensus_of_gaussians_is_their_product():
    random = np.random.default_rng(6)
    roots = random.normal(size=(3, 2, 2)) + 2 * np.eye(2)
    means, count = random.normal(size=(3, 2)), 50_000
    own = means[:, None] + np.einsum("iab,itb->ita", roots, random.normal(size=(3, count, 2)))
    drawn = combine(own.reshape(3, 2, count // 2, 2))
    assert drawn.shape == (2, count // 2, 2)
    precisions = np.linalg.inv(roots @ np.swapaxes(roots, 1, 2))
    covariance = np.linalg.inv(precisions.sum(axis=0))
    mean = covariance @ np.einsum("iab,ib->a", precisions, means)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (drawn.reshape(-1, 2) - mean).T)
    error = 1 / np.sqrt(count)  # of a mean; the estimated weights move it by as little again
    assert np.max(np.abs(white.mean(axis=1))) < 6 * error
    assert np.max(np.abs(np.cov(white) - np.eye(2))) < 6 * np.sqrt(2) * error


@pytest.mark.slow
def test_consensus_is_exact_on_a_gaussian(monkeypatch):
    pytest.importorskip("blackjax")
    for name, value in {"NUTS_CHAINS": 4, "NUTS_WARMUP": 300}.items():
        monkeypatch.setattr(methods, name, value)
    case = toy_case()
    figures = scoring.score(case, methods.consensus(runs.Setting(case, wanted=300)).draws)
    assert figures.effective_draws >= 300
    error = 1 / np.sqrt(figures.effective_draws)
    assert figures.mean_error < 5 * error
    assert max(1 - figures.sd_ratio_least, figures.sd_ratio_most - 1) < 5 * error / np.sqrt(2)
    assert figures.network_rounds is None
    assert figures.bytes_sent > 8 * 3 * 2 * figures.effective_draws


@pytest.mark.slow
def test_a_method_of_the_literature_is_given_the_best_step_of_a_grid(monkeypatch):
    monkeypatch.setattr(grid, "PACES", (32.0, 64.0))
    monkeypatch.setattr(grid, "SLOWEST", 128.0)
    case = toy_case()
    setting = runs.Setting(case, wanted=300, chains=16)
    outcome = methods.METHODS["dsgld"](setting)
    tried = outcome.notes["grid"]
    assert outcome.notes["sampler"] == min((w2, name) for name, w2 in tried.items() if w2)[1]
    figures = scoring.score(case, outcome.draws)
    assert figures.effective_draws >= 300
    assert figures.mean_error < 0.1 + 5 / np.sqrt(figures.effective_draws)
    burn_in = runs.BURN_IN * outcome.notes["pace"]
    kept = outcome.notes["pace"] * figures.effective_draws / setting.chains
    assert 0.3 < (figures.network_rounds - burn_in) / kept < 3


def test_the_search_grows_towards_the_best_and_looks_beside_it():
    found = grid.search(lambda pace: abs(np.log(pace / 85)))
    assert min(found, key=found.get) == pytest.approx(64 * np.sqrt(2))
    assert max(found) == 128
    slow = grid.search(lambda pace: 1 / pace)
    assert max(slow) == grid.SLOWEST
    fast = grid.search(lambda pace: pace)
    assert min(fast) == grid.FASTEST
    failed = grid.search(lambda pace: np.inf)
    assert max(failed) == grid.SLOWEST


@pytest.mark.slow
def test_diverging_steps_are_failed_points_of_the_grid():
    setting = runs.Setting(toy_case(), chains=8)
    assert grid.trial(setting, st.DSGLD(step_size=50.0), 16.0, 8) == np.inf


def counted_draws(count):
    """Draws that are worth `count` effective ones, if `effective_draws` reads their number."""
    return Draws({"x": np.zeros((1, round(count), 1))})


def test_too_few_draws_are_made_again_in_a_longer_run(monkeypatch):
    monkeypatch.setattr(runs, "effective_draws", lambda case, draws: draws.lead[1])
    asked = []

    def run(longer):
        asked.append(longer)
        return counted_draws(400 * longer)

    setting = runs.Setting(toy_case(), wanted=1000)
    assert runs.enough(setting, run).lead[1] >= 1000
    assert asked == [1.0, pytest.approx(2.75)]
    assert runs.enough(runs.Setting(toy_case(), wanted=300), run).lead[1] == 400


@pytest.mark.parametrize(
    ("again", "repeats", "median"), [((2.0, 9.0, 1.0), 2, 5.5), ((0.5, 0.1, 0.2, 0.9, 0.3), 5, 0.3)]
)
def test_the_last_run_is_made_again_to_be_timed(monkeypatch, again, repeats, median):
    """A clock by which the two runs take 5 and 7 s, and those that are timed the given seconds."""
    monkeypatch.setattr(runs, "effective_draws", lambda case, draws: draws.lead[1])
    clock, asked, lengths = [0.0], [], iter([5.0, 7.0, *again])
    monkeypatch.setattr(runs.time, "process_time", lambda: clock[0])

    def run(longer):
        clock[0] += next(lengths)
        asked.append(longer)
        return counted_draws(400 * longer)

    timed = runs.enough(runs.Setting(toy_case(), wanted=1000), run, timed=run)
    assert asked == [1.0, *[pytest.approx(2.75)] * (1 + repeats)]
    assert (timed.first_seconds, timed.seconds) == (5.0, pytest.approx(median))


@pytest.fixture(scope="module")
def by_weights():
    """The toy case by the default method, for a thousand effective draws."""
    return methods.METHODS["auto"](runs.Setting(toy_case(), wanted=1000))


@pytest.mark.slow
def test_the_default_is_asked_for_nothing_but_draws(by_weights):
    """The rounds are those of Newton's method and of one sum; draws are the same at all agents."""
    case, drawn = toy_case(), by_weights.draws
    assert by_weights.notes["chosen"] == "weights"
    assert by_weights.notes["pareto_k"] < 0.5
    figures = scoring.score(case, drawn)
    assert figures.effective_draws >= 1000
    assert figures.mean_error < 5 / np.sqrt(1000)
    assert figures.network_rounds == drawn.attributes["network_rounds"] < 100
    assert figures.bytes_sent == drawn.attributes["bytes_sent"] > 8 * 1000
    assert 0 < drawn.seconds < drawn.first_seconds
    assert drawn.lead[2] == 1


def test_agents_that_differ_are_all_kept():
    random = np.random.default_rng(8)
    dims = ("chain", "draw", "agent")
    for values, agents in (
        (np.repeat(random.normal(size=(2, 3, 1)), 4, axis=2), 1),
        (random.normal(size=(2, 3, 4)), 4),
    ):
        result = SimpleNamespace(
            posterior=xr.Dataset({"x": (dims, values)}),
            attrs={"network_rounds": 7, "bytes_sent": 56},
        )
        drawn = Draws.of(result)
        assert drawn.lead == (2, 3, agents)
        np.testing.assert_array_equal(drawn.named["x"], values[:, :, :agents])
        assert (drawn.network_rounds, drawn.bytes_sent) == (7, 56.0)


def test_r_hat_is_nested_where_chains_begin_in_groups():
    """Two superchains whose means are 0 and 1, each of two chains: B = 1/2, W = 2 by hand."""
    draws = np.array([[-1.0, 1.0], [-1.0, 1.0], [0.0, 2.0], [0.0, 2.0]])[:, :, None]
    nested = scoring.convergence(draws, np.array([0, 0, 1, 1]))[1]
    assert nested == pytest.approx(np.sqrt(1 + 0.5 / 2))


def flat_problem(outcomes) -> st.Problem:
    """Logistic regression without a prior: agent 0 has all it needs, agent 1 the given outcomes."""
    x = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    own = {"X": np.tile(x, (2, 1)), "y": np.array([0, 1, 0, 1, 1, 0, 1, 0.0])}
    other = {"X": x if len(outcomes) == 4 else x[:1].repeat(len(outcomes), axis=0), "y": outcomes}
    shapes = {"beta": st.Parameter((2,))}
    return st.Problem(models._logistic_row, models.flat, shapes, [own, other])


@pytest.mark.slow
@pytest.mark.parametrize("outcomes", [[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0]])
def test_an_agent_without_a_posterior_of_its_own_is_found(outcomes):
    """One outcome only, so that the mode is at infinity; one covariate only, so a ridge."""
    problem = flat_problem(np.array(outcomes))
    for one in (problem, problem.affine(np.zeros(2), np.eye(2))):
        with (
            jax.enable_x64(True),
            pytest.raises(consensus.ImproperError, match="improper at agent 1"),
        ):
            consensus.refuse_improper(one.agents(), one.dim)


@pytest.mark.slow
def test_agents_with_posteriors_of_their_own_pass():
    problem = flat_problem(np.array([0.0, 1.0, 0.0, 1.0]))
    for one in (problem, problem.affine(np.zeros(2), np.eye(2))):
        with jax.enable_x64(True):
            consensus.refuse_improper(one.agents(), one.dim)


def test_draws_of_no_law_are_refused():
    good = np.random.default_rng(7).normal(size=(2, 4, 500, 2))
    consensus.refuse_unmixed(good)
    shifted = good.copy()
    shifted[1, 0] += 3.0
    with pytest.raises(consensus.ImproperError, match="not mixed at agent 1"):
        consensus.refuse_unmixed(shifted)
    with pytest.raises(consensus.ImproperError, match="improper at agent 0"):
        consensus.refuse_unmixed(1e5 * good)
    broken = good.copy()
    broken[1, 2, 3, 0] = np.nan
    with pytest.raises(consensus.ImproperError, match="improper at agent 1"):
        consensus.refuse_unmixed(broken)


def row(method="auto", division="random", **figures):
    perfect = dict.fromkeys(("mean_error", "w2", "mahalanobis"), 0.03)
    perfect |= dict.fromkeys(("sd_ratio_least", "eigenvalue_least"), 0.98)
    perfect |= dict.fromkeys(("sd_ratio_most", "eigenvalue_most"), 1.02)
    perfect |= {"network_rounds": 120, "bytes_sent": 2_500_000.0}
    perfect |= {"seconds": 0.5, "first_seconds": 4.0, "notes": {}}
    perfect |= {"effective_draws": 4_100.0, "r_hat": 1.001, "agents": 8, "dim": 3, "wanted": 10}
    return {"case": "sblri", "division": division, "method": method} | perfect | figures


def missed(rows, **figures):
    """The targets that a row of `auto` misses."""
    found = targets.verdicts(rows, row(**figures))
    return [name for name, is_met in found.items() if is_met is False]


def test_every_posterior_has_its_targets():
    assert missed([]) == []
    assert missed([], network_rounds=251, w2=0.051) == ["network rounds", "W2"]
    assert missed([], effective_draws=3_999.0, r_hat=1.5) == ["effective draws"]
    assert missed([], w2=np.nan) == ["W2"]
    process = {"case": "gp_pois_regr", "network_rounds": 250_000, "w2": 0.08}
    assert missed([], **process, r_hat=1.01) == []
    assert missed([], **process, r_hat=1.011) == ["R-hat"]
    schools = {"case": "eight_schools_noncentered", "w2": 0.5}
    assert missed([], **schools, network_rounds=25_000) == []
    assert missed([], **schools, network_rounds=25_001) == ["network rounds"]
    assert missed([], case="radon_mn_partially_pooled", network_rounds=100_001) == [
        "network rounds"
    ]
    assert set(targets.HARD_TARGETS) == set(cases.HARD)


def test_a_method_without_a_result_misses_all_targets():
    failed = {"case": "sblri", "division": "random", "method": "auto", "error": "no mode"}
    assert set(targets.verdicts([], failed).values()) == {False}


def test_speed_is_compared_with_nuts_of_the_same_division():
    """4,100 draws in 0.5 s, and NUTS 4,000 in 1 s and in 2 s: 2.05 and 4.1 times."""
    nuts = {"effective_draws": 4_000.0}
    rows = [row("nuts", **nuts, seconds=1.0), row("nuts", "sorted", **nuts, seconds=2.0)]
    assert targets.speed_over_nuts(rows, row()) == pytest.approx(2.05)
    assert targets.speed_over_nuts(rows, row(division="sorted")) == pytest.approx(4.1)
    assert missed(rows) == ["speed"]
    assert missed(rows, division="sorted") == []
    assert targets.speed_over_nuts(rows, row(seconds=None)) is None
    assert targets.verdicts([], row())["speed"] is None
    assert targets.verdicts(rows, row(case="arK"))["speed"] is None


def test_the_page_has_figures_verdicts_and_errors():
    failed = {"case": "sblri", "division": "random", "method": "paper", "agents": 8, "dim": 3}
    failed |= {"wanted": 10, "error": "improper at agent 2 (flat)"}
    chosen = {"chosen": "weights", "pareto_k": 0.125}
    rows = [row(notes=chosen), row(division="sorted", w2=0.09), failed]
    text = bench.page_text([*rows, row("nuts", seconds=2.0, network_rounds=None, bytes_sent=None)])
    chance = f"({report.chance_w2(row()['effective_draws']):.3f})"
    assert "| sblri | random | weights | 120 | 2.5 | 0.12 | 4,100 | 1.001 | 4.0 |" in text
    assert "| 4.0 | 0.50 | 8,200 | 4.00 |" in text
    assert f"| sblri | random | 0.030 {chance} | 0.030 | 0.980 to 1.020 |" in text
    assert f"| sblri | random | 0.030 {chance} | improper at agent 2 | 0.030 {chance} |" in text
    assert "| sblri | random | nuts | - | - | - |" in text
    assert "| sblri | random | 120 of 250 met | 4,100 met | 0.030 met | 1.001 | 4.0 of 3 met |" in (
        text
    )
    assert "| sblri | sorted | 120 of 250 met | 4,100 met | 0.090 **missed** |" in text
    assert "- No target missed in 1 of 2." in text
    assert "posteriors: 120 to 120 network rounds, which take 4 to 4 s at 30 ms a round;" in text
    assert "W2 0.030 to 0.090." in text
    assert "lock-step HMC, wherever it was used" not in text
    assert "Not run for this page: kidscore_momiq," in text
    assert "dsgld |" not in text.split("## All columns")[1]


def test_the_w2_of_perfect_draws_is_known():
    """Eq. (1) of `report`, against Gaussian draws."""
    rng, levels = np.random.default_rng(0), np.array(report.LEVELS)
    quantiles = np.quantile(rng.normal(size=(500, 400)), levels, axis=0)
    reference = np.quantile(rng.normal(size=(report.REFERENCE_DRAWS, 400)), levels, axis=0)
    found = np.sqrt(((quantiles - reference) ** 2).mean(axis=0).mean())
    assert report.chance_w2(500) == pytest.approx(found, rel=0.1)


def test_the_eigenvalues_of_perfect_draws_are_known():
    """Eq. (2) of `report`, against Gaussian draws in 88 dimensions."""
    rng, draws, dim = np.random.default_rng(0), 3000, 88
    reference, found = (np.cov(rng.normal(size=(dim, n))) for n in (report.REFERENCE_DRAWS, draws))
    root = np.linalg.inv(np.linalg.cholesky(reference))
    extremes = np.linalg.eigvalsh(root @ found @ root.T)[[0, -1]]
    np.testing.assert_allclose(report.chance_eigenvalues(dim, draws), extremes, rtol=0.03)


@pytest.mark.slow
def test_a_row_has_the_figures_of_its_draws_and_how_long_it_took(monkeypatch, by_weights):
    monkeypatch.setitem(methods.METHODS, "auto", lambda setting: by_weights)
    made = bench.make_row(runs.Setting(toy_case(), wanted=1000), "auto")
    assert made["seconds"] == by_weights.draws.seconds
    assert made["network_rounds"] == by_weights.draws.network_rounds
    assert made["notes"]["chosen"] == "weights"
    assert made["wall_seconds"] != made["seconds"]


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    made = []

    def make_row(setting, method):
        made.append((setting.case, method))
        if len(made) == 3:
            raise KeyboardInterrupt
        name, division = setting.case
        figures = {"case": name, "wanted": setting.wanted, "wall_seconds": 1.0}
        return row(method, division, **figures)

    monkeypatch.setattr(bench, "make_row", make_row)
    monkeypatch.setattr(bench, "load", lambda folder, name, division: (name, division))

    def run(**options):
        made.clear()
        bench.run(tmp_path, tmp_path, cases="sblri", methods="auto,nuts", **options)
        return len(made)

    with pytest.raises(KeyboardInterrupt):
        run(effective_draws=100)
    assert len(results.ResultsFile(tmp_path / "posteriors.json").rows) == 2
    assert run(effective_draws=100) == 2
    assert run(effective_draws=100) == run(effective_draws=50) == 0
    assert run(effective_draws=200, divisions="random") == 2
    assert run(effective_draws=100, divisions="sorted", force=True) == 2


def test_a_file_of_something_else_is_named(tmp_path):
    path = tmp_path / "posteriors.json"
    path.write_text('[{"case": 1}]')
    with pytest.raises(ValueError, match=r"posteriors.json is not a results file"):
        results.ResultsFile(path).rows  # noqa: B018
