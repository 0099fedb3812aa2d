"""Who chooses how draws are made, what is chosen where, and what a result says that it cost."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import starlings as st
from starlings.errors import CandidateError, TuningError
from starlings.methods.batches import next_size
from starlings.methods.hmc import SummedChains
from starlings.methods.lockstep import CHAINS as HMC_CHAINS
from starlings.methods.lockstep import SUPERCHAINS
from starlings.methods.one_shot import COMBINATIONS
from starlings.methods.weights import LARGEST_K, WeightedCandidates
from starlings.network.gossip import Gossip
from starlings.samplers import PilotLength
from starlings.sampling import automatic, tuned
from starlings.sampling.automatic import Automatic
from starlings.sampling.by_hmc import START_TRIES
from starlings.sampling.by_one_shot import InOneShot
from starlings.sampling.choice import METHODS, GivenSampler, OnSums, choice_of
from starlings.sampling.on_sums import SumsRun
from starlings.sampling.request import Request, RequestedSchedule
from starlings.sampling.tuned import TunedSampler, num_chains, tuned_setup
from starlings.system.progress import Progress
from starlings.tuning import tune
from starlings.tuning.ladder import RUNGS
from starlings.tuning.pilot import SHORT_PILOT
from starlings.tuning.tuner import STEP, Coordinates
from tests.problems import irregular_graph, unequal_linear_problem
from tests.quick import quick_cases
from tests.tuning.test_confirmation import gamma_k
from tests.tuning.test_pilot import waiting_problem
from tests.tuning.test_tuning import centred_problem

IRREGULAR = st.Network(irregular_graph())
LINKS, UPWARDS, DEPTH, DIM = 14, 5, 2, 3
"""Of `IRREGULAR`: twice its edges, links towards the root, levels below it; parameters there."""
PER_SUM = UPWARDS + LINKS
"""Messages of one sum."""
DERIVATIVES = 1 + DIM + DIM * (DIM + 1) // 2
"""Numbers of a value, a gradient and half a Hessian."""
QUIET = {"progress": False, "check": False}


# What the arguments mean


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("dadmms", st.DADMMS(1.0), "auto"), r"`sampler` and `method` both .*'dadmms'"),
        (("auto", st.DADMMS, "midpoint"), r"`sampler` and `exactness` both .*'midpoint'"),
        (("hmc", None, "midpoint"), r"`method` and `exactness` .*'hmc' and 'midpoint'. Leave one"),
        (("dadmms", None, "midpoint"), r"`method` and `exactness` both say how draws are made"),
        (("midpoint", None, "midpoint"), r"`method` and `exactness` both say how draws are made"),
        (("hmc", st.DADMMS(1.0), "midpoint"), r"`sampler` and `method` both say"),
        (("weigths", None, "auto"), r"`method` must be one of .* Did you mean 'weights'"),
        (("auto", None, "midpont"), r"`exactness` must be one of .* Did you mean 'midpoint'"),
        (("auto", None, "weights"), r"`exactness` must be one of \['auto', 'coherent'"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(arguments, words):
    method, sampler, exactness = arguments
    with pytest.raises(ValueError, match=words):
        choice_of(sampler, method, exactness, has_rounds=False)
    with pytest.raises(ValueError, match=words):
        st.sample(unequal_linear_problem(), IRREGULAR, sampler, method=method, exactness=exactness)


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        ("dadmms", r"must be a `starlings.Sampler`.*got 'dadmms'. Names are for studies"),
        (7, r"must be a `starlings.Sampler`, such as `starlings.DADMMS\(rho=5.0\)`, got 7.$"),
        (float, r"must be a `starlings.Sampler`"),
    ],
)
def test_what_is_no_sampler_is_refused(sampler, words):
    with pytest.raises(TypeError, match=words):
        st.sample(unequal_linear_problem(), IRREGULAR, sampler)


def test_a_class_that_cannot_be_tuned_is_refused():
    with pytest.raises(TypeError, match=r"class DSGLD, which has no rule `tuned`.*`DSGLD\(...\)`"):
        st.sample(unequal_linear_problem(), IRREGULAR, st.DSGLD)


@pytest.mark.parametrize("method", ["weights", "weights-metropolis", "hmc"])
@pytest.mark.parametrize("length", ["burn_in", "thin"])
def test_lengths_in_rounds_are_refused_where_there_are_no_rounds(method, length):
    words = f"`{length}` is for methods that run in rounds; got {length}=5 and method='{method}'"
    with pytest.raises(ValueError, match=words):
        st.sample(unequal_linear_problem(), IRREGULAR, method=method, **{length: 5})


@pytest.mark.parametrize("has_rounds", [False, True])
def test_every_method_is_somebodys_choice(has_rounds):
    chosen = {method: choice_of(None, method, "auto", has_rounds) for method in METHODS}
    on_sums = ("weights", "weights-metropolis", "hmc", "marginal-hmc")
    assert chosen == {
        "auto": TunedSampler(None, "auto") if has_rounds else Automatic(),
        **{method: OnSums(method) for method in on_sums},
        **{method: InOneShot(method) for method in COMBINATIONS},
        "dadmms": TunedSampler(None, "auto"),
        **{rung: TunedSampler(None, rung) for rung in RUNGS},
    }
    for rung in RUNGS:
        assert choice_of(None, "auto", rung, has_rounds) == chosen[rung]
    given = st.DADMMS(2.0)
    assert choice_of(given, "auto", "auto", has_rounds) == GivenSampler(given)
    assert choice_of(st.DADMMS, "auto", "auto", has_rounds) == TunedSampler(st.DADMMS)


@pytest.mark.quick(1)
@pytest.mark.parametrize("method", quick_cases(["dadmms", *RUNGS], ["dadmms", "midpoint"]))
def test_a_rung_is_what_runs(method, monkeypatch):
    short = PilotLength(chains=16, cycles=50, draws=25)
    monkeypatch.setattr(st.Metropolis, "pilot", short)
    result = st.sample(
        unequal_linear_problem(), IRREGULAR, method=method, chains=1, draws=2, **QUIET
    )
    assert result.attrs["method"] == ("half-noise" if method == "dadmms" else method)
    kind = {"midpoint": "MidpointADMMS"}.get(method, "DADMMS")
    assert result.attrs["sampler"] == ("Metropolis" if "metropolis" in method else kind)


@pytest.mark.slow
@pytest.mark.parametrize("length", [{"burn_in": 3}, {"thin": 2}])
def test_lengths_in_rounds_mean_dadmms(length):
    found = st.sample(unequal_linear_problem(), IRREGULAR, **length, draws=5, **QUIET)
    assert found.attrs["method"] == "half-noise"
    usual = {"burn_in": 500, "thin": round((1 + 2 / STEP) / 2)}
    assert {name: found.attrs[name] for name in usual} == {**usual, **length}
    assert found.posterior.sizes["chain"] == 4


# Where chains start


@pytest.mark.parametrize("method", ["auto", "weights", "weights-metropolis", "hmc"])
def test_methods_with_one_start_refuse_several(method):
    """Their mean would be a point that nobody gave."""
    problem, words = unequal_linear_problem(), f"one point for method='{method}', got different"
    for shape in ((2, 1, 3), (1, 6, 3), (2, 6, 3), (6, 3)):
        apart = np.zeros(shape)
        apart.reshape(-1, 3)[-1] = 1.0
        with pytest.raises(ValueError, match=rf"{words}.*or run once from each of them"):
            st.sample(problem, IRREGULAR, method=method, chains=2, initial=apart)


@pytest.mark.parametrize("method", ["auto", "hmc", "dadmms", None])
@pytest.mark.parametrize("chains", [None, 2])
@pytest.mark.parametrize("shape", [(7, 3, 3), (3, 3), (3, 2, 1, 3), (2, 6, 4)], ids=str)
def test_starts_of_another_shape_are_refused(method, chains, shape):
    how = {"sampler": st.DADMMS(1.0)} if method is None else {"method": method}
    with pytest.raises(ValueError, match=r"broadcasts to \(chains, agents, dim\)"):
        st.sample(
            unequal_linear_problem(), IRREGULAR, **how, chains=chains, initial=np.zeros(shape)
        )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["weights", "hmc"])
def test_one_point_may_be_given_in_any_shape(method):
    problem, point = unequal_linear_problem(), np.array([0.5, -0.5, 1.0])
    how = {"method": method, "chains": 2, "draws": 4, **QUIET}
    starts = (point, {"beta": point}, np.tile(point, (2, 6, 1)), np.tile(point, (1, 1, 1)))
    whole, *others = (st.sample(problem, IRREGULAR, **how, initial=i) for i in starts)
    for other in others:
        np.testing.assert_allclose(other.posterior["beta"], whole.posterior["beta"], atol=1e-9)
    number = st.sample(problem, IRREGULAR, **how, initial=0.5)
    assert np.isfinite(number.posterior["beta"]).all()


# Many short chains


def request_of(problem, network, draws=1000, chains=None):
    schedule = RequestedSchedule(draws, None, None)
    return Request(problem, network, Automatic(), schedule, chains, 0, None, "float64")


@pytest.mark.parametrize(
    ("draws", "is_quadratic", "bytes_", "chains"),
    [
        (1000, True, 2**25, 1024),
        (1000, False, 2**25, 256),
        (50, False, 2**25, 112),  # 200 / (0.4 x 4) = 125, in 16 groups
        (8, False, 2**25, 20),  # 32 / 1.6, too few for groups
        (1, False, 2**25, 4),
        (1000, True, 8 * 3 * 4 * 40, 32),  # 40 chains fit
        (1000, True, 8 * 3 * 4 * 2, 4),
    ],
)
def test_the_number_of_chains(draws, is_quadratic, bytes_, chains, monkeypatch):
    """By effective draws, four draws of each chain, memory, and what rounds cost to compute."""
    monkeypatch.setattr(tuned, "CHAIN_BYTES", bytes_)
    problem = st.Problem(
        lambda p, row: -0.5 * row["w"] * jnp.sum(p["x"] ** 2),
        lambda p: 0.0,
        {"x": (3,)},
        4 * [{"w": [1.0]}],
        quadratic=is_quadratic,
    )
    assert num_chains(request_of(problem, st.Network.ring(4), draws)) == chains


def test_many_short_chains_are_worth_the_draws_that_were_asked_for():
    """17 rounds per effective draw: 85 of burn-in, and 4000 / (0.4 x 1024) draws 8 rounds apart.

    The effective draws are known to 4 % from the spread of 1024 chains' means.
    """
    problem = unequal_linear_problem()
    result = st.sample(problem, IRREGULAR, method="dadmms", seed=3, progress=False)
    attributes, (mean, covariance) = result.attrs, problem.exact_posterior()
    assert (attributes["burn_in"], attributes["thin"]) == (85, 8)
    draws = result.posterior["beta"].values
    assert draws.shape == (1024, 10, 6, 3)
    assert json.loads(attributes["superchains"]) == np.repeat(np.arange(SUPERCHAINS), 64).tolist()
    sd = np.sqrt(np.diag(covariance))
    means = (draws.mean(axis=1) - mean) / sd
    effective = 1024 / means.var(axis=0, ddof=1)
    assert effective.min() > 4000 * (1 - 4 * np.sqrt(2 / 1024))
    assert np.abs(means.mean(axis=0)).max() < 4.5 / np.sqrt(4000)
    limits, tuned = 2 * DEPTH, json.loads(attributes["tuning"])["rounds"]
    assert attributes["network_rounds"] == limits + 85 + 10 * 8 + tuned


def test_chains_of_a_group_start_at_one_point_and_groups_apart():
    request = request_of(unequal_linear_problem(), IRREGULAR)
    setup = tuned_setup(request, tune(request.problem, IRREGULAR))
    assert setup.initial.shape == (1024, 1, DIM)
    by_group = setup.initial.reshape(SUPERCHAINS, 64, DIM)
    np.testing.assert_array_equal(by_group, by_group[:, :1].repeat(64, axis=1))
    assert len(np.unique(by_group[:, 0], axis=0)) == SUPERCHAINS
    np.testing.assert_array_equal(setup.superchains, np.repeat(np.arange(SUPERCHAINS), 64))


def test_many_short_chains_start_where_the_caller_says():
    request = replace(
        request_of(unequal_linear_problem(), IRREGULAR), initial=np.array([1.0, 2, 3])
    )
    tuning = tune(request.problem, IRREGULAR)
    setup = tuned_setup(request, tuning)
    np.testing.assert_allclose(tuning.centre + tuning.scale @ setup.initial, [1.0, 2, 3])
    assert (setup.chains, setup.schedule.burn_in) == (1024, 85)


@pytest.mark.slow
def test_many_short_chains_of_another_posterior_are_worth_what_was_asked_for(logistic_problem):
    """The effective draws are known to 9 % from the spread of 256 chains' means."""
    network = st.Network.ring(5)
    result = st.sample(logistic_problem, network, method="dadmms", progress=False)
    draws = result.posterior["beta"].values
    assert len(draws) == 256
    exact = st.sample(logistic_problem, network, method="weights", progress=False)
    sd = exact.posterior["beta"].values[:, :, 0].std(axis=(0, 1))
    effective = 256 / (draws.mean(axis=1) / sd).var(axis=0, ddof=1)
    assert effective.min() > 4000 * (1 - 4 * np.sqrt(2 / 256))


