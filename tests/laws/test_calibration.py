"""Ranks: uniform where draws are right, not where they are wrong, and the same after a break."""

from __future__ import annotations

import json
import math
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.stats
import xarray as xr
from typer.testing import CliRunner

import starlings as st
from starlings.calibration import BySums, Calibration, NearlyIndependent, calibrate, replications
from starlings.calibration.figure import MOST_AGENTS, MOST_PARAMETERS, draw
from starlings.calibration.replications import rank
from starlings.calibration.study import _sampling, calibrate_study
from starlings.cli import app
from starlings.errors import CandidateError, TuningError
from starlings.models import gaussian, simulate
from starlings.runtime import loop
from starlings.study.study import Study

NETWORK = st.Network.ring(3)
STUDY = """
[model]
kind = "logistic_regression"
outcome = "y"
covariates = ["x"]
intercept = false
prior_std = 1.0
[data]
file = "rows.csv"
site = "town"
[network]
graph = "path"
[run]
burn_in = 40
"""
LENGTHS = ("--replications", 12, "--draws", 9)


def simulate_mean(rng):
    """m ~ N(0, I_2) and an observation of each entry with unit noise; the data are the problem."""
    mean = rng.normal(size=2)
    return {"mean": mean}, mean + rng.normal(size=2)


def sample_mean(wider=1.0, higher=0.0, agents=(0, 1, 2)):
    """Draws from N(y/2, 1/2), the posterior, and of some agents from something else."""

    def sample(data, network, draws, seed):
        normal = np.random.default_rng(seed).normal(size=(1, draws, network.size, 2))
        normal[:, :, agents] = wider * normal[:, :, agents] + higher
        values = data / 2 + np.sqrt(0.5) * normal
        variables = {"mean": (("chain", "draw", "agent", "mean_dim_0"), values)}
        return xr.Dataset(variables, {"agent": ["north", "south", "west"]})

    return sample


def calibrate_mean(replications=400, **options) -> Calibration:
    sample = options.pop("sample", sample_mean())
    return calibrate(simulate_mean, NETWORK, sample, replications=replications, **options)


def uniform_ranks(replications, agents, parameters, draws, seed=0) -> Calibration:
    random = np.random.default_rng(seed)
    ranks = random.integers(0, draws + 1, (replications, agents, parameters))
    coordinates = {
        "agent": [f"a{i}" for i in range(agents)],
        "parameter": [f"x[{k}]" for k in range(parameters)],
    }
    dims = ("replication", "agent", "parameter")
    return Calibration(xr.DataArray(ranks, coordinates, dims), draws)


def test_exact_draws_are_calibrated():
    found = calibrate_mean()
    assert found.ranks.dims == ("replication", "agent", "parameter")
    assert found.ranks["agent"].values.tolist() == ["north", "south", "west"]
    assert found.ranks["parameter"].values.tolist() == ["mean[0]", "mean[1]"]
    assert (int(found.ranks.min()), int(found.ranks.max())) == (0, 99)
    assert found.ok
    assert found.verdict.startswith("No problem was found in 400 replications")
    for level in (0.5, 0.9):
        apart = np.abs(found.coverage(level) - level)
        assert float(apart.max()) < 4 * found.coverage_error(level)


@pytest.mark.quick(1)
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"wider": 1.5}, "too wide"),
        ({"wider": 0.7}, "too narrow"),
        ({"higher": 0.4}, "too high"),
        ({"higher": -0.4}, "too low"),
    ],
)
def test_wrong_draws_of_one_agent_are_found_and_named(fault, words):
    found = calibrate_mean(sample=sample_mean(**fault, agents=[1]))
    alarms = found.p_values < found.threshold
    assert alarms.sel(agent="south").values.all()
    assert not alarms.sel(agent=["north", "west"]).values.any()
    assert not found.ok
    assert "2 of 6 agents and parameters" in found.verdict
    assert "at south" in found.verdict
    assert words in found.verdict
    assert set(found.table()["agent"]) == {"south"}


