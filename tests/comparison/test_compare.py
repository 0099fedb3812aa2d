"""`starlings.compare`: what is compared, what it costs, who cannot be, and what is saved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.theory import gaussian_w2, law
from tests.comparison.samplers import (
    AroundHub,
    AtOnePlace,
    Demanding,
    HubWithPrior,
    Lawful,
    Refusing,
    Slow,
)
from tests.problems import unequal_linear_problem

BLOCKS = [np.diag([1.0, 2.0]), np.diag([2.0, 1.0]), np.diag([1.5, 1.5])]
PROBLEM, RING = st.models.gaussian(BLOCKS), st.Network.ring(3)
QUICK = {"progress": False, "grid": np.geomspace(2, 0.02, 7), "rounds": 1000}


def compared(samplers, problem=PROBLEM, network=RING, **options):
    return st.compare(problem, network, samplers, **{**QUICK, "chains": 0, **options})


def row_of(found, sampler, setting):
    table = found.table
    (row,) = table[(table["sampler"] == sampler) & (table["setting"] == setting)].to_dict("records")
    return row


def test_a_sampler_as_given_has_the_numbers_of_its_law():
    sampler = Lawful(0.1)
    found = compared([sampler])
    row = row_of(found, "Lawful", "given")
    exact = law(PROBLEM, RING.matched_to(PROBLEM.sites), sampler).stationary()
    mean, covariance = PROBLEM.exact_posterior()
    radius = np.sqrt(np.trace(covariance))
    agents = [gaussian_w2(*exact.agent(i), mean, covariance) / radius for i in range(3)]
    assert row["by"] == "law"
    assert row["mean_agent"] == pytest.approx(np.mean(agents), rel=1e-9)
    assert row["worst_agent"] == pytest.approx(max(agents), rel=1e-9)
    assert found.about["radius"] == pytest.approx(radius)


def test_costs_are_those_that_the_sampler_says():
    found = compared([st.DIGing(0.05)], target=1.0)
    curve, row = found.curves, row_of(found, "diging", "given")
    assert list(curve["round"][:3]) == [0, 1, 2]
    np.testing.assert_array_equal(curve["messages"], 6 * curve["round"])  # two neighbours each
    np.testing.assert_array_equal(curve["bytes"], 6 * 4 * 8 * curve["round"])  # x and y
    np.testing.assert_array_equal(curve["gradients"], curve["round"])
    assert row["messages"] == 6 * row["round"] > 0
    assert curve["seconds"].isna().all()  # nothing was run


def test_a_class_is_run_as_published_and_at_its_best():
    found = compared([st.DSGLD, Lawful])
    assert found.table[["sampler", "setting"]].values.tolist() == [
        ["dsgld", "published"],
        ["dsgld", "best"],
        ["Lawful", "best"],
    ]
    assert row_of(found, "dsgld", "published")["settings"] == "step_size=0.009, noise=private"
    assert row_of(found, "dsgld", "best")["tried"] == 7
    one, other = (row_of(found, name, "best") for name in ("dsgld", "Lawful"))
    assert one["worst_agent"] == pytest.approx(other["worst_agent"], rel=1e-9)


def test_the_best_reaches_the_target_first_and_then_comes_nearest():
    found = compared([Lawful], target=0.5)
    tried = found.candidates
    able = tried[tried["worst_agent"] <= 0.5]
    best = row_of(found, "Lawful", "best")
    assert len(able) > 1
    assert best["round"] == able["round"].min()
    never = row_of(compared([Lawful], target=1e-6), "Lawful", "best")
    assert np.isnan(never["round"])
    assert never["worst_agent"] == pytest.approx(tried["worst_agent"].min(), rel=1e-9)


def test_settings_that_explode_are_no_candidates():
    found = compared([Lawful])
    exploded = found.candidates[found.candidates["reason"] != ""]
    assert "step_size=1" in exploded["settings"].iloc[0]
    assert "it explodes" in exploded["reason"].iloc[0]
    assert row_of(found, "Lawful", "best")["reason"] == ""
    alone = row_of(compared([Lawful(5.0)]), "Lawful", "given")
    assert "it explodes: its slowest mode grows by" in alone["reason"]


@pytest.mark.slow
def test_what_explodes_before_it_settles_has_no_distance_there(tmp_path):
    """Steps that decay are stable in the end: what was infinite before is no number."""
    found = compared([st.DULA(st.Decay(20.0, 1.0, 0.9), 0.3)], rounds=20_000)
    assert found.curves["worst_agent"].isna().any()
    assert st.load_comparison(found.save(tmp_path / "found.json")).curves.equals(found.curves)


def test_decaying_steps_that_explode_say_so():
    """They have no stationary law, and are followed until numbers end."""
    found = compared([st.DULA(st.Decay(9.0, 1.0, 0.01), 0.3)])
    assert found.table["reason"][0] == "it explodes within 1000 rounds."


def test_a_tuned_sampler_starts_after_the_rounds_of_its_tuning():
    found = compared(["dadmms"])
    row = row_of(found, "dadmms", "tuned")
    curve = found.curves[found.curves["setting"] == "tuned"]
    assert row["spent_rounds"] > 0
    assert curve["round"].min() == row["spent_rounds"]
    assert row["worst_agent"] < 0.05
    assert curve["worst_agent"].iloc[0] == pytest.approx(0.0, abs=0.2)  # starts from N(0, I) there
    assert "tuned" not in set(compared(["dadmms"], tuned=False).table["setting"])


def test_who_cannot_be_compared_is_a_row_with_the_reason():
    found = compared([Refusing, Demanding, Slow(0.1), Lawful])
    reasons = dict(zip(found.table["sampler"], found.table["reason"], strict=True))
    assert reasons["Refusing"] == "it takes two."
    assert "needs values of ['taste']" in reasons["Demanding"]
    assert "no exact law is known" in reasons["Slow"]
    assert reasons["Lawful"] == ""
    assert all(reasons[name] in " ".join(str(found).split()) for name in reasons)


def test_lists_of_instances_are_candidates():
    steps = [Lawful(0.01), Lawful(0.1), Lawful(0.2)]
    found = compared({"mine": steps, "theirs": st.DADMMS(2.0)})
    assert row_of(found, "mine", "best")["tried"] == 3
    assert row_of(found, "theirs", "given")["title"] == "D-ADMMS"


def test_a_sampler_that_needs_a_hub_runs_around_one():
    found = compared([AroundHub(0.1), Lawful(0.1)])
    row = row_of(found, "AroundHub", "given")
    star, network = st.with_hub(PROBLEM)
    exact = law(star, network.matched_to(star.sites), AroundHub(0.1)).stationary()
    posterior = PROBLEM.exact_posterior()
    hub, *sites = (gaussian_w2(*exact.agent(i), *posterior) for i in range(4))
    assert row["network"] == "hub"
    assert row["worst_agent"] == pytest.approx(max(sites) / found.about["radius"], rel=1e-9)
    assert max(sites) != pytest.approx(hub)
    curve = found.curves[found.curves["sampler"] == "AroundHub"]
    np.testing.assert_array_equal(curve["messages"], 6 * curve["round"])  # three links
    assert row_of(found, "Lawful", "given")["network"] == "as given"


def test_a_hub_has_the_prior_where_the_sampler_wants_it():
    """Two hubs are different places; a site may be called like a hub."""
    problem = unequal_linear_problem().renamed(["hub", "a", "b", "c", "d", "e"])
    network = st.Network.ring(6)
    found = compared([AroundHub(0.001), HubWithPrior(0.001)], problem, network)
    assert list(found.table["network"]) == ["hub", "hub"]
    at_sites, at_hub = found.table["worst_agent"]
    assert at_sites != pytest.approx(at_hub, rel=1e-6)


def test_a_sampler_at_one_place_has_all_rows():
    X = np.random.default_rng(0).normal(size=(30, 2))
    problem = st.models.linear_regression(X, X @ [1.0, 2.0], np.arange(30) % 3, noise_std=1.0)
    found = compared([AtOnePlace(0.01)], problem)
    row = row_of(found, "AtOnePlace", "given")
    assert row["network"] == "one place"
    assert row["mean_agent"] == row["worst_agent"] == pytest.approx(row["average"])
    assert (found.curves["messages"] == 0).all()


def test_a_comparison_is_saved_and_read(tmp_path):
    found = compared(["dsgld", Refusing])
    path = found.save(tmp_path / "found.json")
    again = st.load_comparison(path)
    for name in ("table", "curves", "candidates"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(found, name))
    assert again.about == found.about
    assert str(again) == str(found)
    with pytest.raises(FileExistsError, match="exists"):
        found.save(path)
    found.to_csv(tmp_path / "found.csv")
    assert list(pd.read_csv(tmp_path / "found.csv")["sampler"]) == ["dsgld", "dsgld", "Refusing"]
    assert len(pd.read_csv(tmp_path / "found-curves.csv")) == len(found.curves)
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(ValueError, match="is not a comparison"):
        st.load_comparison(tmp_path / "other.json")


def test_the_text_fits_a_terminal():
    text = str(compared(None))
    assert max(map(len, text.splitlines())) <= 88
    for word in ("dadmms, tuned", "dsgld, published", "not compared", "sampler"):
        assert word in text


@pytest.mark.parametrize(
    ("samplers", "options", "message"),
    [
        ([], {}, "`samplers` is empty"),
        (["dsdld"], {}, "no sampler is called 'dsdld'"),
        ([3], {}, "`samplers` must hold names"),
        ({"two": [st.DSGLD(0.1), st.DULA(0.1, 0.1)]}, {}, "lists of instances of one class"),
        (["dsgld"], {"target": -1.0}, "`target` must be positive"),
        (["dsgld"], {"rounds": 0}, "`rounds` must be"),
        (["dsgld"], {"chains": -1}, "`chains` must be"),
        (["dsgld"], {"grid": [0.0]}, "`grid` must be positive numbers"),
    ],
)
def test_bad_input_is_refused(samplers, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        compared(samplers, **options)