@pytest.mark.slow
def test_few_draws_have_no_groups():
    result = st.sample(unequal_linear_problem(), IRREGULAR, method="dadmms", draws=8, **QUIET)
    assert dict(result.posterior.sizes)["chain"] == 20
    assert "superchains" not in result.attrs


# What a result says that it cost


def count_of_the_mode(sums):
    """Rounds and numbers of a search on `IRREGULAR`: sums, and a flood of what was found."""
    rounds = sums * 2 * DEPTH + DEPTH
    return rounds, sums * PER_SUM * DERIVATIVES + LINKS * (DIM + DIM**2)


def assert_cost(result, rounds, floats, network=IRREGULAR):
    """Beside what is said, all sites have agreed on limits, up to the centre and down again."""
    limits, links_of_tree = 2 * network.radius, 2 * (network.size - 1)
    attributes = result.attrs
    found = (attributes["network_rounds"], attributes["bytes_sent"])
    assert found == (rounds + limits, 8 * (floats + links_of_tree))


def test_the_cost_of_a_given_sampler():
    how = {"draws": 4, "burn_in": 5, "thin": 3, "chains": 2}
    result = st.sample(unequal_linear_problem(), IRREGULAR, st.DADMMS(2.0), **how)
    assert result.attrs["method"] == "dadmms"
    rounds = 5 + 4 * 3
    assert_cost(result, rounds, 2 * rounds * LINKS * DIM)