def test_correlated_draws_look_too_narrow():
    def sample(data, network, draws, seed):
        exact = sample_mean()(data, network, draws, seed)
        return exact.isel(draw=np.arange(draws) // 20)  # five different draws in all

    found = calibrate_mean(sample=sample)
    assert "not independent" in found.verdict


@pytest.mark.parametrize(("draws", "replications"), [(99, 400), (50, 400), (7, 60)])
def test_p_values_of_uniform_ranks_are_uniform(draws, replications):
    found = uniform_ranks(replications, 40, 50, draws)
    p_values = found.p_values.values.ravel()
    assert abs(p_values.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(p_values))
    # the law of a sum of squared counts is only nearly chi-squared: half as many again at most
    false_alarms = scipy.stats.binom(len(p_values), 1.5 * 0.05).ppf(0.999)
    assert np.sum(p_values < 0.05) <= false_alarms
    np.testing.assert_array_equal(found.counts.sum("bin"), replications)
    assert found.bin_probabilities.sum() == pytest.approx(1)
    assert len(found.bin_probabilities) <= min(20, draws + 1, replications // 5)


@pytest.mark.parametrize("draws", [99, 98, 10, 1])
def test_ranks_that_are_all_there_once_cover_exactly(draws):
    ranks = xr.DataArray(
        np.arange(draws + 1)[:, None, None],
        {"agent": ["a"], "parameter": ["x"]},
        ("replication", "agent", "parameter"),
    )
    found = Calibration(ranks, draws)
    levels, curve = found.coverage_curve
    np.testing.assert_allclose(curve.values.ravel(), levels, atol=1e-12)
    for level in (0.5, 0.9):
        assert float(found.coverage(level).item()) == pytest.approx(level)  # between levels, too


@pytest.mark.parametrize(("agents", "parameters"), [(1, 1), (3, 1), (4, 5)])
def test_the_limit_is_shared_among_all_that_is_tested(agents, parameters):
    """One p-value in a hundred is below 0.01 by chance; the smallest of many is more often."""
    found = uniform_ranks(200, agents, parameters, 99)
    assert found.threshold == pytest.approx(0.01 / (agents * parameters))
    assert found.ok == (float(found.p_values.min()) >= found.threshold)


def test_every_replication_of_every_seed_is_its_own():
    """Replication k + 1 of seed s is not replication k of seed s + 1."""

    def numbers(seed):
        drawn = []

        def simulated(rng):
            drawn.append(float(rng.normal()))
            return simulate_mean(rng)

        how = {"replications": 20, "draws": 9, "seed": seed, "threads": 1}
        calibrate(simulated, st.Network.path(3), sample_mean(), **how)
        return drawn

    every = numbers(0) + numbers(1) + numbers(2)
    assert len(set(every)) == len(every) == 60


def test_the_table_shows_the_worst_agent_of_each_column():
    found = uniform_ranks(200, 4, 3, 99)
    table = found.table()
    assert table.index.tolist() == ["x[0]", "x[1]", "x[2]"]
    np.testing.assert_array_equal(table["p_value"], found.p_values.min("agent"))
    for name, row in table.iterrows():
        at_worst = found.p_values.sel(agent=row["agent"], parameter=name)
        assert float(at_worst) == row["p_value"]
        covered = found.coverage(0.9).sel(parameter=name)
        assert abs(row["coverage_90%"] - 0.9) == pytest.approx(float(abs(covered - 0.9).max()))
    assert table["error_50%"].tolist() == [0.5 / np.sqrt(200)] * 3


def test_an_interrupted_run_goes_on_to_the_same_ranks(tmp_path):
    file, calls = tmp_path / "ranks.nc", []
    whole = calibrate_mean(37, threads=1)

    def interrupted(rng):
        calls.append(None)
        if len(calls) == 24:
            raise KeyboardInterrupt
        return simulate_mean(rng)

    with pytest.raises(KeyboardInterrupt):
        calibrate(interrupted, NETWORK, sample_mean(), replications=37, file=file, threads=1)
    np.testing.assert_array_equal(xr.load_dataarray(file, engine="h5netcdf"), whole.ranks[:23])
    resumed = calibrate_mean(37, file=file, threads=3)
    xr.testing.assert_equal(resumed.ranks, whole.ranks)
    assert not list(tmp_path.glob("*.partial"))


def test_a_finished_file_is_read_extended_and_cut(tmp_path):
    file = tmp_path / "ranks.nc"
    first = calibrate_mean(12, file=file)

    def never(*_):
        raise AssertionError("this was done before")

    again = calibrate(never, NETWORK, never, replications=12, file=file)
    xr.testing.assert_equal(again.ranks, first.ranks)
    assert calibrate(never, NETWORK, never, replications=5, file=file).num_replications == 5
    longer = calibrate_mean(20, file=file)
    xr.testing.assert_equal(longer.ranks, calibrate_mean(20).ranks)


def test_ranks_of_something_else_are_refused(tmp_path):
    file = tmp_path / "ranks.nc"
    calibrate_mean(12, file=file, settings={"model": "one"})
    with pytest.raises(ValueError, match=r"made with another model and seed, .*`force`"):
        calibrate_mean(12, file=file, settings={"model": "two"}, seed=1)
    with pytest.raises(ValueError, match="made with another draws"):
        calibrate_mean(12, file=file, settings={"model": "one"}, draws=9)
    forced = calibrate_mean(12, file=file, settings={"model": "two"}, seed=1, force=True)
    xr.testing.assert_equal(forced.ranks, calibrate_mean(12, seed=1).ranks)
    (tmp_path / "text.nc").write_text("no ranks")
    with pytest.raises(ValueError, match="not a file of ranks"):
        calibrate_mean(12, file=tmp_path / "text.nc")


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="`replications` must be a whole number of at least 1"):
        calibrate_mean(0)
    with pytest.raises(ValueError, match="`draws` must be a whole number of at least 1"):
        calibrate_mean(draws=0)
    with pytest.raises(ValueError, match="`seed` must be a whole number of at least 0"):
        calibrate_mean(seed=-1)
    with pytest.raises(ValueError, match="`threads` must be a whole number of at least 1"):
        calibrate_mean(threads=0)
    with pytest.raises(ValueError, match="`thin` must be a whole number of at least 1"):
        NearlyIndependent(thin=0)
    with pytest.raises(ValueError, match=r"names the parameters \['m'\], but the draws are of"):
        calibrate(lambda rng: ({"m": 0.0}, np.zeros(2)), NETWORK, sample_mean())
    with pytest.raises(ValueError, match="must make 99 finite draws of 'mean'"):
        calibrate_mean(sample=lambda data, network, draws, seed: sample_mean()(data, network, 5, 0))


@pytest.mark.parametrize("kind", [TuningError, CandidateError])
def test_a_replication_that_fails_is_named_and_ends_the_run(kind, tmp_path):
    calls = []

    def sample(data, network, draws, seed):
        calls.append(None)
        if len(calls) > 3:
            time.sleep(0.01)
            raise kind("no mode was found")
        return sample_mean()(data, network, draws, seed)

    with pytest.raises(st.DivergenceError, match=r"replication 3 of the calibration: no mode"):
        calibrate_mean(sample=sample, threads=1, file=tmp_path / "ranks.nc")
    assert len(calls) < 100  # those that had not begun were dropped
    assert len(xr.load_dataarray(tmp_path / "ranks.nc", engine="h5netcdf")) == 3


REGRESSIONS = {
    "known noise": (st.models.linear_regression, {"noise_std": 0.7}),
    "linear": (st.models.linear_regression, {}),
    "logistic": (st.models.logistic_regression, {}),
    "Poisson": (st.models.poisson_regression, {}),
    "Student-t": (st.models.student_t_regression, {"degrees_of_freedom": 3.0}),
}


@pytest.mark.parametrize("name", REGRESSIONS)
def test_simulated_outcomes_have_the_law_of_the_likelihood(name):
    """At the truth the score s has mean zero, and s^2 the mean of minus the second derivative."""
    make, options = REGRESSIONS[name]
    random = np.random.default_rng(3)
    X, sites = random.normal(size=(6000, 2)), np.repeat([0, 1, 2], [1000, 2000, 3000])
    problem = make(X, np.ones(6000), sites, prior_std=0.3**0.5, **options)
    truth, simulated = simulate(problem, random)
    flat = simulated.unconstrain(truth)
    assert simulated.log_likelihoods == problem.log_likelihoods  # or every problem is compiled
    assert simulated.num_rows.tolist() == [1000, 2000, 3000]
    for site, rows in simulated.shards.items():
        np.testing.assert_array_equal(rows["x"], problem.shards[site]["x"])
    with jax.enable_x64(True):
        score = jax.jacfwd(simulated.log_likelihoods)
        rows = simulated.pooled().shards["pooled"]
        derivatives = jax.jit(lambda z: (score(z, rows), jax.jacfwd(score)(z, rows)))
        scores, hessians = map(np.asarray, derivatives(flat))
    for identity in (scores, scores**2 + np.diagonal(hessians, axis1=1, axis2=2)):
        z_values = identity.sum(axis=0) / np.sqrt((identity**2).sum(axis=0))
        assert np.abs(z_values).max() < 4.5


def test_parameters_are_drawn_from_the_prior():
    X, sites = np.ones((2, 1)), ["a", "b"]
    problem = st.models.student_t_regression(
        X, [0.0, 1.0], sites, prior_std=2.0, noise_prior_std=3.0, intercept=False
    )
    rng = np.random.default_rng(0)
    truths = [simulate(problem, rng)[0] for _ in range(400)]
    beta, scale = (np.array([truth[name] for truth in truths]) for name in ("beta", "scale"))
    assert scipy.stats.kstest(beta[:, 0], scipy.stats.norm(0.0, 2.0).cdf).pvalue > 1e-3
    assert scipy.stats.kstest(scale, scipy.stats.halfnorm(0.0, 3.0).cdf).pvalue > 1e-3


def test_what_cannot_be_simulated_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"flat, hence improper"):
        simulate(gaussian([[[1.0]], [[1.0]]]), rng)
    own = st.Problem(lambda p, row: -row["y"], lambda p: 0.0, {"m": ()}, [{"y": [1.0]}])
    with pytest.raises(ValueError, match=r"write `simulate\(rng\)` for this model"):
        simulate(own, rng)
    either_sign = [[1e6], [-1e6]]
    wide = st.models.poisson_regression(
        either_sign, [1.0, 1.0], ["a", "a"], prior_std=10.0, intercept=False
    )
    with pytest.raises(ValueError, match=r"a Poisson mean of exp\(.*smaller `prior_std`"):
        simulate(wide, rng)


