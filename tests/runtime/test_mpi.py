"""The MPI runtime: the same draws on any number of processes; what ends one ends all."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import starlings as st
from tests.mpi import ROOT, mpi, needs_mpi
from tests.problems import unequal_linear_problem
from tests.runtime import mpi_job

pytestmark = needs_mpi


def job(processes: int, what: str, output: Path) -> subprocess.CompletedProcess[str]:
    return mpi(processes, "-m", "tests.runtime.mpi_job", what, output)


def assert_same(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal but for rounding, which shapes of compiled loops change: to 1e-10 of the spread."""
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * wanted.std())


@pytest.mark.parametrize(
    ("processes", "what"),
    [
        pytest.param(2, "each", marks=pytest.mark.slow),
        pytest.param(2, "all", marks=pytest.mark.slow),
        pytest.param(3, "others", marks=pytest.mark.slow),
        pytest.param(3, "field", marks=pytest.mark.slow),
        pytest.param(4, "some", marks=pytest.mark.slow),
        pytest.param(8, "one", marks=pytest.mark.slow),
    ],
)
def test_draws_do_not_depend_on_the_number_of_processes(tmp_path, processes, what):
    done = job(processes, what, tmp_path / "draws.npz")
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "draws.npz")
    for kind, sampler, graph in mpi_job.CASES[what]:
        network = mpi_job.GRAPHS[graph]()
        wanted = mpi_job.draws_of(mpi_job.problem_of(kind), network, sampler)
        assert_same(found[f"{kind} {sampler} {graph}"], wanted.posterior["beta"].values)
        sent = found[f"{kind} {sampler} {graph} sent"]
        np.testing.assert_array_equal(sent, mpi_job.traffic_of(wanted))


