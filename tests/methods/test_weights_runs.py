"""Runs by importance weights, from `sample` to the result."""

from __future__ import annotations

import json
import os
import signal
import time
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import starlings as st
from starlings.calibration import calibrate
from starlings.calibration.replications import BySums
from starlings.errors import (
    CandidateError,
    DivergenceError,
    PosteriorWarning,
    TuningError,
    in_one_line,
)
from starlings.methods import batches, weights
from starlings.methods.weights import CandidateSums
from starlings.network.gossip import Gossip
from starlings.sampling import choice
from starlings.sampling.undefined import in_words, undefined_sites
from starlings.tuning.tuner import coordinates_at_mode
from tests.mpi import mpi, needs_mpi
from tests.problems import irregular_graph, logistic_rows, unequal_poisson_problem
from tests.quick import quick_cases

DRAWS = 500
"""Draws of a chain; there are four."""


def run(problem, network, **options):
    return st.sample(problem, network, **{"method": "weights", "draws": DRAWS, **options})


def draws_of(result):
    """Draws of one parameter with all its entries, (chain, draw, agent, ...)."""
    (name,) = result.posterior.data_vars
    return result.posterior[name].values


def candidates_of(result):
    return json.loads(result.attrs["sampler_settings"])


def assert_law(draws, exact_mean, exact_sd):
    """Means within four Monte Carlo errors, as of independent draws."""
    flat = draws[:, :, 0].reshape(-1, *draws.shape[3:])
    error = exact_sd / np.sqrt(len(flat))
    assert (np.abs(flat.mean(axis=0) - exact_mean) < 4 * error).all()


def shared_out(log_density, agents=3, **columns):
    """A density of one number, of which every agent has its share, and columns of its own."""
    entries = [
        {name: [float(column[i])] for name, column in columns.items()} for i in range(agents)
    ]
    shards = [{"share": [1 / agents], **entry} for entry in entries]
    return st.Problem(log_density, lambda p: 0.0, {"x": ()}, shards)


def log_gamma(p, row):
    """The logarithm of a gamma variable of shape 1.5: its first candidates have a bad k-hat."""
    x, shape = p["x"], 1.5
    return row["share"] * (jnp.sqrt(shape) * x - shape * jnp.exp(x / jnp.sqrt(shape)))


def moments(density, low, high):
    """Mean and standard deviation by quadrature."""
    grid = np.linspace(low, high, 20_001)
    values = density(grid)
    total, first, second = (integrate.trapezoid(values * grid**k, grid) for k in range(3))
    return first / total, np.sqrt(second / total - (first / total) ** 2)


@pytest.fixture(scope="module")
def problem():
    """Three coefficients at six sites, the first of which has one row."""
    return unequal_poisson_problem()


@pytest.fixture(scope="module")
def network():
    return st.Network(irregular_graph())


@pytest.fixture(scope="module")
def result(problem, network):
    return run(problem, network, seed=7)


# Draws


def test_all_agents_have_the_same_draws_in_every_bit(result):
    draws = draws_of(result)
    assert draws.shape == (4, DRAWS, 6, 3)
    np.testing.assert_array_equal(draws, np.repeat(draws[:, :, :1], 6, axis=2))


def test_what_a_result_says(result):
    attrs = result.attrs
    assert attrs["method"] == "weights"
    assert attrs["pareto_k"] < 0.5
    assert candidates_of(result) == {"candidates": 4096, "batches": 1, "draws_by": "resampling"}
    assert 4 * DRAWS < attrs["effective_candidates"] < 4096
    assert result.log_evidence == (attrs["log_evidence"], attrs["log_evidence_error"])
    assert result.sample_stats["log_weight"].dims == ("chain", "draw")
    check = result.check()
    assert check.ok, str(check)
    assert f"a Pareto k-hat of {attrs['pareto_k']:.2f}" in str(check)


def test_the_seed_decides_on_the_draws(problem, network, result):
    np.testing.assert_array_equal(draws_of(run(problem, network, seed=7)), draws_of(result))
    other = run(problem, network, seed=8)
    assert not np.isin(draws_of(other), draws_of(result)).any()
    errors = np.hypot(other.log_evidence.error, result.log_evidence.error)
    assert abs(other.log_evidence.value - result.log_evidence.value) < 4 * errors