@pytest.fixture
def study(tmp_path, monkeypatch) -> Path:
    """A tuned study of two towns in a folder of its own, with the current folder elsewhere."""
    random = np.random.default_rng(2)
    rows = pd.DataFrame({"x": random.normal(size=12), "y": random.binomial(1, 0.5, 12)})
    rows["town"] = np.repeat(["north", "south"], [4, 8])
    (tmp_path / "study").mkdir()
    rows.to_csv(tmp_path / "study" / "rows.csv", index=False)
    (tmp_path / "study" / "towns.toml").write_text(STUDY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "study" / "towns.toml"


def starlings(*arguments: object):
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [str(one) for one in arguments])


# How draws are made


def with_run(study, lines="", sampler=""):
    """The study with these lines in the section [run], and another section before it."""
    before = STUDY.split("[run]")[0]
    study.write_text(f"{before}{sampler}\n[run]\n{lines}\n", encoding="utf-8")
    return study


DADMMS = '[sampler]\nname = "dadmms"\nrho = 2.0'


@pytest.mark.parametrize(
    ("lines", "sampler", "thin", "found"),
    [
        ("", "", None, BySums()),
        ('method = "auto"\nexactness = "auto"', "", None, BySums()),
        ('method = "hmc"', "", None, BySums("hmc")),
        ('method = "weights"\nprecision = "float32"', "", None, BySums("weights", "float32")),
        ("burn_in = 40", "", None, NearlyIndependent(burn_in=40)),
        ("thin = 3", "", None, NearlyIndependent()),
        ("", "", 3, NearlyIndependent(thin=3)),
        ('method = "dadmms"', "", None, NearlyIndependent()),
        ('method = "midpoint"', "", 7, NearlyIndependent(thin=7, exactness="midpoint")),
        ('exactness = "midpoint"', "", None, NearlyIndependent(exactness="midpoint")),
        ("", DADMMS, None, NearlyIndependent(st.DADMMS(2.0))),
        ("burn_in = 40", DADMMS, 3, NearlyIndependent(st.DADMMS(2.0), 3, 40)),
    ],
)
def test_a_study_is_calibrated_as_it_draws(lines, sampler, thin, found, study):
    assert _sampling(Study.read(with_run(study, lines, sampler)), thin) == found


