"""Jobs: what a reviewer reads, what a site decides for itself, and what is refused."""

from __future__ import annotations

import json
import shutil
import sys

import pytest

from starlings.engines.flare.export import export, read_job
from starlings.engines.flare.workspace import add_settings, allow, read_resources
from starlings.engines.job import Job, in_words
from starlings.engines.settings import SiteSettings
from starlings.errors import PrivacyError, SiteError
from tests.engines.studies import SITES, STUDY, Programs, study

SAMPLER = '[sampler]\nname = "mine:Mine"\nstep_size = 0.01\n'
CODE = """\
import dataclasses

from starlings.samplers import DSGLD


@dataclasses.dataclass(frozen=True)
class Mine(DSGLD):
    pass
"""


def test_a_job_has_no_rows_and_no_path(tmp_path):
    path = study(tmp_path, 'output = "out.nc"\n')
    export(Job.of_study(path), tmp_path / "job")
    for file in (tmp_path / "job").rglob("*"):
        if file.is_file():
            assert not any(word in file.read_text() for word in ("rows.csv", "out.nc", "hospital"))
    job = read_job(tmp_path / "job")
    assert job.sites == list(SITES)
    assert job.privacy == "totals"  # although the study says nothing of it
    assert job.study(path).run_settings()["draws"] == 60


def test_a_job_names_the_classes_of_starlings_and_all_sites(tmp_path):
    export(Job.of_study(study(tmp_path)), tmp_path / "job")
    config = tmp_path / "job" / "app" / "config"
    server = json.loads((config / "config_fed_server.json").read_text())
    client = json.loads((config / "config_fed_client.json").read_text())
    meta = json.loads((tmp_path / "job" / "meta.json").read_text())
    assert [part["path"] for part in server["workflows"]] == [
        "starlings.engines.flare.controller.SumsController"
    ]
    assert [part["executor"]["path"] for part in client["executors"]] == [
        "starlings.engines.flare.executor.SiteExecutor"
    ]
    assert meta["min_clients"] == 3
    assert meta["mandatory_clients"] == list(SITES)


def test_only_an_explicit_word_takes_the_masks_away(tmp_path):
    masked = dict(in_words(Job.of_study(study(tmp_path))))["leaves"]
    clear = dict(in_words(Job.of_study(study(tmp_path, 'privacy = "none"\n'))))["leaves"]
    assert "hidden by masks" in masked
    assert "IN THE CLEAR" in clear


def test_a_study_without_rows_names_its_sites(tmp_path):
    text = STUDY.replace('[data]\nfile = "rows.csv"\nsite = "hospital"\n', "")
    named = text + "".join(f"[sites.{site}]\n" for site in ("Downs", "Ashby", "Elms"))
    assert Job.of_study(study(tmp_path, text=named)).sites == ["Ashby", "Downs", "Elms"]
    with pytest.raises(SiteError, match="names no sites"):
        Job.of_study(study(tmp_path, text=text))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("prior_std = 2.5", "standardise = true"), "standardise"),
        (("draws = 60", 'method = "metropolis"'), "more than totals"),
        (("draws = 60", 'method = "hcm"'), "Did you mean 'hmc'"),
        (("draws = 60", 'privacy = "some"'), "must be one of"),
    ],
)
def test_what_cannot_work_is_refused_at_export(tmp_path, change, fault):
    with pytest.raises(SiteError, match=fault):
        Job.of_study(study(tmp_path, text=STUDY.replace(*change)))