def test_the_cost_of_a_tuned_run_on_quadratic_potentials():
    """Two sums for the mode, whose second one confirms it; no pilot, and nothing is examined."""
    how = {"draws": 4, "burn_in": 5, "thin": 3, "chains": 2}
    result = st.sample(unequal_linear_problem(), IRREGULAR, **how)
    rounds, floats = count_of_the_mode(sums=2)
    run = 5 + 4 * 3
    assert_cost(result, rounds + run, floats + 2 * run * LINKS * DIM)


@pytest.mark.slow
def test_the_cost_of_a_tuned_run_includes_pilots_and_what_examines_its_draws():
    problem, network = waiting_problem(30.0), st.Network.ring(4)
    how = {"draws": 200, "burn_in": 20, "thin": 8, "chains": 2}
    result = st.sample(problem, network, **how, progress=False)
    tuning, stein = (json.loads(result.attrs[name]) for name in ("tuning", "stein"))
    assert tuning["rounds"] > SHORT_PILOT.cycles
    assert stein["rounds"] >= 2 * 4  # two sums at least
    rounds, links, dim = 20 + 200 * 8, 8, 1
    floats = 2 * rounds * links * dim + tuning["floats"] + stein["floats"]
    assert_cost(result, rounds + tuning["rounds"] + stein["rounds"], floats, network)