@pytest.mark.parametrize(
    ("lines", "thin", "words"),
    [
        ('method = "hmc"\nburn_in = 5', None, "`burn_in` is for methods .* burn_in=5 .*'hmc'"),
        ('method = "hmc"\nthin = 5', None, "`thin` is for methods that run in rounds; got thin=5"),
        ('method = "weights"', 4, "`thin` is for methods .* got thin=4 and method='weights'"),
        ("", 0, "`thin` must be a whole number of at least 1"),
    ],
)
def test_lengths_in_rounds_are_refused_where_there_are_none(lines, thin, words, study):
    with pytest.raises(ValueError, match=words):
        calibrate_study(with_run(study, lines), thin=thin)


@pytest.mark.parametrize(("draws", "asked"), [(7, 1000), (30, 1000), (2000, 2000)])
def test_draws_of_all_chains_are_thinned_evenly(draws, asked, monkeypatch):
    """The k-th of N draws, counted over the chains first, is number round((N - 1) k / (draws - 1)).

    Of 3 chains with 1000 draws in each the number is 3 d + c.
    """
    numbers = 3 * np.arange(1000) + np.arange(3)[:, None]
    values = numbers[:, :, None, None] + 0.25 * np.arange(2)[:, None] + 0.125 * np.arange(4)
    variables = {"x": (("chain", "draw", "agent", "x_dim_0"), values)}
    posterior = xr.Dataset(variables, {"agent": ["a", "b"], "x_dim_0": list("pqrs")})
    calls = []

    def sample(*arguments, **how):
        calls.append((arguments, how))
        return SimpleNamespace(posterior=posterior)

    monkeypatch.setattr(replications, "run_sampler", sample)
    found = BySums("hmc", "float32")("problem", "network", draws, 5)
    how = {"method": "hmc", "precision": "float32", "seed": 5, "draws": asked}
    assert calls == [(("problem", "network"), {**how, "progress": False, "check": False})]
    assert found["x"].dims == ("chain", "draw", "agent", "x_dim_0")
    assert dict(found.sizes) == {"chain": 1, "draw": draws, "agent": 2, "x_dim_0": 4}
    kept = np.rint(np.linspace(0, 2999, draws))
    np.testing.assert_array_equal(found["x"][0, :, 0, 0], kept)
    np.testing.assert_array_equal(found["x"][0, :, 1, 3], kept + 0.25 + 3 * 0.125)
    assert len(set(kept)) == draws
    assert found["x_dim_0"].values.tolist() == list("pqrs")


