"""Guard rails of a site: their boundaries, their file, and when they hold."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import starlings as st
from starlings.errors import PrivacyError
from starlings.network.gossip import Gossip
from starlings.privacy.guard_rails import VARIABLE, GuardRails
from starlings.sampling.private import private_network
from starlings.study.run import run_locally
from starlings.study.study import Study
from tests.privacy.test_private_runs import LENGTHS, RING, logistic


def rows(sites=4, each=30, levels=2):
    random = np.random.default_rng(2)
    return {
        f"s{k}": {"x": random.normal(size=(each, 2)), "y": np.arange(each) % levels}
        for k in range(sites)
    }


def test_guard_rails_pass_and_name_rule_number_and_remedy():
    rails, shards = GuardRails(), rows()
    rails.check(4, 3, shards)
    with pytest.raises(PrivacyError, match=r"fewest_sites: 3 sites are needed, got 2.* more sites"):
        rails.check(2, 3, shards)
    with pytest.raises(PrivacyError, match=r"fewest_rows: site 's0' has 10 rows and needs 11"):
        rails.check(4, 3, rows(each=10))
    with pytest.raises(PrivacyError, match=r"30 rows, enough for 10 parameters, .* model has 11"):
        rails.check(4, 11, shards)
    shards["s2"]["y"] = np.r_[np.ones(28), np.zeros(2)]
    with pytest.raises(PrivacyError, match=r"at site 's2' the column y has a value .* in 2 rows"):
        rails.check(4, 3, shards)
    shards["s2"]["y"] = np.arange(30)  # no categories
    rails.check(4, 3, shards)


def test_guard_rails_are_checked_before_anything_is_sent(monkeypatch):
    monkeypatch.setattr(Gossip, "sum", lambda *_: pytest.fail("something was sent"))
    x = np.linspace(0, 1, 80)[:, None]
    small = st.models.linear_regression(x[:8], np.ones(8), sites=np.arange(8) % 4)
    with pytest.raises(PrivacyError, match="fewest_rows"):
        st.sample(small, RING, privacy="totals")
    two = st.models.linear_regression(x, np.ones(80), sites=np.arange(80) % 2)
    with pytest.raises(PrivacyError, match="fewest_sites"):
        st.sample(two, st.Network.path(2), privacy="totals")


def test_limits_hold_up_to_their_boundaries():
    """11 rows are enough, and so are 33 rows for exactly a third as many parameters."""
    rails = GuardRails()
    rails.check(3, 3, rows(3, each=11))
    rails.check(3, 11, rows(3, each=33))
    for each in range(11, 2000):
        assert each // 3 <= rails.most_parameters_per_row * each
    with pytest.raises(PrivacyError, match="33 rows, enough for 11 parameters"):
        rails.check(3, 12, rows(3, each=33))


def with_column(values):
    shards = rows()
    shards["s1"]["c"] = np.asarray(values)
    return shards


CATEGORIES = {
    "three rows of the rarest": (np.r_[np.zeros(27), np.ones(3)], True),
    "two rows of the rarest": (np.r_[np.zeros(28), np.ones(2)], False),
    "ten values, one of them once": (np.r_[np.repeat(np.arange(9), 3), 0, 0, 9], False),
    "eleven values, ten of them once": (np.r_[np.zeros(20), np.arange(10) + 1], True),
}


@pytest.mark.parametrize(("values", "is_fine"), CATEGORIES.values(), ids=CATEGORIES)
def test_rare_categories_are_refused(values, is_fine):
    if is_fine:
        GuardRails().check(4, 3, with_column(values))
        return
    with pytest.raises(PrivacyError, match=r"fewest_rows_in_category: at site 's1' the column c"):
        GuardRails().check(4, 3, with_column(values))


def test_an_outcome_of_few_values_is_a_category_unless_a_model_of_ours_says_otherwise():
    """A count may be rare, as the largest mostly is; a model that is not ours may mean categories.

    Truth values are categories in any case.
    """
    x = np.random.default_rng(0).normal(size=(120, 1))
    counts = np.resize([0, 1, 2, 3], 120)
    counts[0] = 4
    sites, short = np.repeat(np.arange(4), 30), {"draws": 4, "chains": 2, "check": False}
    ours = st.models.poisson_regression(x, counts, sites)
    how = {**short, "method": "weights", "progress": False, "privacy": "totals"}
    assert st.sample(ours, RING, **how).posterior.sizes["draw"] == 4
    other = ours.with_description(kind="of categories")
    with pytest.raises(PrivacyError, match="fewest_rows_in_category: at site '0' the column y"):
        st.sample(other, RING, **how)
    binary = np.resize([0, 1], 120)
    binary[:30] = np.r_[np.zeros(28), np.ones(2)]
    with pytest.raises(PrivacyError, match="fewest_rows_in_category"):
        st.sample(st.models.logistic_regression(x, binary, sites), RING, **how)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "rails.toml"))
    return tmp_path / "rails.toml"


@pytest.mark.parametrize("privacy", ["none", "totals"])
def test_what_a_site_sets_in_its_file_holds_with_and_without_masks(privacy, file):
    """A study cannot leave the limits of a site by not asking for masks."""
    file.write_text("fewest_rows = 31\nmost_parameters_per_row = 0.5\n")
    assert GuardRails.of_this_machine() == GuardRails(fewest_rows=31, most_parameters_per_row=0.5)
    with pytest.raises(PrivacyError, match="has 30 rows and needs 31"):
        st.sample(logistic(), RING, privacy=privacy)
    file.write_text("fewest_sites = 5")
    with pytest.raises(PrivacyError, match="5 sites are needed, got 4"):
        st.sample(logistic(), RING, privacy=privacy)


def test_defaults_hold_for_masked_runs_only():
    assert GuardRails.of_file() is None
    assert GuardRails.of_this_machine() == GuardRails()
    x = np.random.default_rng(0).normal(size=(40, 1))
    small = st.models.linear_regression(x, x[:, 0], sites=np.arange(40) % 4, noise_std=1.0)
    st.sample(small, RING, **LENGTHS, method="weights")
    with pytest.raises(PrivacyError, match="fewest_rows"):
        st.sample(small, RING, **LENGTHS, method="weights", privacy="totals")


def test_a_site_that_needs_masks_takes_part_in_no_other_run(file, monkeypatch):
    file.write_text("needs_masks = true")
    how = {**LENGTHS, "method": "weights"}
    result = st.sample(logistic(), RING, **how, privacy="totals")
    models = {name: (logistic(), result) for name in ("a", "b")}
    monkeypatch.setattr(Gossip, "sum", lambda *_: pytest.fail("something was sent"))
    for unmasked in (
        lambda: st.sample(logistic(), RING, **how),
        lambda: st.loo(logistic(), RING, result),
        lambda: st.compare_loo(RING, models),
    ):
        with pytest.raises(PrivacyError, match=r"needs_masks: this site .* `?privacy=\"totals\""):
            unmasked()


def test_all_compared_models_have_to_keep_the_guard_rails(file):
    file.write_text("most_parameters_per_row = 0.1")
    problem, random = logistic(), np.random.default_rng(1)
    y = np.concatenate([rows["y"] for rows in problem.shards.values()])
    sites = np.repeat(np.arange(4), 30)
    other = st.models.logistic_regression(random.normal(size=(120, 5)), y, sites)
    with pytest.raises(PrivacyError, match=r"30 rows, enough for 3 parameters, .* model has 6"):
        st.compare_loo(RING, {"one": (problem, None), "two": (other, None)}, privacy="totals")


def test_fewest_sites_are_processes_too_where_there_are_several():
    """Whoever runs one of two processes knows the total of the other one's sites."""
    rails, shards = GuardRails(), rows()
    rails.check(4, 3, shards, processes=1)
    rails.check(4, 3, shards, processes=3)
    with pytest.raises(PrivacyError, match=r"fewest_sites: 3 processes are needed, got 2: .* of"):
        rails.check(4, 3, shards, processes=2)
    GuardRails(fewest_sites=2).check(4, 3, shards, processes=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fewest_row = 3", r"unknown guard rail `fewest_row`.*Did you mean 'fewest_rows'\?"),
        ("fewest_rows = -1", "`fewest_rows` must be a number from 0, got -1"),
        ("fewest_rows = 2.5", "must be a number from 0, got 2.5"),
        ("fewest_rows = true", "must be a number from 0, got True"),
        ("needs_masks = 1", "`needs_masks` must be true or false, got 1"),
        ("fewest_rows = ", "cannot be read"),
    ],
)
def test_a_wrong_file_of_guard_rails_is_an_error(text, message, tmp_path):
    (tmp_path / "rails.toml").write_text(text)
    with pytest.raises(PrivacyError, match=message):
        GuardRails.read(tmp_path / "rails.toml")


