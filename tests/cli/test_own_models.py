"""A Python file as the model of a study: what it gets, and when it does not run."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pandas as pd
import pytest

from starlings.engines.flare.export import export, read_job
from starlings.engines.job import Job, in_words
from starlings.engines.settings import SiteSettings
from starlings.errors import SiteError
from starlings.results.result import load
from starlings.sites.approvals import make_approval
from starlings.sites.authority import Authority
from starlings.sites.description import what_runs
from starlings.sites.kit import Kit
from starlings.sites.site import Site
from starlings.sites.site_data import SiteData
from starlings.study.study import Study
from tests.sites.trials import (
    PASSPHRASE,
    SITES,
    TRIAL,
    make_request_file,
    opened,
    starlings,
    write_rows,
)

CODE = """\
import pathlib

import jax.numpy as jnp
import starlings

pathlib.Path(__file__).with_name("has run").write_text("yes")


def build(rows, prior_std=1.0):
    shards = {
        site: {"x": table[["age", "dose"]].to_numpy(), "y": table["ill"].to_numpy()}
        for site, table in rows.items()
    }

    def log_likelihood(p, row):
        eta = row["x"] @ p["beta"]
        return row["y"] * eta - jnp.logaddexp(0.0, eta)

    def log_prior(p):
        return -0.5 * jnp.sum((p["beta"] / prior_std) ** 2)

    return starlings.Problem(log_likelihood, log_prior, {"beta": (2,)}, shards)
