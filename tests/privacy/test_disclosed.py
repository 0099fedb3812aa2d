"""What a result says of what left its sites, and that it is the whole truth."""

from __future__ import annotations

import pytest

import starlings as st
from starlings.comparison.site_likelihood import local_vectors
from starlings.errors import PrivacyError
from starlings.network.communicator import LocalCommunicator
from starlings.privacy.secrecy import Secrecy
from starlings.research.privacy.on_rounds import ROUNDS, of_result
from starlings.research.privacy.runs import EVERY_ROUND
from starlings.research.privacy.table import WITHIN_GUARD_RAILS
from starlings.results.disclosed import RESULT, disclosed_in_words
from tests.quick import quick_cases


@pytest.mark.parametrize("privacy", ["none", "totals"])
@pytest.mark.slow
def test_a_result_of_rounds_determines_rows_and_says_that_it_does(privacy):
    """Masks hide messages; the draws of an agent say as much, and are in the result."""
    problem, sampler = WITHIN_GUARD_RAILS.problem(), st.DSGLD(0.01)
    network = st.Network.ring(3).matched_to(problem.sites)
    result = st.sample(problem, network, sampler, draws=ROUNDS, **EVERY_ROUND, privacy=privacy)
    score = of_result(result, problem, network, sampler).score
    assert (score.recovered, score.total) == (12, 12)
    own = result.disclosed().loc["2"].set_index("kind").loc[RESULT]
    assert own["numbers"] == ROUNDS * problem.dim
    assert own["readable by"] == "process 0 and whoever gets the result"
    assert "determine the rows of a small site" in own["what follows"]
    assert "even of a masked run" in disclosed_in_words(result.attrs)[-1]


@pytest.mark.parametrize("method", quick_cases(["weights", "hmc"], ["weights"]))
def test_draws_that_are_the_same_at_all_agents_are_nothing_of_one_site(method):
    problem = WITHIN_GUARD_RAILS.problem()
    how = {"draws": 8, "chains": 16, "check": False, "progress": False, "privacy": "totals"}
    result = st.sample(problem, st.Network.ring(3), method=method, **how)
    draws = result.posterior["beta"]
    assert (draws == draws.isel(agent=0)).all()
    assert RESULT not in set(result.disclosed()["kind"])
    assert len(disclosed_in_words(result.attrs)) == 1


class Keeping(LocalCommunicator):
    """A runtime in which every process keeps its own draws."""

    collects = False


@pytest.mark.slow
def test_draws_that_are_not_collected_have_not_left_their_site():
    problem = WITHIN_GUARD_RAILS.problem()
    network = st.Network.ring(3).matched_to(problem.sites).distributed([0, 1, 2], Keeping())
    result = st.sample(problem, network, st.DSGLD(0.01), draws=4, **EVERY_ROUND)
    assert RESULT not in set(result.disclosed()["kind"])


class First(LocalCommunicator):
    """What process 0 of three has, which broadcasts to nobody here."""

    size = 3


@pytest.mark.parametrize(
    ("how", "is_refused"),
    [({"method": "weights"}, False), ({"sampler": st.DSGLD(0.01), "burn_in": 0}, True)],
)
def test_draws_of_single_agents_are_not_shown_to_other_processes(how, is_refused, monkeypatch):
    problem = WITHIN_GUARD_RAILS.problem()
    network = st.Network.ring(3).matched_to(problem.sites)
    result = st.sample(problem, network, draws=20, check=False, progress=False, **how)
    clear = network.distributed([0, 1, 2], First())
    masked = clear.masked(Secrecy.agreed(network))
    assert len(local_vectors(problem, clear, result)) == 3
    if not is_refused:
        assert len(local_vectors(problem, masked, result)) == 3
        return
    monkeypatch.setattr(First, "broadcast", _refuse_arrays)
    with pytest.raises(PrivacyError, match=r"draws that every agent made by itself.*'weights'"):
        local_vectors(problem, masked, result)


def _refuse_arrays(self, value):
    assert isinstance(value, bool), "draws were shown to other processes"
    return value
