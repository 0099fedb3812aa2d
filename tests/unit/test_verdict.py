"""The three questions, on draws whose faults are known."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import starlings as st
from starlings.diagnostics.checking import check, warn_if_untrustworthy
from starlings.diagnostics.reference import compare, sliced_w2
from starlings.diagnostics.statistics import TAILS
from starlings.diagnostics.stein_network import check_stein_identities
from starlings.errors import PosteriorWarning
from starlings.results.result import Result
from tests.problems import paper_problem


def normal_draws(shift=0.0, scale=1.0, chains=4, draws=1000, drift=0.0, scatter=0.05):
    """Two agents, a vector of two and a scalar; the second agent is moved and stretched.

    The agents scatter independently around common draws, and all draws have sd 1 but for `scale`.
    """
    random = np.random.default_rng(0)
    common = random.normal(size=(chains, draws, 1, 3))
    own = random.normal(size=(chains, draws, 2, 3))
    values = np.sqrt(1 - scatter**2) * common + scatter * own
    beta, sigma = values[..., :2].copy(), values[..., 2]
    beta[:, :, 1] = shift + scale * beta[:, :, 1]
    beta += drift * np.arange(chains)[:, None, None, None]
    coordinates = {"agent": ["north", "south"], "beta_dim_0": ["age", "dose"]}
    dims = ["chain", "draw", "agent"]
    variables = {"beta": ([*dims, "beta_dim_0"], beta), "sigma": (dims, sigma)}
    return xr.Dataset(variables, coords=coordinates)


def exact_reference(count=20_000):
    random = np.random.default_rng(1)
    return {"beta": random.normal(size=(count, 2)), "sigma": random.normal(size=count)}


def stein_of(delta=0.0, sd=1.0, draws=250):
    """Stein's identities of N(delta, sd^2 I) against N(0, I) in three dimensions."""
    problem = st.models.gaussian(np.stack([0.25 * np.eye(3), 0.75 * np.eye(3)]))
    z = delta + sd * np.random.default_rng(2).normal(size=(4, draws, 1, 3))
    return check_stein_identities(problem, st.Network.path(2), np.repeat(z, 2, axis=2))


def result_of(posterior, **notes):
    tree = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": xr.Dataset()})
    result = Result(tree)
    for name, value in notes.items():
        result.set_attribute(name, value)
    return result


def test_good_draws_pass():
    answer = check(normal_draws(), exact_reference(), predicted_w2=0.02, stein=stein_of())
    assert answer.ok, str(answer)
    lines = str(answer).splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["converged", "agreed", "right"]
    assert lines[3:] == ["No problem was found."]
    assert "Stein's identities hold" in lines[2]
    assert list(answer.table.index) == ["beta[age]", "beta[dose]", "sigma"]


def test_draws_of_an_untested_law_say_so():
    answer = check(normal_draws(), predicted_w2=0.02)
    assert answer.ok
    assert str(answer).endswith("but the law of these draws has not been tested.")
    undecided = check(normal_draws(), stein=stein_of(draws=20))
    assert undecided.ok
    assert "undecided" in str(undecided)
    assert str(undecided).endswith("but the law of these draws has not been tested.")


@pytest.mark.parametrize(
    ("draws", "evidence", "text"),
    [
        (normal_draws(drift=0.5), {}, "Not converged: R-hat of beta"),
        (normal_draws(draws=60), {}, "Too short"),
        (normal_draws(chains=1), {}, "Convergence of beta[age] is unknown"),
        (normal_draws(shift=0.3), {}, "The agents disagree: their means of beta"),
        (normal_draws(scatter=0.5), {}, "The agents scatter: their draws of"),
        (normal_draws(scale=1.4), {}, "differ by a factor 1.40"),
        (normal_draws(), {"predicted_w2": 0.4}, "0.40 sd are predicted"),
        (
            normal_draws(),
            {"stein": stein_of(delta=0.5)},
            "Wrong law: by Stein's identities the mean",
        ),
        (normal_draws(scale=1.4), {"reference": exact_reference()}, "Wrong law: beta"),
    ],
)
def test_each_fault_is_named(draws, evidence, text):
    answer = check(draws, **evidence)
    assert not answer.ok
    assert any(text in problem for problem in answer.problems), answer.problems
    assert text in str(answer)