@pytest.mark.parametrize("kind", ["ring", "complete", "star", "path"])
def test_draws_do_not_depend_on_the_network(problem, result, kind):
    """Candidates are the same; their sums, and the mode, differ by rounding."""
    other = run(problem, getattr(st.Network, kind)(6), seed=7)
    np.testing.assert_allclose(draws_of(other), draws_of(result), rtol=0, atol=1e-8)
    assert other.log_evidence.value == pytest.approx(result.log_evidence.value, abs=1e-8)


def test_a_single_agent_has_the_draws_of_all(problem, result):
    alone = run(problem.pooled(), st.Network.complete(1), seed=7)
    np.testing.assert_allclose(draws_of(alone)[:, :, 0], draws_of(result)[:, :, 0], atol=1e-8)
    assert (alone.attrs["network_rounds"], alone.attrs["bytes_sent"]) == (0, 0)


def test_single_precision_is_double_precision_rounded(problem, network, result):
    """Positions are rounded in units of the posterior; none is farther than 32 from the mode."""
    single, double = draws_of(run(problem, network, seed=7, precision="float32")), draws_of(result)
    apart = np.abs(single - double) / double.std(axis=(0, 1, 2))
    assert 0 < apart.max() < 32 * 3 * np.finfo(np.float32).eps


@pytest.mark.slow
def test_any_number_of_chains_and_draws(problem, network):
    odd = run(problem, network, draws=33, chains=7)
    assert draws_of(odd).shape == (7, 33, 6, 3)
    assert candidates_of(odd)["candidates"] == 512
    assert draws_of(run(problem, network, draws=1, chains=1)).shape == (1, 1, 6, 3)


@pytest.mark.quick(1)
@pytest.mark.parametrize("rows", [[1, 40, 3, 7, 20, 2], [300, 1], [1, 1]], ids=str)
def test_the_law_of_a_linear_regression_with_unequal_sites(rows):
    """Sites of one row, one site that has nearly all rows, and two sites with two rows in all."""
    random = np.random.default_rng(3)
    X = random.normal(size=(sum(rows), 3))
    y = X @ [1.0, -2.0, 0.5] + random.normal(size=sum(rows))
    sites = np.repeat(np.arange(len(rows)), rows)
    options = {"noise_std": 1.0, "prior_std": 2.0, "intercept": False}
    problem = st.models.linear_regression(X, y, sites, **options)
    mean, covariance = problem.exact_posterior()
    draws = draws_of(run(problem, st.Network.path(len(rows))))
    assert_law(draws, mean, np.sqrt(np.diag(covariance)))
    root = np.linalg.cholesky(covariance)
    whitened = np.linalg.solve(root, (draws[:, :, 0].reshape(-1, 3) - mean).T)
    moment = whitened @ whitened.T / whitened.shape[1]
    assert np.abs(moment - np.eye(3)).max() < 4 * np.sqrt(2 / whitened.shape[1])


# Messages


@pytest.mark.slow
def test_a_batch_is_exactly_one_sum(problem, network, monkeypatch):
    widths, plain = [], Gossip.sum

    def noted(self, parts, *what):
        widths.append(np.reshape(parts, (len(parts), -1)).shape[1])
        return plain(self, parts, *what)

    monkeypatch.setattr(Gossip, "sum", noted)
    short, long = (run(problem, network, draws=draws).attrs for draws in (250, 500))
    assert widths.count(2048 + 2) == widths.count(4096 + 2) == 1
    assert sum(width > 1000 for width in widths) == 2
    with jax.enable_x64(True):
        messages = int(Gossip(network).messages_by_agent.sum())
    assert long["bytes_sent"] - short["bytes_sent"] == 8 * messages * 2048
    assert long["network_rounds"] == short["network_rounds"]


def test_a_refit_costs_one_sum_more(monkeypatch):
    widths, plain = [], Gossip.sum

    def noted(self, parts, *what):
        widths.append(np.reshape(parts, (len(parts), -1)).shape[1])
        return plain(self, parts, *what)

    monkeypatch.setattr(Gossip, "sum", noted)
    refitted = run(shared_out(log_gamma), st.Network.path(3))
    assert candidates_of(refitted)["batches"] == 3
    assert widths[-3:] == [4098] * 3
    assert_law(draws_of(refitted), *moments(lambda x: np.exp(_log_gamma(x)), -15, 5))


def _log_gamma(x):
    return np.sqrt(1.5) * x - 1.5 * np.exp(x / np.sqrt(1.5))


def test_blocks_of_candidates_change_nothing(problem, network, result, monkeypatch):
    monkeypatch.setattr(weights, "BLOCK_BYTES", 8 * 54 * 300)
    blocked = run(problem, network, seed=7)
    np.testing.assert_allclose(draws_of(blocked), draws_of(result), rtol=0, atol=1e-10)


