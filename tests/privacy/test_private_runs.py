"""`sample(..., privacy="totals")`: the same draws, and nothing but masked numbers leaves a site."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

import starlings as st
from starlings.errors import FixedPointError, PrivacyError
from starlings.methods.prediction import Prediction
from starlings.methods.weights import WeightedCandidates
from starlings.network.gossip import MESSAGES, Gossip
from starlings.network.opening import LIMIT
from starlings.privacy.masks import Masks
from starlings.privacy.secrecy import Secrecy
from starlings.results.kinds import CHECKSUMS, RESIDUALS, RESULT, ROWS
from starlings.runtime.maskable import is_maskable
from tests.quick import quick_cases

RESOLUTION = 1e-9
"""Largest difference of masked and unmasked draws, in posterior standard deviations."""
RING = st.Network.ring(4)


def logistic(scale: float = 1.0) -> st.Problem:
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 2)) * scale
    y = (random.logistic(size=120) < X @ [1.0, -0.5] / scale).astype(float)
    return st.models.logistic_regression(X, y, sites=np.arange(120) % 4)


def draws_of(result: st.Result) -> np.ndarray:
    return result.posterior["beta"].values


def in_sd(difference: np.ndarray, draws: np.ndarray) -> float:
    return float(np.max(np.abs(difference) / draws.std(axis=(0, 1, 2))))


LENGTHS = {"draws": 30, "chains": 2, "check": False, "progress": False}
RUNS = {
    "weights": {"method": "weights"},
    "hmc": {"method": "hmc", "chains": 16},
    "D-ADMMS": {"sampler": st.DADMMS(rho=4.0), "burn_in": 20},
    "midpoint": {"sampler": st.MidpointADMMS(rho=4.0), "burn_in": 20},
    "mixes": {"sampler": st.DSGLD(step_size=1e-3), "burn_in": 20},
    "tuned": {"method": "coherent", "burn_in": 10, "thin": 2},
}


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", quick_cases(RUNS, ["weights", "hmc", "D-ADMMS"]))
def test_masked_draws_are_those_of_an_unmasked_run(name):
    """To rounding: fixed-point numbers have more places than floating-point ones."""
    how = {**LENGTHS, **RUNS[name]}
    plain, masked = (st.sample(logistic(), RING, **how, privacy=p) for p in ("none", "totals"))
    assert masked.attrs["privacy"] == "totals"
    assert masked.attrs["method"] == plain.attrs["method"]
    assert in_sd(draws_of(plain) - draws_of(masked), draws_of(plain)) < RESOLUTION


def test_masked_totals_are_the_same_bits_everywhere_and_on_every_graph():
    parts = np.random.default_rng(1).normal(size=(6, 20)) * 1e3
    totals = set()
    for graph in (nx.cycle_graph(6), nx.complete_graph(6), nx.star_graph(5), nx.path_graph(6)):
        network = st.Network(graph)
        with jax.enable_x64(True):
            total = Gossip(network.masked(Secrecy.agreed(network))).sum(parts)
        assert np.all(total == total[0])
        totals.add(total[0].tobytes())
    assert len(totals) == 1


def test_what_leaves_a_site_is_masked(monkeypatch):
    """Two runs with the same rows and seed send numbers that have nothing in common."""
    sent: list[np.ndarray] = []
    masked = Masks.masked

    def recorded(self, parts):
        sent.append(masked(self, parts))
        return sent[-1]

    monkeypatch.setattr(Masks, "masked", recorded)
    problem, runs = logistic(), []
    for _ in range(2):
        st.sample(problem, RING, **LENGTHS, method="weights", privacy="totals")
        runs.append(np.concatenate([part.ravel() for part in sent]))
        sent.clear()
    assert runs[0].shape == runs[1].shape
    assert np.mean(runs[0] == runs[1]) < 1e-3
    assert abs(np.corrcoef(runs)[0, 1]) < 5 / np.sqrt(runs[0].size)
    assert abs(runs[0].mean() / 2**32 - 0.5) < 5 / np.sqrt(12 * runs[0].size)


def test_every_purpose_has_its_own_masks():
    network = RING.masked(Secrecy.agreed(RING))
    with jax.enable_x64(True):
        one, other = Gossip(network), Gossip(network)
    parts = np.ones((4, 3))
    assert not np.any(one.masks.masked(parts) == other.masks.masked(parts))


@pytest.mark.slow
def test_a_resumed_run_has_the_same_draws_and_new_keys(tmp_path, monkeypatch):
    sessions = []
    agreed = Secrecy.agreed.__func__

    def recorded(cls, *arguments):
        secrecy = agreed(cls, *arguments)
        sessions.append(next(iter(secrecy.keys.values())).session)
        return secrecy

    monkeypatch.setattr(Secrecy, "agreed", classmethod(recorded))
    how = {**LENGTHS, "method": "hmc", "chains": 16, "privacy": "totals"}
    whole = st.sample(logistic(), RING, **how)
    how["checkpoint"] = tmp_path / "run"
    st.sample(logistic(), RING, **{**how, "draws": 10})
    again = st.sample(logistic(), RING, **how, resume=True)
    np.testing.assert_array_equal(draws_of(again), draws_of(whole))
    assert len(set(sessions)) == 3
    assert again.attrs["disclosed"] == whole.attrs["disclosed"]


REFUSED = {
    "metropolis": (RING, {"method": "metropolis"}, "Metropolis cannot be masked: it reads more"),
    "vote": (RING, {"method": "metropolis-vote"}, "Metropolis cannot be masked"),
    "path": (
        st.Network.path(4),
        {"sampler": st.DADMMS(rho=4.0)},
        "fewest_neighbours: the agent '0' has 1 of the 2 neighbours",
    ),
    "tuned on a star": (st.Network.star(4), {"method": "dadmms"}, "has 1 of the 2 neighbours"),
}


@pytest.mark.parametrize(("network", "how", "text"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_masked_is_refused_before_anything_is_sent(network, how, text, monkeypatch):
    monkeypatch.setattr(Gossip, "sum", lambda *_: pytest.fail("something was sent"))
    with pytest.raises(PrivacyError, match=text):
        st.sample(logistic(), network, **LENGTHS, **how, privacy="totals")


def test_an_unknown_kind_of_privacy_is_refused():
    with pytest.raises(ValueError, match=r"`privacy` must be one of \['none', 'totals'\]"):
        st.sample(logistic(), RING, privacy="total")


def test_numbers_beyond_the_fixed_point_range_stop_the_run():
    """Hessians of columns in units of 1e-9 are of the order of 1e18."""
    with pytest.raises(FixedPointError, match=r"too large for a masked sum of 4 sites.*standard"):
        st.sample(logistic(scale=1e9), RING, **LENGTHS, privacy="totals")


@pytest.mark.slow
def test_a_site_where_the_potential_is_infinite_does_not_stop_it():
    """One site has no density below 0.75, where 4 % of the others' posterior are."""
    shards = [{"y": np.linspace(0, 2, 20), "bound": np.full(20, b)} for b in (-9.0, -9.0, 0.75)]
    problem = st.Problem(_inside, lambda p: -0.5 * p["m"] ** 2, {"m": ()}, shards)
    result = st.sample(
        problem,
        st.Network.ring(3),
        method="hmc",
        chains=16,
        draws=50,
        check=False,
        initial={"m": 1.1},
        privacy="totals",
    )
    assert result.posterior["m"].min() > 0.75


