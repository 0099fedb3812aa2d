"""Sites as processes with real links: the draws of one process, whatever is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import starlings as st
from starlings.errors import PrivacyError, SiteError
from starlings.runtime.peers.journal import Journal, Kind
from starlings.sites.joining import join
from starlings.sites.site import Site
from starlings.sites.status_reader import read_status
from starlings.sites.transcript import SENT, Lines
from tests.sites.rehearsals import SITES, in_one_process, provisioned

RUNS = {
    "weights": ('draws = 100\nmethod = "weights"', {"draws": 100, "method": "weights"}),
    "hmc": (
        'draws = 5\nchains = 16\nmethod = "hmc"',
        {"draws": 5, "chains": 16, "method": "hmc"},
    ),
    "D-ADMMS": (
        'draws = 10\nchains = 4\nmethod = "coherent"\nburn_in = 10\nthin = 1',
        {"draws": 10, "chains": 4, "method": "coherent", "burn_in": 10, "thin": 1},
    ),
    "D-SGLD": (
        'draws = 10\nchains = 4\nburn_in = 10\n[sampler]\nname = "dsgld"\nstep_size = 0.001',
        {"draws": 10, "chains": 4, "burn_in": 10, "sampler": st.DSGLD(step_size=0.001)},
    ),
    "unmasked": (
        'draws = 10\nchains = 4\nmethod = "coherent"\nburn_in = 10\nthin = 1\nprivacy = "none"',
        {"draws": 10, "chains": 4, "method": "coherent", "burn_in": 10, "thin": 1},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_draws_are_those_of_one_process_though_processes_are_killed(name, tmp_path):
    run, how = RUNS[name]
    rehearsal = provisioned(tmp_path, run)
    results = rehearsal.run(kills=2)
    seed = int(results["Ashby"].attrs["seed"])
    privacy = "none" if "none" in run else "totals"
    alone = in_one_process(seed=seed, privacy=privacy, **how)
    for number, site in enumerate(SITES):
        assert results[site].posterior.agent.values.tolist() == [site]
        found = results[site].posterior.beta.values[:, :, 0]
        wanted = alone.posterior.beta.values[:, :, number]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)
        assert results[site].attrs["site"] == site
        rounds = results[site].attrs["network_rounds"] - alone.attrs["network_rounds"]
        assert rounds == 2 * 2 - (3 if privacy == "totals" else 0)  # statements; keys and limits
        check_status(read_status(tmp_path / f"{site}-site"), results[site], privacy)
    assert len(rehearsal.kills) == 2
    assert rehearsal.faults(kills=2) == []
    assert rehearsal.faults(kills=3) == ["2 of 3 processes were killed before the run was over."]
    assert rehearsal.bytes_sent() >= 8 * results["Ashby"].attrs["network_rounds"]


def check_status(status, result, privacy):
    """What a site shows of itself is what it has done: the last draws are those of its result."""
    draws = result.posterior.beta.values[0]
    traces = np.array(status["traces"])
    assert status["traced"] == ["beta[intercept]", "beta[age]", "beta[dose]"]
    np.testing.assert_allclose(traces[-1], draws[-1, 0], rtol=1e-12)
    assert status["task"]["name"] == "done"
    assert status["rounds"] >= result.attrs["network_rounds"]
    is_known = result.attrs["method"] in ("weights", "hmc") or privacy == "none"
    assert (status["disagreement"] is not None) == is_known


def with_the_same_chance(rehearsal, site):
    """Begin a run anew that finds by chance what the last one found: secrets for seed and masks."""
    prepared_site = prepared(rehearsal, site)
    path = prepared_site.folder / "journal"
    with contextlib.closing(Journal(path, prepared_site.run)) as journal:
        found = [journal.body(place) for place in journal.past.found]
    shutil.rmtree(prepared_site.folder)
    with contextlib.closing(Journal(path, prepared_site.run)) as journal:
        for value in found:
            journal.append(Kind.FOUND, value)


def draws_and_messages(rehearsal, results):
    """The draws of every site, and the digests of all messages that it has sent, in every bit."""
    draws = {site: results[site].posterior.beta.values.tobytes() for site in SITES}
    logs = {site: list(Lines(rehearsal._run_folder(site) / "transcript.log")) for site in SITES}
    sent = {
        site: sorted((e["other"], e["number"], e["digest"]) for e in map(entry_of, log) if e)
        for site, log in logs.items()
    }
    return draws, sent


def entry_of(line):
    return line.entry if line.what == SENT else None


@pytest.mark.slow
def test_a_run_with_kills_and_a_calm_one_have_the_same_bits(tmp_path):
    """Draws, and every message with its masks, of whole processes of `starlings join`."""
    rehearsal = provisioned(tmp_path, 'draws = 100\nmethod = "weights"')
    with_kills = draws_and_messages(rehearsal, rehearsal.run(kills=3, seed=1))
    assert len(rehearsal.kills) == 3
    for site in SITES:
        with_the_same_chance(rehearsal, site)
    assert draws_and_messages(rehearsal, rehearsal.run()) == with_kills


@pytest.mark.slow
def test_a_site_that_is_stopped_and_started_goes_on_and_a_finished_one_is_repeated(tmp_path):
    rehearsal = provisioned(tmp_path, 'draws = 200\nchains = 8\nmethod = "hmc"')
    results = rehearsal.run()
    before = results["Ashby"].posterior.beta.values.copy()
    join = [sys.executable, "-m", "starlings", "join", rehearsal.kits["Ashby"], "--data"]
    join += [rehearsal.data["Ashby"], "--output", tmp_path / "Ashby.nc"]
    join += ["--folder", tmp_path / "Ashby-site", "--relay", "ws://127.0.0.1:9"]
    done = subprocess.run(list(map(str, join)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    again = st.load(tmp_path / "Ashby.nc").posterior.beta.values
    np.testing.assert_array_equal(again, before)


@pytest.mark.slow
def test_sigterm_ends_a_site_that_waits(tmp_path):
    rehearsal = provisioned(tmp_path)
    join = [sys.executable, "-m", "starlings", "join", rehearsal.kits["Ashby"], "--data"]
    join += [rehearsal.data["Ashby"], "--output", tmp_path / "a.nc"]
    join += ["--folder", tmp_path / "Ashby-site", "--relay", "ws://127.0.0.1:9"]
    with subprocess.Popen(
        list(map(str, join)), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "waiting for Brook, Cliff" in line:
                os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 130


def test_a_second_process_of_a_site_is_refused_while_the_first_one_runs(tmp_path):
    rehearsal = provisioned(tmp_path)
    site = prepared(rehearsal)
    files = (rehearsal.kits["Ashby"], rehearsal.data["Ashby"], tmp_path / "a.nc")
    first = Journal(site.folder / "journal", site.run)
    with pytest.raises(BlockingIOError, match=r"another run is writing .*journal \(process"):
        join(*files, folder=tmp_path / "Ashby-site", progress=False)
    first.close()
    assert not (tmp_path / "a.nc").exists()
    assert not (site.folder / "transcript.log").exists()


def prepared(rehearsal, site="Ashby"):
    return Site.prepare(
        rehearsal.kits[site], rehearsal.data[site], rehearsal.folder / f"{site}-site"
    )


def test_a_site_is_checked_before_anything_is_sent(tmp_path):
    rehearsal = provisioned(tmp_path)
    site = prepared(rehearsal)
    assert (site.number, site.network.names, list(site.problem.shards)) == (0, SITES, ["Ashby"])
    assert (site.folder.stat().st_mode & 0o777) == 0o700
    rehearsal.data["Ashby"].write_text("age,dose,ill\n1,2,1\n3,4,0\n")
    with pytest.raises(PrivacyError, match="guard rail fewest_rows: site 'Ashby' has 2 rows"):
        prepared(rehearsal)
    (tmp_path / "Ashby-site" / "Ashby.approval").unlink()
    with pytest.raises(SiteError, match="has not approved manifest 1: run `starlings approve"):
        prepared(rehearsal)