# Many draws


def test_as_many_batches_as_many_draws_need(monkeypatch):
    """Eight times as many as refits could be, from one proposal."""
    monkeypatch.setattr(batches, "LARGEST_BATCH", 256)
    asked, plain = [], batches.may_go_on
    monkeypatch.setattr(choice, "may_go_on", lambda *of: asked.append(of) or plain(*of))
    problem = shared_out(lambda p, row: -0.5 * row["share"] * p["x"] ** 2)
    network = st.Network.path(3)
    found = run(problem, network, draws=4000, chains=4)
    assert_law(draws_of(found), 0.0, 1.0)
    number = candidates_of(found)["batches"]
    assert number == 64
    assert candidates_of(found)["candidates"] == 256 * number
    assert len(asked) < 3 * np.log2(number)  # k-hat is looked at now and then
    candidates = asked[-1][0]
    assert len(candidates.log_densities) == len(candidates.proposals) == 1
    automatic = run(problem, network, draws=4000, chains=4, method="auto")
    np.testing.assert_array_equal(draws_of(automatic), draws_of(found))
    assert automatic.attrs["method"] == "weights"


def test_good_weights_of_too_few_candidates_are_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(batches, "LARGEST_BATCH", 64)
    monkeypatch.setattr(batches, "MOST_PER_DRAW", 1)
    problem = shared_out(lambda p, row: -0.5 * row["share"] * p["x"] ** 2)
    words = (
        r"^too few candidates are effective: [\d,]+ of [\d,]+, and 4,000 were asked for. Their "
        r"weights can be trusted \(Pareto k-hat -?\d.\d\d\): ask for fewer draws, or use method"
    )
    with pytest.raises(CandidateError, match=words):
        run(problem, st.Network.path(3), draws=1000)


@pytest.mark.slow
def test_a_million_draws_of_each_chain():
    """In 2 GB and well under a minute."""
    problem = shared_out(lambda p, row: -0.5 * row["share"] * p["x"] ** 2, agents=2)
    began = time.monotonic()
    found = run(problem, st.Network.path(2), draws=1_000_000, check=False)
    assert time.monotonic() - began < 60
    assert draws_of(found).shape == (4, 1_000_000, 2)
    assert_law(draws_of(found), 0.0, 1.0)


# Potentials that are not defined everywhere


def cut_off(p, row):
    """N(0, 1), times 3/2 - x at one site: undefined above 3/2."""
    return -0.5 * p["x"] ** 2 * row["share"] + row["is_cut"] * jnp.log(1.5 - p["x"])


def walled(p, row):
    """N(0, 1), and nothing above 1/2 at one site: infinite there."""
    is_outside = (p["x"] > 0.5) & (row["is_cut"] == 1)
    return jnp.where(is_outside, -jnp.inf, -0.5 * p["x"] ** 2 * row["share"])


@pytest.mark.parametrize(
    ("likelihood", "end", "factor"),
    [(cut_off, 1.5, lambda x: 1.5 - x), (walled, 0.5, np.ones_like)],
    ids=["NaN", "infinite"],
)
def test_candidates_that_one_site_cannot_evaluate_have_no_weight(likelihood, end, factor):
    cut = shared_out(likelihood, is_cut=[0, 1, 0])
    found = run(cut, st.Network.path(3), check=False)
    draws = draws_of(found)
    assert draws.max() < end
    assert np.isfinite(found.sample_stats["log_weight"]).all()
    assert_law(draws, *moments(lambda x: np.exp(-0.5 * x**2) * factor(x), -9, end))
    share, is_nan = found.attrs["undefined_share"], likelihood is cut_off
    assert (share > 0) == is_nan
    assert ("Cut off: for" in str(found.check())) == is_nan


def half_undefined(p, row):
    """N(0, 1), and NaN above one at one site."""
    is_outside = (p["x"] > 1) & (row["is_cut"] == 1)
    return -0.5 * p["x"] ** 2 * row["share"] + jnp.where(is_outside, jnp.nan, 0.0)