@pytest.mark.parametrize("method", ["auto", "weights", "weights-metropolis"])
def test_the_cost_of_weights(method):
    """The mode, and one sum of all candidates and of two numbers that check them."""
    result = st.sample(unequal_linear_problem(), IRREGULAR, method=method, draws=100, **QUIET)
    assert result.attrs["method"] == ("weights" if method == "auto" else method)
    candidates = json.loads(result.attrs["sampler_settings"])["candidates"]
    assert candidates == 2 * 400 + 224  # the next power of two
    rounds, floats = count_of_the_mode(sums=2)
    assert_cost(result, rounds + 2 * DEPTH, floats + PER_SUM * (candidates + 2))
    assert result.posterior.sizes["chain"] == 4


@pytest.mark.slow
def test_the_cost_of_hmc(monkeypatch):
    """The mode, points of which chains start at the best, their potentials, and every leapfrog."""
    counted, leapfrogs = [], SummedChains.leapfrogs

    def seen(self, number, *rest):
        counted.append(int(number))
        return leapfrogs(self, number, *rest)

    monkeypatch.setattr(SummedChains, "leapfrogs", seen)
    result = st.sample(unequal_linear_problem(), IRREGULAR, method="hmc", draws=100, **QUIET)
    assert result.attrs["method"] == "hmc"
    assert result.posterior.sizes["chain"] == HMC_CHAINS
    rounds, floats = count_of_the_mode(sums=2)
    sums = 2 + sum(counted)
    points = START_TRIES * SUPERCHAINS + (1 + sum(counted)) * HMC_CHAINS
    numbers = points * (1 + DIM) + sums
    assert_cost(result, rounds + sums * 2 * DEPTH, floats + PER_SUM * numbers)