@pytest.mark.slow
def test_a_study_is_calibrated_by_a_method_on_sums(study, tmp_path):
    """Ranks by hand, from the draws of the first replication; another method has other ranks."""
    how = {"replications": 3, "draws": 9, "progress": False}
    found, folder = calibrate_study(with_run(study, 'method = "weights"'), tmp_path / "out", **how)
    plan = Study.read(study)
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    rng = np.random.default_rng([0, 0])
    truth, simulated = simulate(problem, rng)
    drawn = BySums("weights")(simulated, network, 9, int(rng.integers(2**32)))
    np.testing.assert_array_equal(found.ranks[0], rank(truth, drawn, 9))
    with pytest.raises(ValueError, match="made with another method"):
        calibrate_study(with_run(study, 'method = "hmc"'), folder, **how)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "weights-metropolis", "hmc"])
def test_methods_on_sums_are_calibrated(method, study):
    plan = Study.read(with_run(study))
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    found = calibrate(
        partial(simulate, problem), network, BySums(method), replications=100, progress=False
    )
    assert found.ok, found.verdict


@pytest.mark.slow
def test_the_command_from_end_to_end(study, tmp_path):
    outcome = starlings("calibrate", study, *LENGTHS)
    assert outcome.exit_code == 0, outcome.output
    folder = tmp_path / "towns-calibration"
    for name in ("calibration.png", "calibration.svg", "calibration.csv", "ranks.nc"):
        assert (folder / name).stat().st_size > 0
    table = pd.read_csv(folder / "calibration.csv", index_col="parameter")
    assert f"{table.loc['beta[x]', 'p_value']:.2g}" in outcome.stdout
    assert f"{100 * table.loc['beta[x]', 'coverage_90%']:.1f} ± 8.7 %" in outcome.stdout
    assert "beta[x]" in outcome.stdout
    assert "12 replications" in outcome.stdout
    assert "towns-calibration" in outcome.stdout

    ranks = xr.load_dataarray(folder / "ranks.nc", engine="h5netcdf")
    assert ranks["agent"].values.tolist() == ["north", "south"]
    rows = pd.read_csv(study.parent / "rows.csv", float_precision="round_trip")
    rows.assign(y=1 - rows["y"]).to_csv(study.parent / "rows.csv", index=False)
    quiet = starlings("calibrate", study, *LENGTHS, "--quiet")  # outcomes play no part
    assert (quiet.exit_code, quiet.output.count("\n")) == (0, 1)
    xr.testing.assert_equal(xr.load_dataarray(folder / "ranks.nc", engine="h5netcdf"), ranks)

    study.write_text(STUDY.replace("prior_std = 1.0", "prior_std = 2.0"), encoding="utf-8")
    changed = starlings("calibrate", study, *LENGTHS)
    assert changed.exit_code == 1
    assert "made with another model" in changed.output
    forced = starlings("calibrate", study, *LENGTHS, "--force", "--quiet")
    assert forced.exit_code == 0, forced.output


