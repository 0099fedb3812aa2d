"""The pages for those who extend the library: their files and commands run as printed, outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import starlings as st

DOCS = Path(__file__).parents[2] / "docs"
FILES = re.compile(
    r"^```\{code-block\} \w+\n:caption: (\S+)(?: \(continued\))?\n\n(.*?)^```", re.S | re.M
)
COMMANDS = re.compile(r"^```sh\n(.*?)^```", re.S | re.M)


def unpacked(page: str, folder: Path) -> list[str]:
    """Write the files of a page into a folder; the commands of the page, in their order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, content in FILES.findall(text):
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(content)
    return [line for block in COMMANDS.findall(text) for line in block.splitlines()]


def run(command: str, folder: Path) -> str:
    """What a command prints in a process of its own, with warnings of ours as errors."""
    tools = Path(sys.executable).parent
    path = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"}
    env = {**os.environ, **path, "PYTHONWARNINGS": "error::UserWarning"}
    done = subprocess.run(
        command.split(), cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def sampler_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sampler")
    return folder, unpacked("adding-a-sampler.md", folder)


@pytest.mark.slow
def test_the_sampler_of_the_page_runs(sampler_page):
    folder, _ = sampler_page
    numbers = [float(n) for n in re.findall(r"-?\d+\.\d+", run("python try_it.py", folder))]
    assert len(numbers) == 6  # three agents with two coefficients
    assert numbers[::2] == pytest.approx([1.0] * 3, abs=0.5)  # 4 posterior sd
    assert numbers[1::2] == pytest.approx([-0.5] * 3, abs=0.5)


@pytest.mark.slow
def test_the_commands_of_the_page_run(sampler_page):
    folder, commands = sampler_page
    assert [command.split()[0] for command in commands] == ["pytest", "pytest", *["starlings"] * 2]
    printed = {command: run(command, folder) for command in commands}
    rules = len(st.testing.RULES)
    assert f"{2 * rules} passed" in printed["pytest test_gossip_langevin.py"]
    assert f"{rules + 1} passed" in printed["pytest test_gossip_momentum.py"]
    assert st.load(folder / "draws.nc").attrs["sampler"] == "GossipLangevin"
    card = printed["starlings samplers gossip_langevin:GossipLangevin"]
    assert "Gossip Langevin" in card


@pytest.mark.slow
def test_the_page_tunes_its_sampler(sampler_page):
    folder, _ = sampler_page
    given = (folder / "study.toml").read_text(encoding="utf-8")
    tuned = re.sub(
        r"name = .*?\n\n",
        'name = "tuned_gossip_langevin:TunedGossipLangevin"\n\n',
        given,
        flags=re.S,
    )
    (folder / "tuned.toml").write_text(tuned, encoding="utf-8")
    run("starlings sample tuned.toml --output tuned.nc", folder)
    assert st.load(folder / "tuned.nc").attrs["sampler"] == "TunedGossipLangevin"


@pytest.mark.slow
def test_the_runtime_of_the_page_has_the_draws_of_one_process(tmp_path):
    commands = unpacked("adding-a-runtime.md", tmp_path)
    assert commands == ["python four_sites.py", "python check_pipes.py"]
    run(commands[0], tmp_path)
    (tmp_path / "one_process.py").write_text(
        "import starlings, four_sites\n"
        "network = starlings.Network.ring(4).matched_to(four_sites.SITES)\n"
        "problem = four_sites.problem_of(four_sites.SITES)\n"
        "sampler = starlings.DADMMS(rho=20.0)\n"
        "starlings.sample(problem, network, sampler, draws=500, output='one.nc')\n"
    )
    run("python one_process.py", tmp_path)
    found, wanted = (st.load(tmp_path / name).posterior["beta"] for name in ("draws.nc", "one.nc"))
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * float(wanted.std()))


@pytest.mark.slow
def test_the_runtime_of_the_page_keeps_the_contract(tmp_path):
    run(unpacked("adding-a-runtime.md", tmp_path)[1], tmp_path)