# What is chosen


class ChosenError(Exception):
    """Raised in the place of the method that was chosen."""


def stopped(name):
    """What takes the place of a method, and says its name."""

    def stop(*_):
        raise ChosenError(name)

    return stop


def chosen_for(problem, network, monkeypatch, **how):
    """The method that "auto" takes, which is not run, and the run at that moment."""
    runs, prediction = [], automatic._prediction

    def noted(run):
        runs.append(run)
        return prediction(run)

    with monkeypatch.context() as patched:
        patched.setattr(automatic, "_prediction", noted)
        patched.setattr(automatic, "run_weights", stopped("weights"))
        patched.setattr(automatic, "run_hmc", stopped("hmc"))
        patched.setattr(TunedSampler, "tuning", stopped("dadmms"))
        with pytest.raises(ChosenError) as caught:
            st.sample(problem, network, **how, **QUIET)
    return str(caught.value), runs[0]


@pytest.mark.parametrize(("events", "is_good"), [(2.5, True), (2.0, False)])
def test_the_limit_of_k_hat_decides_on_further_batches(events, is_good, monkeypatch):
    """Just inside, one batch is enough; just outside, two good values in a row are wanted."""
    first_k = gamma_k(events, "candidates", next_size(WeightedCandidates(), wanted=4000))
    assert abs(first_k - LARGEST_K) < 0.05
    assert (first_k < LARGEST_K) == is_good
    problem = waiting_problem(events)
    method, run = chosen_for(problem, st.Network.ring(4), monkeypatch)
    assert method == "weights"
    assert run.candidates.gaussian_k == pytest.approx(first_k, abs=1e-3)
    assert (len(run.candidates.sizes) == 1) == is_good
    assert len(run.candidates.sizes) in (1, 3)
    assert run.candidates.is_trusted


