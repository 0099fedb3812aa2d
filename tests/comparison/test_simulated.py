"""Comparisons by chains: the same distances as by laws, and references for other posteriors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import starlings as st
from starlings.comparison.samplers.choosing import Choice, Judged, judged_near_the_best
from starlings.comparison.samplers.judging import Judge
from starlings.comparison.samplers.measures import GaussianMeasure, posterior_floor
from starlings.comparison.samplers.reference import MarginalMeasure
from tests.comparison.samplers import Lawful, Slow
from tests.problems import logistic_rows

PROBLEM = st.models.gaussian([np.diag([1.0, 2.0]), np.diag([2.0, 1.0])], [[3.0, 0.0], [0.0, 1.0]])
PATH = st.Network.path(2)
CHAINS = 400


def compared(samplers, problem=PROBLEM, network=PATH, **options):
    short = {"simulated_rounds": 40, "rounds": 40, "chains": CHAINS, "progress": False}
    return st.compare(problem, network, samplers, **{**short, **options})


def test_chains_show_the_distances_of_the_law():
    """The excess of a distance of n chains is at most what exact draws show, and the error."""
    found = compared([Lawful(0.1)])
    both = found.curves.pivot(index="round", columns="source", values="worst_agent")
    error = found.curves[found.curves["source"] == "simulation"].set_index("round")["error"]
    apart = both["simulation"] - both["law"]
    assert (apart.abs() < 4 * error + found.about["floor"]).all()
    assert (error > 0).all()
    assert both["law"].iloc[0] > 10 * found.about["floor"]  # so that a wrong one would be seen
    assert both["law"].iloc[-1] < both["law"].iloc[0] / 3


def test_where_neighbours_do_alike_the_best_is_found_without_all():
    """Steps far below the best one explode here; a third or so of all is judged."""
    for place in range(41):
        asked = []

        def judge(number, place=place, asked=asked):
            asked.append(number)
            limit, reason = np.full(4, 1.0 + abs(number - place)), "far" * (number < place - 6)
            return Judged(number, limit, float(limit[0]), 0.0, np.nan, reason)

        judged = judged_near_the_best(range(41), judge)
        assert Choice.among(judged).best.sampler == place
        assert [each.sampler for each in judged] == sorted(asked)
        assert len(asked) == len(set(asked)) <= 17


def test_a_sampler_without_a_law_is_simulated():
    """`Slow` does what `Lawful` does."""
    found = compared([Slow(0.1), Lawful(0.1)])
    by = dict(zip(found.table["sampler"], found.table["by"], strict=True))
    assert by == {"Slow": "simulation", "Lawful": "law"}
    chains = found.curves[found.curves["source"] == "simulation"]
    one, other = (chains[chains["sampler"] == name]["worst_agent"] for name in by)
    np.testing.assert_allclose(one, other, rtol=1e-9)
    assert (found.table["seconds_per_round"] > 0).all()
    assert "Slow, given*" in str(found)


def test_a_sampler_that_explodes_says_so():
    found = compared([Slow(20.0)], simulated_rounds=200)
    (row,) = found.table.to_dict("records")
    assert "diverged" in row["reason"]
    assert np.isnan(row["round"])
    assert row["by"] == ""


def test_the_best_is_one_that_does_not_explode(monkeypatch):
    """Candidates that explode are passed over, even where a law at the mode says they are fine."""
    monkeypatch.setattr(Judge, "_chosen", lambda self, trial, known: as_if_sound(trial))
    found = compared({"it": [Slow(50.0), Slow(0.1)]}, simulated_rounds=200)
    assert found.table["settings"][0] == "step_size=0.1"


def as_if_sound(trial):
    """Both candidates as if they were sound, the first one as the best."""
    judged = [Judged(s, np.zeros(4), k, 0.0, np.nan) for k, s in enumerate(trial.candidates)]
    return Choice.among(judged)


def test_messages_of_agents_that_may_be_silent_are_counted():
    """With a threshold that nobody exceeds everybody speaks once; without one, in every round."""
    samplers = {"silent": st.EventDULA(0.01, 0.1, 1e6), "loud": st.EventDULA(0.01, 0.1, 0.0)}
    found = compared(samplers, simulated_rounds=20).curves
    last = found[(found["source"] == "simulation") & (found["round"] == 20)]
    assert dict(zip(last["sampler"], last["messages"], strict=True)) == {"silent": 2, "loud": 40}
    assert (last["bytes"] == 2 * 8 * last["messages"]).all()


def test_what_exact_draws_show_goes_down_with_their_number():
    measure = GaussianMeasure.of(PROBLEM)
    few, many = (posterior_floor(measure, number, seed=0) for number in (100, 1600))
    assert few / many == pytest.approx(4.0, rel=0.3)


@pytest.fixture
def marginal():
    draws = np.random.default_rng(0).standard_normal((4000, 2)) * [1.0, 3.0]
    return MarginalMeasure(draws, "made up", 0.0)


def test_marginal_distances_are_those_of_one_dimension(marginal):
    """From order statistics of as many draws; for a shift, W2 is the W1 of SciPy."""
    draws = np.random.default_rng(1).standard_normal((4000, 1, 2)) * [2.0, 3.0] + [1.0, 0.0]
    reference = np.sort(marginal.draws, axis=0)
    expected = np.sqrt(((np.sort(draws[:, 0], axis=0) - reference) ** 2).mean(axis=0))
    expected /= marginal.draws.std(axis=0)
    found = marginal.of_draws(draws, np.arange(1))
    assert found[0] == pytest.approx(np.sqrt((expected**2).mean()), rel=2e-3)
    assert found[3] == pytest.approx(expected.max(), rel=2e-3)
    shifted = marginal.draws[:, None] + [0.5, 0.0]
    by_scipy = stats.wasserstein_distance(shifted[:, 0, 0], marginal.draws[:, 0])
    assert marginal.of_draws(shifted, np.arange(1))[3] == pytest.approx(by_scipy, rel=0.02)


def test_halves_of_a_reference_are_near_each_other(marginal):
    assert 0 < marginal.halves() < 0.1
    assert marginal.about()["reference_floor"] == marginal.halves()


def logistic():
    X, y, sites = logistic_rows(120)
    return st.models.logistic_regression(X, y, sites, prior_std=1.0, intercept=False)


@pytest.mark.slow
def test_a_posterior_that_is_not_gaussian_has_a_reference_run():
    found = compared(["dsgld", "dadmms"], logistic(), st.Network.ring(5), chains=None)
    assert set(found.table["by"]) == {"simulation"}
    assert found.about["unit"] == "posterior sds"
    assert found.about["reference"] == "hmc"
    assert 0 < found.about["reference_error"] < 0.05
    tuned = found.table[found.table["setting"] == "tuned"].iloc[0]
    assert tuned["worst_agent"] < 3 * found.about["floor"]
    assert found.table[found.table["setting"] == "published"]["worst_agent"].max() > 0.5
    assert "draws (hmc) with a Monte Carlo error" in " ".join(str(found).split())


REFERENCE = np.random.default_rng(0).standard_normal((1000, 3))


@pytest.mark.slow
def test_draws_of_the_user_are_a_reference():
    options = {"reference": REFERENCE, "chains": 8, "simulated_rounds": 4}
    found = compared([st.DSGLD(0.01)], logistic(), st.Network.ring(5), **options)
    assert found.about["reference"] == "given"
    assert "reference_error" not in found.about


@pytest.mark.parametrize(
    "wrong", [REFERENCE[:, :2], REFERENCE[:10], np.full((1000, 3), np.nan)], ids=len
)
def test_other_references_are_refused(wrong):
    with pytest.raises(ValueError, match="`reference` must be"):
        compared(["dsgld"], logistic(), st.Network.ring(5), reference=wrong)