def test_code_travels_with_its_hash(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(CODE)
    text = STUDY.replace("[network]", SAMPLER + "[network]")
    export(Job.of_study(study(tmp_path, text=text)), tmp_path / "job")
    code = tmp_path / "job" / "app" / "custom" / "mine.py"
    assert code.read_text() == CODE
    monkeypatch.delitem(sys.modules, "mine")  # as at a site, which has not read the study
    job = read_job(tmp_path / "job")
    assert type(job.study(code).make_sampler()).__name__ == "Mine"
    monkeypatch.delitem(sys.modules, "mine")
    shutil.rmtree(code.parent / "__pycache__", ignore_errors=True)
    code.write_text(CODE + "\n")
    with pytest.raises(SiteError, match="not that of the job"):
        read_job(tmp_path / "job")


def test_nothing_runs_that_the_job_does_not_show(tmp_path):
    """A sampler without its file, a file beside the sampler's, and a file elsewhere."""
    (tmp_path / "shown.py").write_text(CODE)
    text = STUDY.replace("[network]", SAMPLER.replace("mine", "shown") + "[network]")
    export(Job.of_study(study(tmp_path, text=text)), tmp_path / "job")
    job, custom = (tmp_path / "job" / "app" / name for name in ("config/job.toml", "custom"))
    read = dict(in_words(read_job(tmp_path / "job")))
    assert read["sampler"] == "name shown:Mine, step_size 0.01"
    for other in (
        "shown/__init__.py",
        "__pycache__/shown.cpython-311.pyc",
        "starlings/__init__.py",
    ):
        (custom / other).parent.mkdir(exist_ok=True)
        (custom / other).write_bytes(b"")
        with pytest.raises(SiteError, match="files that the job does not name"):
            Job.read(job, custom)
        shutil.rmtree((custom / other).parent)
    whole = job.read_text()
    for before, after in {
        '"shown:Mine"': '"evil:Mine"',
        'name = "shown:Mine"': 'name = "dsgld"',
        "shown.py": "../shown.py",
    }.items():
        assert before in whole
        job.write_text(whole.replace(before, after))
        with pytest.raises(SiteError, match="the Python files of a job are those of its sampler"):
            Job.read(job, custom)


@pytest.mark.parametrize("name", ["README.md", "meta.json", "app/config/config_fed_client.json"])
def test_a_folder_that_was_changed_is_not_accepted(tmp_path, name):
    export(Job.of_study(study(tmp_path)), tmp_path / "job")
    (tmp_path / "job" / name).write_text("{}")
    with pytest.raises(SiteError, match=name):
        read_job(tmp_path / "job")


def workspace(folder, startup="fed_client.json"):
    for name in ("local", "startup"):
        (folder / name).mkdir(parents=True)
    (folder / "startup" / startup).write_text("{}")
    default = {"class_allow_list": ["their.Class"], "client": {"retry_timeout": 30}}
    (folder / "local" / "resources.json.default").write_text(json.dumps(default))
    return folder


def test_a_site_and_the_server_allow_one_class_each(tmp_path):
    for startup, ours in (("fed_client.json", "Executor"), ("fed_server.json", "Controller")):
        place = workspace(tmp_path / startup, startup)
        for _ in range(2):
            assert allow(place).endswith(ours)
        found = read_resources(place)
        assert [name.rsplit(".", 1)[1][-8:] for name in found["class_allow_list"]] == [
            "Class",
            ours[-8:],
        ]
        assert found["client"] == {"retry_timeout": 30}
    with pytest.raises(SiteError, match="no workspace"):
        allow(tmp_path)


def test_settings_are_for_one_job_as_it_was_read(tmp_path):
    job = Job.of_study(study(tmp_path))
    place = workspace(tmp_path / "Ashby")
    file = add_settings(place, job, tmp_path / "Ashby.csv", tmp_path / "results")
    found = SiteSettings.read(file, job)
    assert (found.data, found.results) == (tmp_path / "Ashby.csv", tmp_path / "results")
    with pytest.raises(SiteError, match="already"):
        add_settings(place, job, tmp_path / "Ashby.csv", tmp_path / "results")
    changed = Job.of_study(study(tmp_path, "seed = 2\n"))
    with pytest.raises(SiteError, match="was changed"):
        SiteSettings.read(file, changed)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "does not take part"),
        ("[jobs.other]\ndata = 'a'\nresults = 'b'\n", "does not take part"),
        ("[jobs.trial]\ndata = 'a'\n", "needs `results`"),
        ("[jobs.trial]\ndata = 'a'\nresult = 'b'\n", "unknown key `result`"),
        ("[job.trial]\n", "unknown key `job`"),
        ("[jobs", "cannot be read"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(tmp_path, text, fault):
    file = tmp_path / "starlings.toml"
    file.write_text(text)
    with pytest.raises(SiteError, match=fault):
        SiteSettings.read(file, Job.of_study(study(tmp_path)))


def test_guard_rails_of_a_site_hold(tmp_path):
    job = Job.of_study(study(tmp_path))
    file = tmp_path / "starlings.toml"
    rails = "[guard_rails]\nfewest_rows = 41\n"
    file.write_text(f"[jobs.trial]\ndata = 'Ashby.csv'\nresults = 'r'\n{rails}")
    programs = Programs.of_study(tmp_path / "trial.toml", tmp_path)
    programs.rails = SiteSettings.read(file, job).rails
    with pytest.raises(PrivacyError, match="has 40 rows and needs 41"):
        programs.prepared("Ashby")
    programs.prepared("Brook").journal.close()


def test_other_versions_than_those_of_the_job_are_refused(tmp_path):
    job = Job.of_study(study(tmp_path))
    Job(job.text, job.code).check_versions()
    older = job.text.replace(f'JAX = "{job.tables["versions"]["JAX"]}"', 'JAX = "0.8.1"')
    with pytest.raises(SiteError, match=r"JAX .* instead of 0\.8\.1"):
        Job(older, job.code).check_versions()