def test_a_missing_file_of_guard_rails_is_an_error(monkeypatch):
    monkeypatch.setenv(VARIABLE, "nowhere/rails.toml")
    with pytest.raises(PrivacyError, match=r"in nowhere.rails.toml cannot be read"):
        GuardRails.of_this_machine()


STUDY = {
    "data": 'file = "rows.csv"\nsite = "site"',
    "model": 'kind = "linear_regression"\noutcome = "y"\ncovariates = ["x"]\nnoise_std = 1.0',
    "network": 'graph = "ring"',
    "sampler": 'name = "dadmms"',
    "run": 'privacy = "totals"',
}


@pytest.fixture
def study(tmp_path):
    """A study of four sites with 20 rows each, to which lines are added."""
    lines = [f"s{row % 4},{row / 80},{row % 7}" for row in range(80)]
    (tmp_path / "rows.csv").write_text("\n".join(["site,x,y", *lines]))

    def written(**more: str) -> Study:
        sections = {**STUDY, **{name: f"{STUDY.get(name, '')}\n{more[name]}" for name in more}}
        text = "\n".join(f"[{name}]\n{lines}" for name, lines in sections.items())
        (tmp_path / "study.toml").write_text(text)
        return Study.read(tmp_path / "study.toml")

    return written


@pytest.mark.parametrize("rail", [field.name for field in dataclasses.fields(GuardRails)])
def test_a_study_cannot_set_guard_rails(rail, study):
    """No section takes the name of one, with a value that would loosen it."""
    study()
    for section in (*STUDY, "guard_rails", "privacy"):
        with pytest.raises(ValueError, match=rf"unknown (key `{rail}`|section)"):
            study(**{section: f"{rail} = 0"})


def test_guard_rails_in_a_file_hold_for_a_study(study, file):
    file.write_text("fewest_rows = 20")
    problem = study().make_problem()
    private_network(problem, study().make_network(problem.sites), "totals")
    file.write_text("fewest_rows = 21")
    with pytest.raises(PrivacyError, match=r"20 rows and needs 21"):
        run_locally(study(), study().run_settings(), quiet=True)