def test_a_site_whose_potential_is_undefined_is_named():
    """Some 16 % of N(0, 1) are above one; HMC cannot tell which site it is."""
    problem, network = shared_out(half_undefined, is_cut=[0, 1, 0]), st.Network.path(3)
    with pytest.warns(
        PosteriorWarning, match=r"Cut off: for 1\d % of the candidates .* of site '1'"
    ):
        found = run(problem, network)
    assert found.attrs["undefined_share"] == pytest.approx(0.16, abs=0.03)
    assert json.loads(found.attrs["undefined_sites"]) == ["1"]
    words = r"Cut off: for [\d.]+ % of the trajectories of HMC .* of some site is NaN"
    with pytest.warns(PosteriorWarning, match=words):
        found = run(problem, network, method="hmc")
    assert found.attrs["undefined_share"] > 0.05


def all_undefined(p, row):
    """N(0, 1), and NaN everywhere at one site."""
    return jnp.where(row["is_cut"] == 1, jnp.nan, -0.5 * p["x"] ** 2 * row["share"])


@pytest.mark.parametrize("method", ["auto", "weights", "hmc"])
def test_a_site_that_is_undefined_everywhere_is_named(method):
    problem = shared_out(all_undefined, is_cut=[0, 1, 0])
    with pytest.raises(TuningError, match=r"is not finite .* The rows of site '1' give NaN there"):
        run(problem, st.Network.path(3), method=method)


def test_nothing_is_said_of_a_site_where_messages_are_masked():
    potentials = np.array([[0.0, np.nan], [1.0, np.inf], [-np.inf, 0.0]])
    network = st.Network.path(3)
    assert undefined_sites(network, potentials) == ["0", "2"]
    assert in_words(["0", "2"]) == " The rows of sites '0', '2' give NaN there."
    assert (in_words(["b"]), in_words([])) == (" The rows of site 'b' give NaN there.", "")
    masked = SimpleNamespace(secrecy="any", local=np.arange(3), local_names=["0", "1", "2"])
    assert undefined_sites(masked, potentials) == []
    own = SimpleNamespace(secrecy="any", local=np.array([2]), local_names=["2"])
    assert undefined_sites(own, potentials[2:]) == ["2"]


def spike(p, row):
    """Defined within 1e-6 of zero only, at one site."""
    is_outside = (jnp.abs(p["x"]) > 1e-6) & (row["is_cut"] == 1)
    return jnp.where(is_outside, jnp.nan, -0.5 * p["x"] ** 2 * row["share"])


def test_no_candidate_that_all_sites_can_evaluate():
    problem = shared_out(spike, is_cut=[0, 1, 0])
    with pytest.raises(CandidateError, match=r"none of 4,096 candidates .* site '1' give NaN"):
        run(problem, st.Network.path(3), initial={"x": 0.0})


# What weights cannot do


def two_modes(p, row):
    """N(0, 1) and N(20, 1), equally likely."""
    x = p["x"]
    return row["share"] * jnp.logaddexp(-0.5 * x**2, -0.5 * (x - 20) ** 2)


def test_a_mode_that_no_candidate_is_near_is_not_seen():
    """k-hat judges the candidates that there are; only draws from elsewhere show the other mode."""
    found = run(shared_out(two_modes), st.Network.path(3), initial={"x": 0.5})
    assert draws_of(found).max() < 10
    assert found.attrs["pareto_k"] < 0  # it looks perfect
    half = np.log(np.sqrt(2 * np.pi))  # the evidence of one of the two modes
    assert found.log_evidence.value == pytest.approx(half, abs=4 * found.log_evidence.error)
    check = found.check()
    assert check.ok, str(check)
    assert "sees everything but a mode that no candidate came near" in str(check)
    random = np.random.default_rng(0)
    both = {"x": random.normal(size=1000) + 20 * random.integers(2, size=1000)}
    assert "Wrong law: x at agent 0" in str(found.check(both))


def banana(p, row):
    """x ~ N(0, 1) and y ~ N(x^2, 0.1^2)."""
    x, y = p["x"][0], p["x"][1]
    return -row["share"] * (0.5 * x**2 + 50 * (y - x**2) ** 2)


def test_weights_that_cannot_stand_for_the_posterior_are_refused():
    shards = 3 * [{"share": [1 / 3]}]
    problem = st.Problem(banana, lambda p: 0.0, {"x": (2,)}, shards)
    expected = (
        r"importance weights cannot stand for this posterior: their Pareto k-hat is [\d.]+ "
        r"\(trusted below 0.5\), and [\d,]+ of 8,192 candidates are effective \(400 were asked "
        r'for\), after 8 batches. Use method="hmc", which is exact for any posterior, or '
        r'method="auto".'
    )
    with pytest.raises(CandidateError, match=f"^{expected}$") as raised:
        run(problem, st.Network.path(3), draws=100)
    assert in_one_line(raised.value) == f"Error: {raised.value}"


