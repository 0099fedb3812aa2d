"""The budget of network rounds: one count for all of a call, checked before anything is sent."""

from __future__ import annotations

import json

import pytest

import starlings as st
from starlings.errors import PrivacyError
from starlings.network.budget import Budget
from starlings.network.gossip import MESSAGES, rounds_per_sum
from starlings.privacy.guard_rails import VARIABLE
from starlings.runtime import loop
from starlings.tuning import pilot
from tests.privacy.test_private_runs import LENGTHS, RING, logistic
from tests.quick import quick_cases

CHECKED = {"method": "coherent", "chains": 2, "draws": 100, "burn_in": 5, "thin": 1}
CHECKED |= {"check": True, "progress": False}
RUNS = {
    "weights": {**LENGTHS, "method": "weights"},
    "hmc": {**LENGTHS, "method": "hmc", "chains": 16},
    "rounds": {**LENGTHS, "sampler": st.DADMMS(rho=4.0), "burn_in": 20},
}


@pytest.fixture
def budget(tmp_path, monkeypatch):
    def of(rounds: int) -> None:
        (tmp_path / "rails.toml").write_text(f"most_rounds = {rounds}")
        monkeypatch.setenv(VARIABLE, str(tmp_path / "rails.toml"))

    return of


def test_a_budget_counts_and_refuses_before_it_spends():
    budget = Budget(10)
    budget.spend(6)
    budget.require(4)
    with pytest.raises(PrivacyError, match=r"more than the 10 .*: 6 were made, 5 would follow"):
        budget.spend(5)
    assert budget.spent == 6


@pytest.mark.parametrize("privacy", ["none", "totals"])
@pytest.mark.parametrize(
    "name",
    quick_cases([*RUNS, "tuned and examined"], ["weights"]),
)
@pytest.mark.filterwarnings("ignore::starlings.PosteriorWarning")
def test_what_a_run_needs_is_enough_and_one_round_less_is_not(name, privacy, budget):
    how = RUNS.get(name, CHECKED)
    needed = st.sample(logistic(), RING, **how, privacy=privacy).attrs["network_rounds"]
    budget(needed)
    assert st.sample(logistic(), RING, **how, privacy=privacy).attrs["network_rounds"] == needed
    budget(needed - 1)
    with pytest.raises(PrivacyError, match="guard rail most_rounds"):
        st.sample(logistic(), RING, **how, privacy=privacy)


def test_rounds_of_a_known_length_are_refused_before_the_first(budget, monkeypatch):
    monkeypatch.setattr(loop, "run", lambda *_, **__: pytest.fail("something was sent"))
    budget(69)  # agreements before the first round: on limits, keys, limits, and what is readable
    with pytest.raises(PrivacyError, match="16 were made, 54 would follow"):
        st.sample(logistic(), RING, **RUNS["rounds"], privacy="totals")


def test_a_pilot_run_spends_from_the_same_budget(budget, monkeypatch):
    monkeypatch.setattr(pilot, "is_confirmed", lambda *_: False)
    monkeypatch.setattr(loop, "run", lambda *_, **__: pytest.fail("something was sent"))
    budget(100)
    with pytest.raises(PrivacyError, match="most_rounds"):
        st.sample(logistic(), RING, **CHECKED, privacy="totals")


@pytest.mark.slow
def test_a_resumed_run_has_spent_what_it_had(budget, tmp_path):
    how = {**RUNS["hmc"], "privacy": "totals", "checkpoint": tmp_path / "run"}
    needed = st.sample(logistic(), RING, **how).attrs["network_rounds"]
    budget(needed)
    with pytest.raises(PrivacyError, match="most_rounds"):
        st.sample(logistic(), RING, **{**how, "draws": 40}, resume=True)


@pytest.mark.parametrize(
    ("method", "is_confirmed"),
    [
        ("weights", True),
        pytest.param("hmc", True, marks=pytest.mark.slow),
        pytest.param("dadmms", True, marks=pytest.mark.slow),
        pytest.param("dadmms", False, marks=pytest.mark.slow),
    ],
)
def test_masks_take_no_further_round(method, is_confirmed, monkeypatch):
    """Not in a pilot run either, whose average of all agents is another sum.

    Before the first sum sites agree on keys and limits; runs in rounds agree on who holds whom too.
    """
    monkeypatch.setattr(pilot, "is_confirmed", lambda *_: is_confirmed)
    how = {**LENGTHS, "method": method, "chains": 8}
    plain, masked = (st.sample(logistic(), RING, **how, privacy=p) for p in ("none", "totals"))
    agreements = 2
    if method == "dadmms":
        runs = 2 + json.loads(masked.attrs["tuning"])["pilots"]  # a pilot run, more, and the run
        agreements += 1 + runs
    before = agreements * rounds_per_sum(RING)
    assert masked.attrs["network_rounds"] == plain.attrs["network_rounds"] + before


@pytest.mark.slow
def test_messages_of_pilot_runs_are_disclosed():
    result = st.sample(logistic(), RING, **{**LENGTHS, "method": "dadmms", "chains": 2})
    kinds = json.loads(result.attrs["disclosed"])
    own = 2 * 3 * (result.attrs["burn_in"] + 30 * result.attrs["thin"])
    short = pilot.SHORT_PILOT
    rounds = pilot.pilot_schedule(st.DADMMS(rho=1.0), short).num_rounds
    assert kinds[MESSAGES] == own + 3 * short.chains * rounds
    assert kinds[pilot.SUMMARY] > pilot.CURVATURE_POINTS * 3
    masked = st.sample(
        logistic(), RING, **{**LENGTHS, "method": "dadmms", "chains": 2}, privacy="totals"
    )
    own = masked.disclosed().loc["0"].set_index("kind")["numbers"]
    assert own[MESSAGES] == kinds[MESSAGES]
    assert pilot.SUMMARY not in own


@pytest.mark.slow
def test_messages_of_a_pilot_run_that_diverges_are_counted(monkeypatch):
    ledgers, original = [], pilot.retuned

    def diverges(*_, **__):
        raise st.DivergenceError("too far")

    def noted(problem, tuning, gossip, here):
        ledgers.append(gossip.ledger.copy())
        monkeypatch.setattr(loop, "run", run)
        return original(problem, tuning, gossip, here)

    run = loop.run
    monkeypatch.setattr(loop, "run", diverges)
    monkeypatch.setattr(pilot, "retuned", noted)
    network = st.Network.ring(4)
    tuning = st.tune(logistic(), network)
    pilot.refine(logistic(), tuning, network, 0)
    assert ledgers[0].kinds[MESSAGES] > 0
    assert ledgers[0].rounds > tuning.sent.rounds + rounds_per_sum(network)
