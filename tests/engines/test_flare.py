"""NVIDIA FLARE: a deployment on this machine, with mutual TLS, and processes that are killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from starlings.cli import app
from starlings.engines.flare.deployment import FINISHED, SERVER, Deployment
from starlings.engines.flare.export import export
from starlings.engines.flare.simulation import rows_of, take_part
from starlings.engines.job import Job
from starlings.errors import SiteError
from starlings.results.result import open_result
from tests.engines.studies import SITES, STUDY, check_draws, study

pytestmark = pytest.mark.slow
psutil = pytest.importorskip("psutil", reason="FLARE is not installed")
pytest.importorskip("nvflare", reason="FLARE is not installed: the extra `flare` has it")

BY_ROUNDS = STUDY.replace("[run]", '[sampler]\nname = "dadmms"\nrho = 20.0\n[run]\nburn_in = 160')
"""A study whose sites exchange messages with their neighbours in every round."""
PATIENCE = 2.0
"""Seconds for which the hub of the tests waits for a lost site."""
SOME_CALLS = 4000
"""Bytes that the journal of a site has grown by when something is killed: some twenty calls."""


def test_simulate_has_the_draws_of_one_process(tmp_path):
    path = study(tmp_path)
    result = CliRunner().invoke(
        app, ["flare", "simulate", str(path), "-q", "--output", str(tmp_path / "s")]
    )
    assert result.exit_code == 0, result.output
    files = [Path(line.split()[1]) for line in result.stdout.splitlines()[:3]]
    results = {site: open_result(file) for site, file in zip(SITES, files, strict=True)}
    check_draws(path, results, privacy="totals")
    assert len({found.posterior["beta"].values.tobytes() for found in results.values()}) == 1
    for site, file in zip(SITES, files, strict=True):  # each site has its own result, and no other
        assert [each.name for each in file.parent.parent.parent.glob(f"{site}/*/*.nc")] == [
            file.name
        ]
    log = (tmp_path / "s" / "flare" / f"{SERVER}.log").read_text()
    assert "SSL Ashby" in log  # a site showed its certificate


def test_killed_processes_end_the_job_for_all_and_change_no_draw(tmp_path):
    """A worker of a site, a site and the server: each job goes on where the one before ended."""
    path = study(tmp_path, text=BY_ROUNDS)
    job = Job.of_study(path)
    export(job, tmp_path / "job", PATIENCE)
    deployment = Deployment(tmp_path / "flare", job.sites)
    deployment.provision()
    files = take_part(deployment, job, rows_of(path, job, tmp_path))
    journal = files["Brook"].parent / "journal"

    def kill_worker() -> None:
        for worker in deployment.workers("Ashby"):
            worker.kill()

    with deployment:
        statuses = []
        for kill in (kill_worker, lambda: deployment.kill("Cliff")):
            before = size(journal)
            statuses.append(deployment.run(tmp_path / "job", after(journal, kill)).status)
            assert size(journal) > before  # it went on, and did not begin anew
        check_loopback(deployment)
        deployment.start("Cliff")
        with pytest.raises(SiteError, match="server"):
            deployment.run(tmp_path / "job", after(journal, lambda: deployment.kill(SERVER)))
        assert not any(file.exists() for file in files.values())
        deployment.start(SERVER)
        assert deployment.run(tmp_path / "job").status == FINISHED
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(p.info)]
    assert all(status.startswith("FINISHED") and status != FINISHED for status in statuses)
    check_draws(path, {site: open_result(file) for site, file in files.items()}, privacy="totals")


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def after(journal: Path, kill: Callable[[], None]) -> Callable[[str], None]:
    """Kill something, once, when a site has made some calls more."""
    wanted = size(journal) + SOME_CALLS
    done = []

    def watch(job_id: str) -> None:
        if not done and size(journal) > wanted:
            done.append(job_id)
            kill()

    return watch


def check_loopback(deployment: Deployment) -> None:
    """No process of the deployment listens anywhere but on the loopback."""
    found = set()
    for name, process in deployment.processes.items():
        if process.poll() is None:
            for each in (psutil.Process(process.pid), *deployment.workers(name)):
                connections = each.net_connections()
                found |= {
                    each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN
                }
    assert found
    assert found <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