def test_a_calibration_names_the_data_set_whose_weights_are_refused(problem):
    def refused(*_):
        raise CandidateError("importance weights cannot stand for this posterior")

    simulate = partial(st.models.simulate, problem)
    with pytest.raises(DivergenceError, match="replication 0 of the calibration: importance we"):
        calibrate(simulate, st.Network.path(6), refused, replications=2, threads=1)


def test_lengths_in_rounds_are_refused(problem, network):
    with pytest.raises(ValueError, match=r"`thin` is for methods that run in rounds; got thin=2"):
        run(problem, network, thin=2)


# Interrupted runs


@pytest.fixture
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_at(monkeypatch, batch):
    """Press Ctrl-C while the potentials of a batch are computed."""
    plain, calls = CandidateSums.at, []

    def interrupted(self, points):
        calls.append(None)
        if len(calls) == batch:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(self, points)

    monkeypatch.setattr(CandidateSums, "at", interrupted)
    return calls


@pytest.mark.usefixtures("default_handler")
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_an_interrupted_run_goes_on_to_the_same_draws(tmp_path, monkeypatch, batch):
    """Its batch is completed and saved; the resumed run draws only those that are missing."""
    problem, network = shared_out(log_gamma), st.Network.path(3)
    whole = run(problem, network)
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        interrupt_at(patch, batch)
        words = r"before the first draw. What was done is saved in .*run: go on .*`resume=True`"
        with pytest.raises(KeyboardInterrupt, match=words):
            run(problem, network, checkpoint=folder)
    calls = interrupt_at(monkeypatch, None)
    resumed = run(problem, network, checkpoint=folder, resume=True)
    assert len(calls) == 3 - batch
    np.testing.assert_array_equal(draws_of(resumed), draws_of(whole))
    for name in ("network_rounds", "bytes_sent", "pareto_k", "log_evidence", "newton_iterations"):
        assert resumed.attrs[name] == whole.attrs[name]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "weights", "hmc", "dadmms"])
def test_an_interrupt_before_the_first_draw_says_how_to_go_on(tmp_path, monkeypatch, method):
    """The mode is saved once it is found, and is not looked for again."""
    problem, network, folder = shared_out(log_gamma), st.Network.path(3), tmp_path / "run"
    how = {"method": method, "draws": 25, "check": False}
    located = []

    def stop(*_, **__):
        raise KeyboardInterrupt

    def noted(*arguments):
        located.append(None)
        return coordinates_at_mode(*arguments)

    monkeypatch.setattr("starlings.sampling.on_sums.coordinates_at_mode", noted)
    with monkeypatch.context() as patch:
        patch.setattr("starlings.sampling.by_weights.weighted_candidates", stop)
        patch.setattr("starlings.sampling.choice.run_hmc", stop)
        patch.setattr("starlings.sampling.tuned.run_rounds", stop)
        with pytest.raises(KeyboardInterrupt, match=r"nothing is saved. A run with `output` or"):
            run(problem, network, **how)
        located.clear()
        with pytest.raises(KeyboardInterrupt, match=r"is saved in .*run: go on .*`resume=True`"):
            run(problem, network, **how, checkpoint=folder)
    assert len(located) == (method != "dadmms")
    with monkeypatch.context() as patch:
        patch.setattr("starlings.sampling.tuned.tune", stop)
        resumed = run(problem, network, **how, checkpoint=folder, resume=True)
    assert len(located) == (method != "dadmms")
    whole = run(problem, network, **how)
    np.testing.assert_array_equal(draws_of(resumed), draws_of(whole))
    assert resumed.attrs["network_rounds"] == whole.attrs["network_rounds"]


def test_an_interrupt_before_anything_is_saved_says_so(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("starlings.sampling.on_sums.coordinates_at_mode", stop)
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt, match=r"before anything was saved in .*run; begin again"):
        run(shared_out(log_gamma), st.Network.path(3), checkpoint=folder)