def funnel_problem(sites, dim=5):
    """Neal's funnel: x_k ~ N(0, exp(v)) with v ~ N(0, 9), of which every site holds its share."""

    def log_likelihood(p, row):
        v, x = p["v"], p["x"]
        whole = -0.5 * v**2 / 9 - 0.5 * jnp.sum(x**2) * jnp.exp(-v) - 0.5 * dim * v
        return row["share"] * whole

    shards = sites * [{"share": [1 / sites]}]
    return st.Problem(log_likelihood, lambda p: 0.0, {"v": (), "x": (dim,)}, shards)


def predicted(problem, network, coordinates=None, **how):
    """What is predicted where these coordinates were found; None where there is no mode."""
    with jax.enable_x64(True):
        run = SumsRun(request_of(problem, network, **how), Gossip(network), Progress(False))
    run.coordinates = coordinates
    return automatic._prediction(run)


def test_a_posterior_that_candidates_cannot_stand_for_is_left_to_hmc_or_to_dadmms(monkeypatch):
    """1200 sums of 8 rounds take less than twice 500 rounds for each draw; 100 do not."""
    method, run = chosen_for(funnel_problem(8), st.Network.ring(8), monkeypatch)
    assert method == "hmc"
    assert not run.candidates.is_trusted
    for sites, best in ((8, "hmc"), (100, "dadmms")):
        known = predicted(funnel_problem(sites), st.Network.ring(sites), run.coordinates)
        assert known.rounds_per_sum == sites
        assert known.cheapest(run.candidates) == best


FIRST_IS_DADMMS = 2 * (8 * 4 + 4 * 750 + 500 * (5 + 100 / 48)) / 4
"""Sums of HMC from which on D-ADMMS is tried for 100 draws of the funnel on a ring of 4."""
THEN_IS_METROPOLIS = (50 * 4 + 4 * 500 * (5 + 100 / 48)) / 4
"""Sums of HMC up to which Metropolis, with a sum of 4 rounds for each move, is not run then."""


@pytest.fixture
def funnel_on_a_ring(monkeypatch):
    """A run of "auto" where HMC is predicted to take so many sums; its pilot runs are short."""
    short = PilotLength(chains=16, cycles=50, draws=25)
    monkeypatch.setattr(st.Metropolis, "pilot", short)

    def run(sums, **how):
        monkeypatch.setattr("starlings.methods.prediction.HMC_SUMS", sums)
        return st.sample(funnel_problem(4), st.Network.ring(4), draws=25, **{**QUIET, **how})

    return run


@pytest.mark.slow
def test_a_run_that_becomes_metropolis_is_left_to_hmc(funnel_on_a_ring, capsys):
    """Just inside: D-ADMMS is tuned, and its steps turn out too short; the cost is counted."""
    assert FIRST_IS_DADMMS < THEN_IS_METROPOLIS
    sums = math.floor(THEN_IS_METROPOLIS)
    whole = funnel_on_a_ring(sums, progress=True)
    assert whole.attrs["method"] == "hmc"
    predictions = json.loads(whole.attrs["predicted_rounds"])
    assert predictions == {
        "weights": None,
        "hmc": 4 * sums,
        "dadmms": math.ceil(4 * THEN_IS_METROPOLIS),
    }
    lines = capsys.readouterr().err.splitlines()
    first, then = (line for line in lines if line.startswith("method "))
    assert first.startswith("method 'dadmms': Pareto k-hat")
    assert f"further rounds that are predicted: hmc {4 * sums:,}, dadmms " in first
    words = rf"method 'hmc' after all: .* hmc {4 * sums:,}, dadmms [\d,]+; (\d+) network rounds so"
    spent = int(re.match(words, then)[1])
    named = st.sample(funnel_problem(4), st.Network.ring(4), method="hmc", draws=25, **QUIET)
    np.testing.assert_array_equal(named.posterior["v"], whole.posterior["v"])
    mode = int(re.search(r"(\d+) network rounds so far", first)[1]) - 4 * 4  # without four batches
    assert whole.attrs["network_rounds"] - named.attrs["network_rounds"] == spent - mode