ADVICE = {
    "weights": ("Ask for more `draws`, or take method='hmc'.",) * 2,
    "weights-metropolis": ("Ask for more `draws`, or take method='hmc'.",) * 2,
    "hmc": (
        "Ask for more `draws`, or write the model in other coordinates: a hierarchical one in its "
        "other form (centred or non-centred).",
        "Ask for more `draws`, or write the model in other coordinates.",
    ),
    "half-noise": (
        "Run longer, with more `burn_in`, or with longer steps (a smaller `rho`).",
        "Ask for more `draws` or a larger `thin`.",
    ),
}
"""What to do about chains that differ, and about too few effective draws, by the method."""


@pytest.mark.quick(2)
@pytest.mark.parametrize("method", ADVICE)
def test_advice_is_that_of_the_method(method):
    """No method on sums has a burn-in, a thinning or a penalty."""
    result = result_of(normal_draws(drift=2.0), method=method)
    differs, short = ADVICE[method]
    text = str(result.check())
    assert re.search(rf"Not converged: R-hat of .* is [\d.]+\. {re.escape(differs)}\n", text)
    assert re.search(rf"which is too few for quantiles\. {re.escape(short)}(\n|$)", text)
    biased = str(result_of(normal_draws(shift=1.0), method=method).check(exact_reference()))
    assert "Wrong law:" in biased
    words = ("thin", "burn_in", "rho", "smaller step")
    lines = [line for line in f"{text}\n{biased}".splitlines() if not line.startswith("The agents")]
    said = [word for word in words for line in lines if word in line]
    assert bool(said) == (method == "half-noise")


def test_a_run_that_gave_up_before_its_number_of_draws_says_so():
    notes = {"method": "hmc", "wanted_draws": 4000}
    text = str(result_of(normal_draws(), **notes, effective_draws=1234.5).check())
    assert "with 1,234 effective draws, where 4,000 were asked for: its chains move too s" in text
    assert "write the model in other coordinates" in text
    assert result_of(normal_draws(), **notes, effective_draws=4000.5).check().ok
    assert result_of(normal_draws(), method="hmc").check().ok


def test_undefined_potentials_are_a_problem_with_the_sites_if_they_are_known():
    for notes, where in (
        ({"pareto_k": 0.1, "undefined_sites": '["b", "c"]'}, "candidates .* of site 'b', site 'c'"),
        ({"divergent_share": 0.0}, "trajectories of HMC .* of some site"),
    ):
        text = str(result_of(normal_draws(), **notes, undefined_share=0.031).check())
        assert re.search(rf"Cut off: for 3.1 % of the {where} is NaN", text)
        assert result_of(normal_draws(), **notes, undefined_share=0.0).check().ok


def test_the_worst_agent_is_named():
    elsewhere = normal_draws()
    elsewhere["beta"][0, :, 1, 0] += 1.0
    answer = check(elsewhere)
    assert answer.table.loc["beta[age]", "rhat_agent"] == "south"
    assert "R-hat of beta[age] at agent south" in answer.problems[0]

    sticky = normal_draws()
    sticky["beta"][:, :, 1, 1] = sticky["beta"][:, ::20, 1, 1].values.repeat(20, axis=1)
    answer = check(sticky)
    assert answer.table.loc["beta[dose]", "ess_agent"] == "south"
    # every 20th of 4,000 draws, repeated
    assert answer.table.loc["beta[dose]", "ess_bulk"] == pytest.approx(200, rel=0.4)
    assert answer.table.loc["sigma", "ess_bulk"] > 3000
    assert any(
        "effective draws of beta[dose] at agent south" in problem for problem in answer.problems
    )


