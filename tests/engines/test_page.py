"""The page for users of FLARE: its commands run as printed, up to the start of processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from starlings.engines.flare.export import read_job
from starlings.engines.settings import FILE, SiteSettings
from tests.cli.test_extending_pages import unpacked

pytest.importorskip("nvflare", reason="FLARE is not installed: the extra `flare` has it")


@pytest.mark.slow
def test_the_commands_run_up_to_the_start_of_flare(tmp_path):
    commands = unpacked("flare.md", tmp_path)
    assert len(commands) == 10
    tools = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    for command in commands[:5]:
        subprocess.run(["bash", "-ec", command], cwd=tmp_path, env=env, check=True)
    job = read_job(tmp_path / "job")
    for site in job.sites:
        local = tmp_path / "kits" / "heart" / "prod_00" / site / "local"
        found = SiteSettings.read(local / FILE, job)
        assert (found.data, found.results) == (
            tmp_path / f"{site}.csv",
            tmp_path / "results" / site,
        )
        assert "SiteExecutor" in (local / "resources.json").read_text()