def _inside(p, row):
    return jnp.where(p["m"] > row["bound"], -0.5 * (row["y"] - p["m"]) ** 2, -jnp.inf)


def test_a_result_says_what_left_each_site():
    plain, masked = (
        st.sample(logistic(), RING, **LENGTHS, method="weights", privacy=p)
        for p in ("none", "totals")
    )
    table = plain.disclosed()
    assert list(table.columns) == ["kind", "numbers", "readable by", "what follows"]
    assert set(table.index) == {"0", "1", "2", "3"}
    own = table.loc["2"].set_index("kind")
    assert own.loc["potentials at shared candidates", "numbers"] >= 2 * 60
    assert "rows" in own.loc["derivatives", "what follows"]
    hidden = masked.disclosed().loc["2"].set_index("kind")
    for kind in ("potentials at shared candidates", "derivatives"):
        assert hidden.loc[kind, "numbers"] == own.loc[kind, "numbers"]
        total = "nobody by itself; everybody: the total over 0, 1, 2, 3"
        assert hidden.loc[kind, "readable by"] == total
    by_rounds = st.sample(logistic(), RING, st.DADMMS(rho=4.0), **LENGTHS, burn_in=10)
    own = by_rounds.disclosed().loc["0"].set_index("kind")["numbers"].to_dict()
    result = {RESULT: 2 * 30 * 3, RESIDUALS: 2 * 30, ROWS: 1, CHECKSUMS: 1 + 2}
    assert own == {LIMIT: 1, MESSAGES: 2 * 40 * 3, **result}