@pytest.mark.slow
def test_a_resumed_run_makes_the_same_choice(funnel_on_a_ring, tmp_path, monkeypatch):
    sums, kept = math.floor(THEN_IS_METROPOLIS), {"checkpoint": tmp_path / "run"}
    whole = funnel_on_a_ring(sums)
    with monkeypatch.context() as patched:
        patched.setattr(automatic, "run_hmc", stopped("hmc"))
        with pytest.raises(ChosenError):
            funnel_on_a_ring(sums, **kept)
        patched.setattr(automatic, "_tuned", stopped("tuning again"))
        with pytest.raises(ChosenError, match="hmc"):
            funnel_on_a_ring(sums, **kept, resume=True)
    found = funnel_on_a_ring(1, **kept, resume=True)
    np.testing.assert_array_equal(found.posterior["v"], whole.posterior["v"])
    for name in ("method", "network_rounds", "bytes_sent", "predicted_rounds", "disclosed"):
        assert found.attrs[name] == whole.attrs[name]


@pytest.mark.slow
def test_a_run_that_becomes_metropolis_is_run_where_hmc_takes_more(funnel_on_a_ring, tmp_path):
    """Just outside; a run that is resumed knows what was predicted."""
    sums, kept = math.ceil(THEN_IS_METROPOLIS), {"checkpoint": tmp_path / "run"}
    whole = funnel_on_a_ring(sums)
    assert whole.attrs["method"] == "metropolis"
    predictions = json.loads(whole.attrs["predicted_rounds"])
    assert (predictions["weights"], predictions["hmc"]) == (None, 4 * sums)
    assert predictions["dadmms"] < 4 * sums
    funnel_on_a_ring(sums, **kept)
    again = funnel_on_a_ring(1, **kept, resume=True)
    assert again.attrs == whole.attrs


@pytest.mark.slow
def test_the_choice_just_inside_and_outside_of_both_limits(funnel_on_a_ring, monkeypatch):
    monkeypatch.setattr(automatic, "run_hmc", stopped("hmc"))
    monkeypatch.setattr(TunedSampler, "run_tuned", stopped("in rounds"))
    tuned, plain = [], automatic._tuned
    monkeypatch.setattr(automatic, "_tuned", lambda run: tuned.append(run) or plain(run))
    for sums, chosen, number in (
        (math.floor(FIRST_IS_DADMMS), "hmc", 0),
        (math.ceil(FIRST_IS_DADMMS), "hmc", 1),
        (math.floor(THEN_IS_METROPOLIS), "hmc", 2),
        (math.ceil(THEN_IS_METROPOLIS), "in rounds", 3),
    ):
        with pytest.raises(ChosenError, match=chosen):
            funnel_on_a_ring(sums)
        assert len(tuned) == number


def test_weights_that_were_asked_for_and_cannot_be_trusted_are_refused():
    words = r"their Pareto k-hat is \d\.\d\d \(trusted below 0.5\).*after 8 batches. Use method"
    with pytest.raises(CandidateError, match=words):
        st.sample(funnel_problem(2), st.Network.path(2), method="weights", draws=100, **QUIET)


def test_where_there_is_no_mode_it_is_hmc(monkeypatch):
    method, run = chosen_for(centred_problem(), st.Network.ring(4), monkeypatch)
    assert method == "hmc"
    assert run.coordinates is None
    assert run.candidates.sizes == []
    for other in ("weights", "dadmms"):
        with pytest.raises(TuningError, match=r"still rises at mu"):
            st.sample(centred_problem(), st.Network.ring(4), method=other, **QUIET)