@pytest.mark.slow
def test_the_draws_are_those_of_sample_and_compiled_once(study):
    plan = Study.read(study)
    problem = plan.make_problem()
    network = plan.make_network(problem.sites)
    independent = NearlyIndependent(burn_in=40)
    compiled = []
    for seed in range(3):
        _, simulated = simulate(problem, np.random.default_rng(seed))
        drawn = independent(simulated, network, 9, seed)
        compiled.append(loop.advance._cache_size())
    assert compiled[1:] == compiled[:1] * 2
    tuning = json.loads(
        st.sample(simulated, network, draws=9, chains=1, burn_in=40, progress=False).attrs["tuning"]
    )
    thin = math.ceil(2 * tuning["predicted_rounds_per_draw"])
    lengths = {"draws": 9, "chains": 1, "burn_in": 40, "thin": thin, "seed": seed}
    direct = st.sample(simulated, network, **lengths, progress=False)
    np.testing.assert_array_equal(drawn["beta"], direct.posterior["beta"])


def test_the_figure_shows_the_worst_of_many():
    found = uniform_ranks(60, 20, 9, 19)
    figure = draw(found)
    assert len(figure.axes) == MOST_AGENTS * (MOST_PARAMETERS + 1)
    worst = found.p_values.isel(found.p_values.argmin(("agent", "parameter")))
    shown = {axis.get_ylabel() for axis in figure.axes}
    assert str(worst["agent"].item()) in shown
    assert str(worst["parameter"].item()) in {axis.get_title() for axis in figure.axes}