@pytest.mark.slow
def test_an_unknown_version_of_xla_has_the_same_draws_by_callbacks(tmp_path):
    done = job(2, "callback", tmp_path / "draws.npz")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("with which starlings was not tried") == 2  # once for every network
    found = np.load(tmp_path / "draws.npz")
    for kind, sampler, graph in mpi_job.CASES["callback"]:
        wanted = mpi_job.draws_of(mpi_job.problem_of(kind), mpi_job.GRAPHS[graph](), sampler)
        assert_same(found[f"{kind} {sampler} {graph}"], wanted.posterior["beta"].values)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_the_communicator_keeps_the_contract(tmp_path, processes):
    done = job(processes, "communicator", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A study without a sampler, run in one process by the command line."""
    target = tmp_path_factory.mktemp("tuned") / "alone.nc"
    study = ROOT / "examples" / "wards.toml"
    command = [sys.executable, "-m", "starlings", "sample", study, "--draws", "200"]
    subprocess.run([*command, "--output", target, "--quiet"], check=True, timeout=300)
    return study, st.load(target)


@pytest.mark.slow
def test_a_tuned_study_on_a_cluster_has_the_same_file(tmp_path, tuned):
    study, alone = tuned
    target = tmp_path / "cluster.nc"
    options = ("--draws", 200, "--output", target, "--runtime", "mpi")
    done = mpi(2, "-m", "starlings", "sample", study, *options)
    assert done.returncode == 0, done.stderr
    assert "2 processes with 2 to 3 agents each" in done.stderr
    assert done.stdout.count("Draws saved to") == 1
    together = st.load(target)
    assert together.posterior.sizes == alone.posterior.sizes
    assert set(together.sample_stats) == set(alone.sample_stats)
    assert_same(together.posterior["beta"].values, alone.posterior["beta"].values)
    for name in ("draw", "agent", "beta_dim_0"):
        np.testing.assert_array_equal(together.posterior[name], alone.posterior[name])
    assert not (tmp_path / "cluster.nc.run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("what", "again"), [("SIGKILL", 3), ("raised", 2), ("SIGINT", None)])
def test_a_lost_process_ends_the_job_which_others_resume(tmp_path, what, again):
    target = tmp_path / "draws.nc"
    began = time.monotonic()
    failed = job(2, what, target)
    assert time.monotonic() - began < 120  # and no hang
    assert failed.returncode != 0
    said = {"SIGKILL": "Killed", "raised": "Process 1 of 2. Error: no more room"}
    assert said.get(what, "Process 1 of 2. Unexpected KeyboardInterrupt") in failed.stderr
    assert (tmp_path / "draws.nc.run").is_dir()
    assert not target.exists()
    if again is None:
        return
    resumed = job(again, "resumed", target)
    assert resumed.returncode == 0, resumed.stderr
    found = st.load(target).posterior["beta"].values
    wanted = mpi_job.draws_of(unequal_linear_problem(), st.Network.ring(6), "paper")
    assert_same(found, wanted.posterior["beta"].values)
    if again == 2:  # as many as before: the same bits as of a run without a fault
        undisturbed = job(2, "resumed", tmp_path / "undisturbed.nc")
        assert undisturbed.returncode == 0, undisturbed.stderr
        exact = st.load(tmp_path / "undisturbed.nc").posterior["beta"].values
        np.testing.assert_array_equal(found, exact)


@pytest.mark.slow
def test_a_pilot_that_diverges_somewhere_does_so_everywhere(tmp_path):
    done = job(2, "diverged", tmp_path / "draws.nc")
    assert done.returncode == 0, done.stderr
    assert st.load(tmp_path / "draws.nc").attrs["sampler"] == "Metropolis"


@pytest.mark.slow
def test_bad_data_at_one_site_names_process_and_site(tmp_path):
    text = (ROOT / "examples" / "wards.csv").read_text("utf-8").splitlines()
    site = text[-1].split(",")
    (tmp_path / "wards.csv").write_text("\n".join([*text, ",".join([*site[:-1], "7"])]))
    shutil.copy(ROOT / "examples" / "wards.toml", tmp_path / "wards.toml")
    options = ("--runtime", "mpi", "--output", tmp_path / "draws.nc")
    done = mpi(2, "-m", "starlings", "sample", tmp_path / "wards.toml", *options)
    assert done.returncode != 0
    assert ", which holds " in done.stderr
    place = f"line {len(text) + 1} of {tmp_path / 'wards.csv'} (site 'Elder')"
    assert f"`y` must be 0 or 1, got 7 in {place}." in done.stderr


@pytest.mark.slow
def test_processes_agree_on_a_formula_by_masked_sums(tmp_path):
    text = (ROOT / "examples" / "wards.toml").read_text("utf-8")
    model = '[model]\nformula = "fell ~ scale(frailty) + C(sedated)"\nfamily = "logistic"\n'
    run = '[run]\ndraws = 2\nchains = 4\nmethod = "hmc"\n'
    middle = text[text.index("[data]") : text.index("[run]")]
    (tmp_path / "wards.toml").write_text(model + middle + run)
    shutil.copy(ROOT / "examples" / "wards.csv", tmp_path)
    found = []
    for processes in (1, 3):
        target = tmp_path / f"{processes}.nc"
        options = ("--privacy", "totals", "--output", target, "--runtime", "mpi", "--quiet")
        done = mpi(processes, "-m", "starlings", "sample", tmp_path / "wards.toml", *options)
        assert done.returncode == 0, done.stderr
        found.append(st.load(target))
    draws = [each.posterior["beta"].values for each in found]
    np.testing.assert_allclose(*draws, rtol=1e-6, atol=1e-6)  # leapfrogs make rounding larger
    labels = found[1].posterior["beta_dim_0"].values.tolist()
    assert labels == ["Intercept", "scale(frailty)", "C(sedated)[T.1]"]
    sums = [json.loads(each.attrs["model"])["regression"]["sums"] for each in found]
    assert sums[0] == sums[1]