"""
HASH = hashlib.sha256(CODE.encode()).hexdigest()
MODEL = '[model]\nbuild = "mine.py:build"\ncolumns = ["age", "dose", "ill"]\nprior_std = 2.0\n'
STUDY = MODEL + '[data]\nfolder = "rows"\n[network]\ngraph = "complete"\n[run]\ndraws = 30\n'


def study(folder, text=STUDY, code=CODE):
    (folder / "mine.py").write_text(code)
    (folder / "rows").mkdir()
    for site in SITES:
        write_rows(folder / "rows" / f"{site}.csv")
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


def test_the_function_gets_the_rows_of_sites_and_keywords(tmp_path):
    plan = Study.read(study(tmp_path))
    assert not (tmp_path / "has run").exists(), "reading a study runs nothing"
    problem = plan.make_problem()
    assert (problem.sites, problem.num_rows.tolist()) == (list(SITES), [40, 40, 40])
    some = plan.make_problem(["Brook"])
    z = np.array([0.3, -0.2])
    np.testing.assert_allclose(
        some.of_site("Brook").potential(z), problem.of_site("Brook").potential(z)
    )
    rows = pd.concat(pd.read_csv(tmp_path / "rows" / f"{site}.csv") for site in SITES)
    eta = rows[["age", "dose"]].to_numpy() @ z
    wanted = np.sum(np.logaddexp(0, eta) - rows["ill"] * eta) + 0.5 * z @ z / 4.0
    assert problem.potential(z) == pytest.approx(wanted)


@pytest.mark.slow
def test_the_hash_is_in_the_result(tmp_path):
    path = study(tmp_path)
    output = tmp_path / "out.nc"
    ran = starlings("sample", path, "--output", output, "--quiet")
    assert ran.exit_code == 0, ran.output
    assert json.loads(load(output).attrs["model"])["code"] == {"mine.py": HASH}


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("[model]\n", f'[model]\nsha256 = "{"0" * 64}"\n', "has been changed, and is not run"),
        ("mine.py:build", "other.py:build", "no Python file"),
        ("mine.py:build", "mine.build", "must be a Python file beside the study"),
        ("mine.py:build", "../mine.py:build", "must be a Python file beside the study"),
        ("mine.py:build", "mine.py:built", "has no function 'built'.*Did you mean 'build'"),
        ("[model]\n", '[model]\nkind = "x"\n', "leave one of them out"),
        ("prior_std", "prior_sd", "unexpected keyword argument 'prior_sd'"),
        ('"ill"]', '"il"]', "no column 'il'"),
    ],
)
def test_what_is_refused(tmp_path, old, new, text):
    path = study(tmp_path, STUDY.replace(old, new, 1))
    with pytest.raises((ValueError, FileNotFoundError), match=f"(?s){text}"):
        Study.read(path).make_problem()


@pytest.fixture
def kits(tmp_path):
    """A folder with the kits of a trial whose model is a Python file."""
    folder = tmp_path / "trial"
    folder.mkdir()
    (folder / "mine.py").write_text(CODE)
    text = MODEL + TRIAL[TRIAL.index("[columns]") :]
    (folder / "trial.toml").write_text(text, encoding="utf-8")
    Authority.make(folder / "trial.toml", PASSPHRASE)
    steps = opened(folder)
    steps.issue(steps.read_requests([make_request_file(folder, site) for site in SITES]))
    return folder


def test_code_does_not_run_before_its_hash_is_approved(kits):
    rows = write_rows(kits / "rows.csv")
    kit = Kit.open(kits / "kits" / "Ashby.zip")
    shown = dict(what_runs(kit))
    assert HASH in shown["CODE"]
    assert "the function build" in shown["model"]
    assert "can do there whatever its user may do" in " ".join(t for _, t in what_runs(kit))
    checked = starlings("check", kit.path, "--data", rows, "--offline")
    assert "does not run before it is approved" in " ".join(checked.output.split())
    with pytest.raises(SiteError, match="has not approved manifest 1"):
        Site.prepare(kit.path, rows)
    assert not list(kits.rglob("has run"))
    kit.home.approval_path("Ashby").write_bytes(make_approval(kit))
    problem = Site.prepare(kit.path, rows).problem
    assert problem.sites == list(SITES)
    assert problem.provenance()["code"] == {"mine.py": HASH}
    assert list(kits.rglob("has run"))


def test_code_that_was_changed_after_the_approval_is_refused(kits):
    rows = write_rows(kits / "rows.csv")
    kit = Kit.open(kits / "kits" / "Ashby.zip")
    plan = kit.study(SiteData.open(rows, "Ashby", ["age", "dose", "ill"]))
    file = plan.path.parent / "mine.py"
    assert file.read_text() == CODE
    file.write_text(CODE + "# and one character more\n")
    with pytest.raises(ValueError, match=f"{HASH} is approved: the file has been changed"):
        plan.make_problem(["Ashby"])
    assert not list(kits.rglob("has run"))
    (kits / "mine.py").write_text(CODE.replace("-0.5", "-0.6"))
    opened(kits).publish()
    newer = Kit.open(kit.path)
    assert newer.manifest.number == 2, "another file is another manifest, to be approved anew"
    assert HASH not in dict(what_runs(newer))["CODE"]


def test_a_job_of_an_engine_has_the_hash_and_no_other_code(tmp_path):
    job = Job.of_study(study(tmp_path))
    assert HASH in dict(in_words(job))["code"]
    export(job, tmp_path / "job")
    assert read_job(tmp_path / "job").code == {"mine.py": CODE}
    settings = tmp_path / "starlings.toml"
    own = '[jobs.study]\ndata = "a.csv"\nresults = "r"\n'
    settings.write_text(own)
    with pytest.raises(SiteError, match="needs `hash`, since the job brings Python files"):
        SiteSettings.read(settings, job)
    settings.write_text(f'{own}hash = "{job.hash}"\n')
    assert SiteSettings.read(settings, job).data == tmp_path / "a.csv"
    changed = next((tmp_path / "job").rglob("mine.py"))
    changed.write_text(CODE + "#")
    with pytest.raises(SiteError, match="is not that of the job"):
        read_job(tmp_path / "job")
    assert not list(tmp_path.rglob("has run"))