def test_agreement_is_eqs_1_to_3_of_these_draws():
    """Two agents whose draws differ in place, spread and scatter, written out for one entry."""
    posterior = normal_draws(shift=0.3, scale=1.4, scatter=0.3)
    table = check(posterior).table
    for entry, values in {"beta[age]": posterior["beta"][..., 0], "sigma": posterior.sigma}.items():
        north, south = (values.sel(agent=name).values.ravel() for name in ("north", "south"))
        unit = np.concatenate([north, south]).std()
        apart = abs(north.mean() - south.mean()) / unit
        scatter = np.sqrt(np.mean((north - south) ** 2)) / 2 / unit
        spreads = sorted([north.std(), south.std()])
        found = table.loc[entry, ["mean_range", "disagreement", "sd_ratio"]].tolist()
        assert found == pytest.approx([apart, scatter, spreads[1] / spreads[0]], rel=1e-12)
    together = check(normal_draws(shift=0.3, scatter=0.0)).table
    assert together.loc["sigma", ["mean_range", "disagreement", "sd_ratio"]].tolist() == [0, 0, 1]


def arviz_of(draws):
    """R-hat, and bulk and tail effective draws, of draws (chain, draw) alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its next version when imported
        import arviz

        alone = xr.Dataset({"x": (("chain", "draw"), draws)})  # as ArviZ 0.x and 1.x take it
        bulk = arviz.ess(alone, method="bulk")
        tail = arviz.ess(alone, method="tail", prob=TAILS)  # the default differs between versions
        return tuple(float(one["x"]) for one in (arviz.rhat(alone), bulk, tail))


def test_effective_draws_are_those_of_the_bulk_or_of_the_tails_whichever_are_fewer():
    """At every agent on its own; the table has the worst agent."""
    posterior = normal_draws(scatter=0.5)
    posterior["sigma"][:, :, 1] *= 1.0 + 3.0 * (np.arange(1000) // 125 % 2)  # wide for a while
    posterior["sigma"][0, :, 0] += 0.2  # which R-hat sees at the other agent
    slow = posterior["beta"].values[:, :, 0, 0]
    for k in range(1, 1000):
        slow[:, k] = 0.9 * slow[:, k - 1] + np.sqrt(1 - 0.9**2) * slow[:, k]
    table = check(posterior).table
    worse = {"sigma": ("south", "ess_tail"), "beta[age]": ("north", "ess_bulk")}
    for entry, values in {"sigma": posterior.sigma, "beta[age]": posterior["beta"][..., 0]}.items():
        by_agent = [arviz_of(values.sel(agent=name).values) for name in ("north", "south")]
        rhat, bulk, tail = np.array(by_agent).T
        row, (agent, part) = table.loc[entry], worse[entry]
        assert row["ess"] == row[part] == pytest.approx(min(*bulk, *tail), rel=1e-9)
        assert row["ess_agent"] == agent
        assert row[["ess_bulk", "ess_tail"]].tolist() == pytest.approx([bulk.min(), tail.min()])
        assert row["rhat"] == pytest.approx(rhat.max(), rel=1e-9)
        assert row["rhat_agent"] == "north"
        assert row["ess"] < 0.8 * max(bulk.min(), tail.min())


@pytest.mark.parametrize("stuck", ["north", "south"])
def test_one_agent_of_unknown_convergence_is_not_hidden_by_the_others(stuck):
    posterior = normal_draws()
    posterior["sigma"].loc[{"agent": stuck}] = 1.0
    answer = check(posterior)
    assert np.isnan(answer.table.loc["sigma", "rhat"])
    assert answer.table.loc["sigma", "rhat_agent"] == stuck
    assert "Convergence of sigma is unknown" in answer.problems[0]
    assert not answer.table.drop("sigma")["rhat"].isna().any()


def test_draws_that_do_not_vary_are_no_evidence():
    answer = check(0 * normal_draws())
    assert answer.table["disagreement"].max() == 0
    assert answer.table["sd_ratio"].max() == 1
    assert ["unknown" in problem for problem in answer.problems] == [True]


def test_comparison_with_a_known_gaussian():
    """N(0.5, 1.5^2) against N(0, 1): W2 is sqrt(0.5^2 + 0.5^2), and intervals are too wide."""
    table = compare(normal_draws(shift=0.5, scale=1.5, draws=5000), exact_reference(100_000))
    south = table[(table["agent"] == "south") & (table["parameter"] == "beta[age]")].iloc[0]
    # 20,000 draws: errors of about 1.5/sqrt(20,000) = 0.01
    assert south["mean_error"] == pytest.approx(0.5, abs=0.04)
    assert south["sd_ratio"] == pytest.approx(1.5, abs=0.04)
    assert south["variance_ratio"] == pytest.approx(south["sd_ratio"] ** 2)
    assert south["w2"] == pytest.approx(np.sqrt(0.5), abs=0.04)
    assert south["coverage_90%"] > 0.96
    north = table[(table["agent"] == "north") & (table["parameter"] == "sigma")].iloc[0]
    assert north["w2"] < 0.04
    assert north["coverage_50%"] == pytest.approx(0.5, abs=0.02)


def test_references_are_matched_by_name_and_errors_have_no_sign():
    reference = exact_reference()
    swapped = {name: reference[name] for name in ("sigma", "beta")}
    draws = normal_draws(shift=-0.5)
    draws["sigma"] += 2.0
    table = compare(draws, reference)
    pd.testing.assert_frame_equal(compare(draws, swapped), table)
    errors = table.set_index(["parameter", "agent"])["mean_error"]
    # 4,000 draws: errors of about 1/sqrt(4,000) = 0.016
    assert errors["beta[age]", "south"] == pytest.approx(0.5, abs=0.07)
    assert errors["sigma", "north"] == pytest.approx(2.0, abs=0.07)


def test_sliced_w2_of_a_shift_is_its_projection():
    """A shift delta of the first entry moves u'x by delta |u_1|: at most delta, less on average."""
    reference, moved = exact_reference(), normal_draws(draws=5000)
    moved["beta"][:, :, 1, 0] += 1.0
    table = sliced_w2(moved, reference, 20_000)
    assert table.loc["south", "largest"] == pytest.approx(1.0, abs=0.05)
    # |u_1| is uniform on (0, 1) in three dimensions: sd 0.29 / sqrt(200) = 0.02 of the mean
    assert table.loc["south", "mean"] == pytest.approx(0.5, abs=0.08)
    # 10,000 draws a side: their means alone differ by about sqrt(2/10,000) = 0.014
    assert 0.01 < table.loc["south", "floor_mean"] < 0.04
    assert table.loc["north", "largest"] < 2 * table.loc["north", "floor_largest"]