def test_two_agents_send_each_other_their_part_of_a_sum():
    """The search begins at the mode: a sum of 3 numbers, a flood of 2, and the candidates' sum."""
    problem = st.models.gaussian(np.array([[[2.0]], [[3.0]]]))
    result = st.sample(problem, st.Network.path(2), draws=16, **QUIET)
    assert result.attrs["method"] == "weights"
    candidates = json.loads(result.attrs["sampler_settings"])["candidates"]
    assert_cost(result, 3, 2 * 3 + 1 * 2 + 2 * (candidates + 2), st.Network.path(2))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "weights", "hmc"])
def test_a_single_agent_sends_nothing(method):
    problem = unequal_linear_problem().pooled()
    result = st.sample(problem, st.Network.path(1), method=method, draws=100, **QUIET)
    assert result.attrs["method"] == ("weights" if method == "auto" else method)
    assert_cost(result, 0, 0, st.Network.path(1))
    mean, covariance = problem.exact_posterior()
    found = result.posterior["beta"].values.reshape(-1, DIM)
    assert np.abs(found.mean(axis=0) - mean).max() < 4.5 * np.sqrt(covariance.max() / 400)


def test_a_single_agent_cannot_be_tuned_for_rounds():
    with pytest.raises(ValueError, match="needs a network with edges"):
        st.sample(unequal_linear_problem().pooled(), st.Network.path(1), method="dadmms")


def test_agents_without_edges_have_no_method_on_sums():
    with pytest.warns(st.DisconnectedNetworkWarning):
        network = st.Network.no_edges(6)
    with pytest.raises(ValueError, match="no sum over its agents can be formed"):
        st.sample(unequal_linear_problem(), network)


def test_a_long_path_of_quadratic_potentials_takes_dadmms_and_a_ring_weights():
    """400 rounds in a sum there, against 17 (5 + 4000 / 1024); with 4 chains it would be 17,085."""
    coordinates = Coordinates(np.zeros(1), np.eye(1))
    none_yet, path = WeightedCandidates(), st.Network.path(400)
    problem = st.models.gaussian(np.ones((400, 1, 1)))
    known = predicted(problem, path, coordinates)
    assert known.rounds(none_yet) == {
        "weights": 400,
        "hmc": 1200 * 400,
        "dadmms": pytest.approx(17 * (5 + 4000 / 1024)),
    }
    assert known.cheapest(none_yet) == "dadmms"
    four = predicted(problem, path, coordinates, chains=4)
    assert four.rounds(none_yet)["dadmms"] == pytest.approx(17 * (5 + 1000))
    assert four.cheapest(none_yet) == "weights"
    ring = predicted(st.models.gaussian(np.ones((8, 1, 1))), st.Network.ring(8), coordinates)
    assert ring.rounds(none_yet)["weights"] == 8
    assert ring.cheapest(none_yet) == "weights"


def test_a_long_path_is_sampled_in_fewer_rounds_than_one_sum_more_would_take():
    """The search begins at the mode: a sum of 400 rounds there and back, and a flood of 200."""
    problem = st.models.gaussian(np.ones((400, 1, 1)))
    result = st.sample(problem, st.Network.path(400), draws=100, **QUIET)
    assert result.attrs["method"] == "half-noise"
    chains, draws = (result.posterior.sizes[name] for name in ("chain", "draw"))
    tuning = json.loads(result.attrs["tuning"])
    limits, mode = 400, 400 + 200
    assert tuning["rounds"] == mode
    assert result.attrs["network_rounds"] == limits + mode + 85 + 8 * draws < limits + mode + 400
    sd = 1 / 20
    means = result.posterior["x"].values.mean(axis=(0, 1))
    assert np.abs(means).max() < 4.5 * sd / np.sqrt(400)
    assert chains * draws > 400
