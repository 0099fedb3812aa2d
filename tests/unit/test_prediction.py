"""Predicted network rounds of each method, against numbers computed by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from starlings.methods import prediction
from starlings.methods.batches import MOST_BATCHES
from starlings.methods.prediction import Prediction
from starlings.methods.weights import LARGEST_K, WeightedCandidates

RING_OF_8 = Prediction(
    rounds_per_sum=8,
    wanted=4000,
    admms_chains=250,
    admms_tau=17.0,
    pilot_rounds=750,
    dim=6,
    has_mode=True,
    is_quadratic=False,
)
NONE_YET = WeightedCandidates()
DRAWING = 17 * (5 + 4000 / 250)
"""Rounds of 250 chains for 4000 draws that take 17 rounds each, after 5 x 17 of burn-in."""


def changed(**values) -> Prediction:
    return Prediction(**{**vars(RING_OF_8), **values})


def found(k, batches=1, first_k=None):
    """What a prediction reads of candidates: the number of batches, and k-hat of all and first."""
    first_k = k if first_k is None else first_k
    return SimpleNamespace(sizes=[4096] * batches, pareto_k=k, gaussian_k=first_k)


def test_the_constants_are_those_of_the_numbers_below():
    assert (LARGEST_K, prediction.HOPELESS_K) == (0.5, 1.0)
    assert (prediction.REFITS, MOST_BATCHES, prediction.HMC_SUMS) == (3, 8, 1200)
    assert (prediction.ADMMS_SUMS, prediction.BURN_IN_TIMES) == (8, 5)
    assert (prediction.FAR_ROUNDS, prediction.FAR_PILOTS, prediction.TIE) == (500, 4, 2)
    assert (prediction.HMC_CHAINS, prediction.CANDIDATES_PER_DRAW) == (128, 2)


def test_rounds_before_any_candidate_is_drawn():
    assert RING_OF_8.rounds(NONE_YET) == {
        "weights": 8,
        "hmc": 1200 * 8,
        "dadmms": pytest.approx(8 * 8 + 750 + DRAWING),
    }
    assert pytest.approx(357) == DRAWING
    assert RING_OF_8.cheapest(NONE_YET) == "weights"


@pytest.mark.parametrize(
    ("k", "batches", "sums"),
    [
        (-1.2, 1, 1),
        (0.49, 1, 1),
        (0.49, MOST_BATCHES, 1),
        (0.5, 1, 3),
        (0.9, 4, 3),
        (0.9, 7, 3),
        (0.9, 8, math.inf),
        (1.0, 3, 3),
        (1.0, 4, math.inf),
        (math.inf, 3, 3),
        (math.nan, 4, math.inf),
    ],
)
def test_weights_take_one_sum_or_three_or_are_given_up(k, batches, sums):
    """After three fits where k-hat is at least 1, and after eight batches in any case."""
    assert RING_OF_8.weights(found(k, batches)) == 8 * sums


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (0.2, 64 + 750 + DRAWING),
        (0.49, 64 + 750 + DRAWING),
        (0.5, 64 + 4 * 750 + 500 * (5 + 16)),
        (math.nan, 64 + 4 * 750 + 500 * (5 + 16)),
    ],
)
def test_dadmms_takes_more_rounds_far_from_the_gaussian_approximation(k, expected):
    assert RING_OF_8.admms(found(k)) == pytest.approx(expected)


def test_a_fitted_proposal_says_nothing_of_the_gaussian_approximation():
    """k-hat of 0.65 after fits, where that of the first candidates was 2."""
    fitted = found(0.65, MOST_BATCHES, first_k=2.0)
    assert RING_OF_8.admms(fitted) == pytest.approx(64 + 4 * 750 + 500 * (5 + 16))
    assert RING_OF_8.cheapest(fitted) == "hmc"


@pytest.mark.parametrize("rounds_per_sum", [1, 8, 1000])
def test_nothing_of_dadmms_grows_with_the_diameter_on_quadratic_potentials(rounds_per_sum):
    known = changed(rounds_per_sum=rounds_per_sum, is_quadratic=True)
    assert known.admms(NONE_YET) == pytest.approx(DRAWING)
    assert known.cheapest(NONE_YET) == ("weights" if rounds_per_sum < DRAWING else "dadmms")


@pytest.mark.parametrize(
    ("wanted", "chains", "rounds"), [(4000, 1000, 17 * 9), (8000, 250, 17 * 37), (4, 4, 17 * 6)]
)
def test_rounds_of_dadmms_fall_with_the_number_of_chains(wanted, chains, rounds):
    known = changed(wanted=wanted, admms_chains=chains, is_quadratic=True)
    assert known.admms(NONE_YET) == pytest.approx(rounds)


def test_without_a_mode_hmc_is_left():
    nowhere = changed(has_mode=False)
    assert nowhere.rounds(NONE_YET) == {"weights": math.inf, "hmc": 9600, "dadmms": math.inf}
    assert nowhere.cheapest(NONE_YET) == "hmc"


def test_a_single_agent_has_no_neighbours_and_takes_what_would_send_least():
    """Two candidates a draw, against 1200 sums of 128 chains with 6 + 1 numbers each."""
    alone = changed(rounds_per_sum=0)
    assert alone.rounds(NONE_YET) == {"weights": 0, "hmc": 0, "dadmms": math.inf}
    assert alone.floats(NONE_YET) == {
        "weights": 2 * 4000,
        "hmc": 1200 * 128 * 7,
        "dadmms": math.inf,
    }
    assert alone.cheapest(NONE_YET) == "weights"
    assert alone.cheapest(found(1.5, 4)) == "hmc"


def test_numbers_that_cross_a_link():
    """Three batches where proposals are fitted again; in D-ADMMS 250 chains of 6 parameters."""
    assert RING_OF_8.floats(found(0.6)) == {
        "weights": 3 * 2 * 4000,
        "hmc": 1200 * 128 * 7,
        "dadmms": pytest.approx((64 + 4 * 750 + 500 * (5 + 16)) * 250 * 6),
    }
    assert RING_OF_8.floats(found(0.1))["weights"] == 2 * 4000


def test_where_weights_are_given_up_the_diameter_decides():
    """1200 R against twice 8 R + 4 x 750 + 500 (5 + 16): hmc up to R = 22.8."""
    hopeless = found(1.2, 4)
    assert changed(rounds_per_sum=22).cheapest(hopeless) == "hmc"
    assert changed(rounds_per_sum=23).cheapest(hopeless) == "dadmms"


def test_a_tuned_run_is_compared_with_hmc_again():
    """1200 x 8 = 9600 rounds of HMC are better than 4800 of approximate draws, or 9600 of exact."""
    for rounds, is_exact, is_better in [
        (4799, False, False),
        (4800, False, True),
        (9599, True, False),
        (9600, True, True),
    ]:
        assert RING_OF_8.is_hmc_better(rounds, is_exact) == is_better
    assert RING_OF_8.drawing(17.0) == pytest.approx(DRAWING)


def test_a_near_tie_goes_to_the_exact_law_unless_that_of_dadmms_is_known():
    """1200 R against 8 R + 1107 at R = 1, where weights are left out: 1.08 times as many."""
    for is_quadratic, best in ((False, "hmc"), (True, "dadmms")):
        near = changed(rounds_per_sum=1, is_quadratic=is_quadratic)
        assert near.cheapest(found(0.1), besides="weights") == best


def test_weights_that_do_not_suffice_are_left_out():
    good, bad = found(0.1), found(0.6)
    assert RING_OF_8.cheapest(good) == "weights"
    assert RING_OF_8.cheapest(good, besides="weights") == "dadmms"
    assert RING_OF_8.cheapest(bad, besides="weights") == "hmc"