def test_a_masked_result_has_no_counts_or_checksums_of_rows():
    results = [st.sample(logistic(), RING, **LENGTHS, privacy=p) for p in ("none", "totals")]
    plain, masked = (json.loads(result.attrs["model"]) for result in results)
    assert set(plain) - set(masked) == {"rows", "digests", "columns"}


def test_cross_validation_can_be_masked():
    problem = logistic()
    result = st.sample(problem, RING, **{**LENGTHS, "draws": 60})
    plain, masked = (st.loo(problem, RING, result, privacy=p) for p in ("none", "totals"))
    assert masked.elpd == pytest.approx(plain.elpd, rel=1e-12)
    assert masked.rounds == plain.rounds
    models = {"one": (problem, result), "two": (problem, result)}
    tables = [st.compare_loo(RING, models, privacy=p) for p in ("none", "totals")]
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-9, atol=1e-9)


def poisson() -> st.Problem:
    """Far from its mode a potential is finite, and larger than any integer of a masked sum."""
    random = np.random.default_rng(0)
    X = random.normal(size=(120, 2)) * 3
    y = random.poisson(np.exp(3 + X @ [0.3, -0.2])).astype(float)
    return st.models.poisson_regression(X, y, sites=np.arange(120) % 4)


@pytest.mark.parametrize("method", quick_cases(["auto", "hmc"], ["auto"]))
def test_points_far_from_the_mode_do_not_stop_the_search(method):
    how = {**LENGTHS, "method": method, "chains": 16}
    plain, masked = (st.sample(poisson(), RING, **how, privacy=p) for p in ("none", "totals"))
    assert in_sd(draws_of(plain) - draws_of(masked), draws_of(plain)) < RESOLUTION


@pytest.mark.parametrize(("network", "is_possible"), [(RING, True), (st.Network.path(4), False)])
def test_the_automatic_choice_knows_what_can_be_masked(network, is_possible):
    """Where messages to single neighbours cannot be masked, D-ADMMS is no option."""
    masked = network.masked(Secrecy.agreed(network))
    assert is_maskable(masked, st.DADMMS) is is_possible
    assert is_maskable(network, st.DADMMS)
    known = {"rounds_per_sum": 1000, "wanted": 4000, "admms_chains": 250, "admms_tau": 17.0}
    known |= {"pilot_rounds": 750, "dim": 3, "has_mode": True, "is_quadratic": True}
    prediction = Prediction(**known, can_run_rounds=is_possible)
    assert prediction.cheapest(WeightedCandidates()) == ("dadmms" if is_possible else "weights")


@pytest.mark.slow
def test_a_run_is_resumed_with_the_same_privacy_only(tmp_path):
    how = {**LENGTHS, "method": "hmc", "chains": 16, "checkpoint": tmp_path / "run"}
    st.sample(logistic(), RING, **{**how, "draws": 4})
    with pytest.raises(st.CheckpointError, match="privacy"):
        st.sample(logistic(), RING, **how, resume=True, privacy="totals")


@pytest.mark.slow
def test_positions_that_masks_cannot_hold_end_a_run_as_diverged():
    how = {**LENGTHS, "burn_in": 2, "initial": np.full(3, 1e16), "privacy": "totals"}
    with pytest.raises(st.DivergenceError, match=r"Masked messages hold positions below 1.1e\+12"):
        st.sample(logistic(), RING, st.DADMMS(rho=4.0), **how)


@pytest.mark.slow
def test_what_an_examination_sends_is_disclosed():
    result = st.sample(logistic(), RING, method="coherent", chains=2, draws=800, progress=False)
    kinds = set(result.disclosed()["kind"])
    assert {"gradients at draws", "derivatives", "messages of the sampler"} <= kinds
