"""Trial files: what is normalised, and what cannot work between organisations."""

from __future__ import annotations

import re

import pytest

from starlings.sites.limits import Limits
from starlings.sites.site_names import check_site_names, name_of_urn, urn_of
from starlings.sites.trial import Trial, edges_of, study_from_text
from starlings.sites.trial_text import TEMPLATE
from tests.sites.trials import TRIAL


def read(tmp_path, text: str) -> Trial:
    path = tmp_path / "trial.toml"
    path.write_text(text, encoding="utf-8")
    return Trial.read(path)


def test_a_trial(tmp_path):
    trial = read(tmp_path, TRIAL)
    assert trial.contacts == {"Ashby": "it@ashby.example", "Brook": "", "Cliff": ""}
    assert edges_of(trial.study, trial.sites) == [
        ["Ashby", "Brook"],
        ["Ashby", "Cliff"],
        ["Brook", "Cliff"],
    ]
    assert trial.columns == {"age": "years at admission", "dose": "", "ill": ""}
    assert (trial.privacy, trial.limits) == ("totals", Limits(rounds=5000))


def test_the_draft_is_a_trial(tmp_path):
    assert read(tmp_path, TEMPLATE).sites == ["Ashby", "Brook", "Cliff"]


def test_comments_and_order_do_not_matter(tmp_path):
    first = read(tmp_path, TRIAL).text
    model, rest = TRIAL.split("[columns]")
    assert read(tmp_path, f"# a comment\n[columns]{rest}\n\n{model}").text == first
    study = study_from_text(first, tmp_path / "trial.toml")
    assert study.model.covariates == ["age", "dose"]
    assert study.run_settings() == {"draws": 20, "privacy": "totals"}
    with pytest.raises(ValueError, match="has no section \\[data\\]"):
        study.make_problem()


def test_a_sampler_of_a_trial_is_imported_only_when_it_is_asked_for(tmp_path):
    (tmp_path / "mine_of_trial.py").write_text(
        "from starlings import DADMMS\nclass Mine(DADMMS): pass\n"
    )
    extra = '[sampler]\nname = "mine_of_trial:Mine"\nrho = 2.0\n[run]'
    trial = read(tmp_path, TRIAL.replace("[run]", extra))
    assert list(trial.code) == ["mine_of_trial.py"]
    place = tmp_path / "elsewhere" / "trial.toml"
    assert study_from_text(trial.text, place, has_sampler=False).sampler.name is None
    assert study_from_text(trial.text, tmp_path / "trial.toml").make_sampler().rho == 2.0


BAD = {
    "data": ("[columns]", '[data]\nfile = "x.csv"\n[columns]', "[data] does not belong in a trial"),
    "output": ("draws = 20", 'output = "x.nc"', "`output` cannot be set in a trial"),
    "seed": ("draws = 20", "seed = 1", "`seed` cannot be set in a trial"),
    "section": ("[limits]", "[limit]", "unknown section [limit]"),
    "limit": ("rounds = 5000", "round = 5000", "unknown key `round`"),
    "zero": ("rounds = 5000", "rounds = 0", "`rounds` must be above 0, got 0"),
    "hours": ("rounds = 5000", "hours = 1.5", "`hours` must be a whole number, got 1.5"),
    "column": ("age = ", "aeg = ", "'aeg' is not a column of [model]"),
    "meaning": ('"years at admission"', "1", "`age` must be text in quotes, got 1"),
    "few": ("[sites.Cliff]", "", "`fewest_sites` is 3, and [sites] has 2"),
    "contact": ("contact = ", "phone = ", "may have the key `contact`"),
    "site": ("[sites.Cliff]", "[sites.'a/b']", "'a/b' cannot be the name of a site"),
    "capitals": ("[sites.Cliff]", "[sites.Cliff]\n[sites.BROOK]", "differ only in capital letters"),
    "relay": ("wss://relay", "http://relay", '`urls` must be like "wss://relay.example.org"'),
    "no way": ("urls = [", "urls = [] #", "needs either [relay] with `urls`, or [direct]"),
    "both": ("[limits]", '[direct]\nAshby = "a:1"\nBrook="b:1"\nCliff="c:1"\n[limits]', "not both"),
    "address": ("[limits]", '[direct]\nAshby = "a"\n[limits]', '`Ashby` must be like "ashby'),
    "addresses": ("[limits]", '[direct]\nAshby = "a:1"\n[limits]', "no address of ['Brook', 'Cli"),
    "stranger": ("[limits]", '[direct]\nAshbi = "a:1"\n[limits]', "Did you mean 'Ashby'?"),
    "standardise": ("prior_std", "standardise = true\nprior_std", "standardise its columns"),
    "masks": ("draws = 20", 'method = "metropolis"', "reads more than totals"),
    "sampler": ("[run]", '[sampler]\nname = "metropolis"\n[run]', "reads more than totals"),
    "no file": ("[run]", '[sampler]\nname = "json:JSONDecoder"\n[run]', "is not a subclass"),
    "package": (
        "[run]",
        '[sampler]\nname = "starlings:DULA"\nstep_size = 0.1\nconsensus_step = 0.1\n[run]',
        "there is no starlings.py beside it",
    ),
    "graph": ('"complete"', '"circle"', "[network] `graph` must be one of"),
    "privacy": ("draws = 20", 'privacy = "total"', "`privacy` must be one of"),
    "method": ("draws = 20", 'method = "hcm"', "[run] `method` must be one of"),
}


@pytest.mark.parametrize(("old", "new", "text"), BAD.values(), ids=BAD)
def test_what_is_refused(tmp_path, old, new, text):
    assert old in TRIAL
    with pytest.raises((ValueError, RuntimeError), match=re.escape(text)) as caught:
        read(tmp_path, TRIAL.replace(old, new, 1))
    assert "trial.toml" in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(RuntimeError, match="writes a draft"):
        Trial.read(tmp_path / "none.toml")


@pytest.mark.parametrize("name", ["Ashby", "St Mary's", "Zürich 2", "東京", "a%20b"])
def test_names_go_into_certificates_and_back(name):
    assert name_of_urn(urn_of(name), "x") == name


@pytest.mark.parametrize("name", ["", " a", "a ", ".a", "a/b", "a\\b", "a\nb", "a" * 65, "e\u0301"])
def test_names_that_no_site_may_have(name):
    with pytest.raises(RuntimeError, match="cannot be the name of a site"):
        check_site_names([name], "x")


@pytest.mark.parametrize(
    "urn", ["urn:other:Ashby", "urn:starlings:site:a b", "urn:starlings:site:%41", "Ashby"]
)
def test_urns_that_are_spelt_differently(urn):
    with pytest.raises(RuntimeError, match="not the name of a site"):
        name_of_urn(urn, "x")