def test_fewer_effective_draws_raise_the_floor():
    few, many = (sliced_w2(normal_draws(), exact_reference(), n) for n in (100, 10_000))
    # as 1/sqrt(n) of the smaller side, up to the reference's own 10,000
    assert 4 < few["floor_mean"].iloc[0] / many["floor_mean"].iloc[0] < 14


def test_a_wrong_correlation_is_seen_only_jointly():
    """Entries correlated by 0.9: every margin is right, and (age - dose) far too narrow."""
    posterior = normal_draws()
    age, dose = posterior["beta"].values[..., 0], posterior["beta"].values[..., 1]
    posterior["beta"][..., 1] = 0.9 * age + np.sqrt(1 - 0.9**2) * dose
    answer = check(posterior, reference=exact_reference())
    assert [problem.partition(":")[0] for problem in answer.problems] == ["Wrong joint law"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::starlings.errors.PosteriorWarning")
def test_a_result_checks_itself_against_the_exact_posterior():
    problem = paper_problem(5)
    result = st.sample(problem, st.Network.ring(5), draws=1500, chains=4, thin=4)
    mean, covariance = problem.exact_posterior()
    exact = np.random.default_rng(2).multivariate_normal(mean, covariance, size=50_000)
    answer = result.check(reference={"beta": exact})
    assert answer.ok, str(answer)
    biased = st.sample(
        problem, st.Network.ring(5), st.DADMMS(rho=5.0, noise="paper"), draws=1500, thin=4
    )
    assert not biased.check(reference={"beta": exact}).ok


def test_a_result_remembers_its_evidence(tmp_path):
    notes = {"tuning": {"predicted_w2": 0.03}, "stein": stein_of(sd=1.3).record()}
    posterior = normal_draws()
    result = st.load(result_of(posterior, **notes).save(tmp_path / "draws.nc"))
    answer = result.check()
    assert result.sample_stats.attrs == result.posterior.attrs == result.attrs
    assert answer.predicted_w2 == 0.03
    assert json.loads(result.attrs["stein"])["draws"] == answer.stein.draws == 1000
    assert ["the sd of x[" in problem for problem in answer.problems] == [True]


def test_references_must_fit():
    random = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"no draws of \['sigma'\]"):
        compare(normal_draws(), {"beta": random.normal(size=(5, 2))})
    with pytest.raises(ValueError, match="3 entries a draw, not 2"):
        compare(normal_draws(), {"beta": random.normal(size=(5, 3)), "sigma": np.zeros(5)})
    with pytest.raises(ValueError, match="'sigma' must have finite draws that vary"):
        compare(normal_draws(), {"beta": random.normal(size=(5, 2)), "sigma": np.zeros(5)})
    with pytest.raises(ValueError, match="different numbers of draws"):
        compare(normal_draws(), {"beta": random.normal(size=(5, 2)), "sigma": np.arange(4)})