@pytest.mark.slow
def test_a_finished_run_is_resumed_with_more_draws(tmp_path, problem, network):
    folder = tmp_path / "run"
    short = run(problem, network, draws=250, checkpoint=folder)
    assert candidates_of(short)["candidates"] == 2048
    again = run(problem, network, draws=250, checkpoint=folder, resume=True)
    np.testing.assert_array_equal(draws_of(again), draws_of(short))
    long = run(problem, network, draws=1000, checkpoint=folder, resume=True)
    assert draws_of(long).shape == (4, 1000, 6, 3)
    assert candidates_of(long)["batches"] == 2
    more = long.attrs["network_rounds"] - short.attrs["network_rounds"]
    with jax.enable_x64(True):
        assert more == Gossip(network).rounds_per_sum
    kept = np.isin(draws_of(long), draws_of(short)).mean()
    assert kept > 0.1  # candidates of the first run are drawn again
    errors = np.hypot(long.log_evidence.error, short.log_evidence.error)
    assert abs(long.log_evidence.value - short.log_evidence.value) < 4 * errors
    with pytest.raises(ValueError, match="its `seed` is 0, not 1"):
        run(problem, network, checkpoint=folder, resume=True, seed=1)


def test_a_run_into_a_file(tmp_path, problem, network, result):
    file = tmp_path / "draws.nc"
    run(problem, network, seed=7, output=file)
    loaded = st.load(file)
    np.testing.assert_array_equal(draws_of(loaded), draws_of(result))
    assert loaded.log_evidence == result.log_evidence
    assert [path.name for path in tmp_path.iterdir()] == ["draws.nc"]


# Several processes, and many data sets


MPI_CASES = {
    "one batch": "unequal_poisson_problem(), st.Network(irregular_graph())",
    "all are neighbours": "unequal_poisson_problem(), st.Network.complete(6)",
    "three batches": "shared_out(log_gamma, agents=4), st.Network.ring(4)",
}


@pytest.mark.slow
@needs_mpi
@pytest.mark.parametrize("case", quick_cases(MPI_CASES, ["one batch"]))
def test_two_processes_have_the_same_draws(case):
    program = """
import numpy as np
import starlings as st
from starlings.runtime.mpi.cluster import Cluster
from tests.methods.test_weights_runs import draws_of, log_gamma, run, shared_out
from tests.mpi import placed
from tests.problems import irregular_graph, unequal_poisson_problem
problem, network = CASE
with Cluster() as cluster:
    part, shared = placed(cluster, problem, network)
    assert 0 < len(part.shards) < network.size
    found = run(part, shared)
    assert (found is not None) == cluster.is_first
    if found is not None:
        alone = run(problem, network)
        np.testing.assert_allclose(draws_of(found), draws_of(alone), rtol=0, atol=1e-8)
        assert found.attrs["network_rounds"] == alone.attrs["network_rounds"]
        assert found.attrs["bytes_sent"] == alone.attrs["bytes_sent"]
    print("the same")
"""
    done = mpi(2, "-c", program.replace("CASE", MPI_CASES[case]))
    assert done.stdout.count("the same") == 2, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("method", ["weights", "weights-metropolis"])
def test_posteriors_are_calibrated(method):
    """Ranks of true values among draws are uniform, over 200 simulated data sets."""
    X, y, sites = logistic_rows(60)
    problem = st.models.logistic_regression(X, y, sites, prior_std=1.0, intercept=False)
    simulate = partial(st.models.simulate, problem)
    network = st.Network.ring(problem.num_agents)
    found = calibrate(simulate, network, BySums(method), replications=200)
    assert (found.ranks == found.ranks.isel(agent=0)).all()
    smallest = float(found.p_values.min())
    assert smallest > 0.01 / 3, found.verdict  # three parameters; the agents are one test


@pytest.mark.slow
def test_weights_in_200_dimensions():
    """A Gaussian with a known law and a known evidence, in coordinates that are turned."""
    dim, random = 200, np.random.default_rng(0)
    turn, _ = np.linalg.qr(random.normal(size=(dim, dim)))
    precisions = np.exp(random.normal(size=dim) / 2)
    hessian = turn * precisions @ turn.T
    problem = st.models.gaussian([share * hessian for share in (0.2, 0.3, 0.5)])
    how = {"method": "weights", "draws": 1000, "check": False, "progress": False}
    result = st.sample(problem, st.Network.ring(3), **how)
    draws = result.posterior["x"].values[:, :, 0].reshape(-1, dim)
    units = draws @ turn * np.sqrt(precisions)  # N(0, I)
    assert np.abs(units.mean(axis=0)).max() < 4.5 / np.sqrt(len(units))
    assert np.abs(units.var(axis=0) - 1).max() < 4.5 * np.sqrt(2 / len(units))
    exact = (dim * np.log(2 * np.pi) - np.log(precisions).sum()) / 2
    assert result.log_evidence.value == pytest.approx(exact, abs=0.01)