def warnings_of(posterior, **notes):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_untrustworthy(result_of(posterior, **notes))
    assert all(warning.category is PosteriorWarning for warning in caught)
    return [str(warning.message) for warning in caught]


def test_good_draws_and_trial_runs_do_not_warn():
    assert warnings_of(normal_draws(), stein=stein_of().record()) == []
    assert warnings_of(normal_draws(draws=40, drift=1.0, shift=3.0)) == []
    assert warnings_of(normal_draws(chains=1)) == []
    # noted by `check`, but not worth a warning: 240 effective draws, means 0.15 sd apart
    assert warnings_of(normal_draws(draws=100, shift=0.15)) == []


def test_all_that_is_wrong_is_one_warning():
    notes = {"stein": stein_of(delta=0.5).record(), "tuning": {"predicted_w2": 0.3}}
    (text,) = warnings_of(normal_draws(drift=0.5, shift=1.0, scatter=0.6), **notes)
    for part in ("Not converged", "The agents disagree", "scatter", "Biased", "Stein's"):
        assert part in text
    (text,) = warnings_of(normal_draws(draws=10), stein=notes["stein"])
    assert text.count("\n- ") == 1, "a trial run is only told that its law is wrong"


def test_one_bad_agent_is_found_by_the_quick_look():
    posterior = normal_draws()
    posterior["sigma"][0, :, 1] += 1.0
    (text,) = warnings_of(posterior)
    assert "R-hat of sigma at agent south" in text


def test_a_drift_in_common_of_all_chains_is_found_by_the_quick_look():
    """The chains have the same means, and their halves have not."""
    posterior = normal_draws()
    posterior["sigma"][:, :, 1] += np.linspace(-1, 1, 1000)
    (text,) = warnings_of(posterior)
    assert "R-hat of sigma at agent south" in text


def test_what_could_be_chance_is_not_a_wrong_joint_law():
    """Right draws that are few: far from the reference, and no farther than its own parts are."""
    few = normal_draws(draws=12)
    answer = check(few, reference=exact_reference())
    worst = answer.sliced.max()
    assert 0.1 < worst["largest"] <= 2 * worst["floor_largest"]
    assert not any("joint law" in problem for problem in answer.problems)


def test_checks_need_neither_arviz_nor_any_extra():
    """In a process in which ArviZ cannot be imported, R-hat and effective draws are computed."""
    program = """
import sys
sys.modules["arviz"] = sys.modules["arviz_base"] = None
from tests.unit.test_verdict import normal_draws, result_of
from starlings.diagnostics.checking import check, quick_check
assert check(normal_draws()).ok
assert "Not converged" in quick_check(normal_draws(drift=0.5), {}).problems[0]
assert result_of(normal_draws()).summary()["ess_bulk"].min() > 3000
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
