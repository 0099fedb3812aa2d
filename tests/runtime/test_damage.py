"""Files that are damaged, cut short, strange, or for which there is no room; and memory."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import starlings as st
from starlings.errors import CheckpointError, CheckpointWarning, NoRoomError, UnreadableFileError
from starlings.system.files import has_checksum
from tests.problems import unequal_linear_problem

NETWORK, SAMPLER = st.Network.ring(6), st.DADMMS(rho=2.0)
LENGTHS = {"draws": 30, "burn_in": 10, "chains": 2, "progress": False, "check": False}


def sampled(**options) -> st.Result:
    return st.sample(unequal_linear_problem(), NETWORK, SAMPLER, **{**LENGTHS, **options})


def assert_identical(found: st.Result, wanted: st.Result) -> None:
    for group in ("posterior", "sample_stats"):
        assert found.tree[group].to_dataset().identical(wanted.tree[group].to_dataset())


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["saved", "slab by slab"])
def test_a_flipped_byte_of_a_result_is_noticed_or_harmless(tmp_path, how):
    path = tmp_path / "draws.nc"
    whole = sampled() if how == "saved" else sampled(output=path)
    if how == "saved":
        whole.save(path)
    wanted, content = st.load(path), path.read_bytes()
    assert has_checksum(path)
    noticed, places = 0, np.unique(np.linspace(0, len(content) - 1, 200).astype(int))
    for place in [*places, *range(len(content) - 26, len(content))]:
        path.write_bytes(flipped(content, place))
        try:
            assert_identical(st.load(path), wanted)
        except UnreadableFileError as error:
            noticed += 1
            assert str(path) in str(error)  # noqa: PT017
            assert "run again" in str(error)  # noqa: PT017
    assert noticed >= len(places) - 1  # all but those of the seal's own words


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_result_that_is_cut_short_is_refused(tmp_path, share):
    path = sampled().save(tmp_path / "draws.nc")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(
        UnreadableFileError, match=r"draws\.nc is not a netCDF file that can be read"
    ):
        st.load(path)


def test_a_result_without_a_checksum_is_read(tmp_path):
    """As older versions wrote it."""
    result = sampled()
    result.tree.to_netcdf(tmp_path / "old.nc", engine="h5netcdf")
    assert_identical(st.load(tmp_path / "old.nc"), result)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> tuple[Path, st.Result]:
    """A folder with a run that could go on, and the draws of that run."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    sampled(draws=20, checkpoint=folder, checkpoint_every=5)
    return folder, sampled()


FILES = ["run.json", "draws-000000000005-", "state-", "every"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::starlings.errors.CheckpointWarning")
@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_of_a_checkpoint_is_noticed_or_harmless(tmp_path, kept, name):
    folder = tmp_path / "run"
    count = len(list(kept[0].iterdir())) if name == "every" else 12
    for k in range(count):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(kept[0], folder)
        files = sorted(f for f in folder.iterdir() if f.name.startswith(name) or name == "every")
        file = files[k] if name == "every" else files[-1]
        content = file.read_bytes()
        file.write_bytes(flipped(content, int((k + 0.5) * len(content) / count)))
        try:
            resumed = sampled(checkpoint=folder, checkpoint_every=5, resume=True)
        except CheckpointError as error:
            assert str(file) in str(error) or str(folder) in str(error)  # noqa: PT017
            assert "start anew" in str(error)  # noqa: PT017
        else:
            assert_identical(resumed, kept[1])


def test_a_damaged_state_gives_way_to_the_one_before(tmp_path, kept):
    shutil.copytree(kept[0], tmp_path / "run")
    older, newest = sorted((tmp_path / "run").glob("state-*.npz"))
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.warns(CheckpointWarning, match=f"{newest.name} is damaged.*goes on from round 25"):
        found = sampled(checkpoint=tmp_path / "run", checkpoint_every=5, resume=True)
    assert_identical(found, kept[1])
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(kept[0], tmp_path / "run")
    for file in (older, newest):
        file.write_bytes(b"")
    with pytest.raises(CheckpointError, match="No older state can be taken instead: put that file"):
        sampled(checkpoint=tmp_path / "run", checkpoint_every=5, resume=True)


def test_damaged_draws_are_made_again_where_a_state_before_them_is_left(tmp_path, kept):
    shutil.copytree(kept[0], tmp_path / "run")
    last = max((tmp_path / "run").glob("draws-*.npz"))
    last.write_bytes(flipped(last.read_bytes(), 300))
    with pytest.warns(CheckpointWarning, match=f"{last.name} is damaged"):
        found = sampled(checkpoint=tmp_path / "run", checkpoint_every=5, resume=True)
    assert_identical(found, kept[1])


def test_states_without_the_word_of_which_run_are_not_thrown_away(tmp_path, kept):
    shutil.copytree(kept[0], tmp_path / "run")
    (tmp_path / "run" / "run.json").unlink()
    for resume in (False, True):
        with pytest.raises(CheckpointError, match=r"has states but no run\.json"):
            sampled(checkpoint=tmp_path / "run", resume=resume)
    assert len(list((tmp_path / "run").iterdir())) == len(list(kept[0].iterdir())) - 1


@pytest.fixture
def most_bytes():
    """A function that makes every file of more than so many bytes fail, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_loses_no_draws(tmp_path, most_bytes):
    """The files of the checkpoint are small enough, the output is not."""
    target, long = tmp_path / "draws.nc", {"draws": 400, "checkpoint_every": 20}
    most_bytes(150_000)
    with pytest.raises(NoRoomError, match=r"draws\.nc could not be.*needs about \d+ kB, and"):
        sampled(output=target, **long)
    assert [file.name for file in tmp_path.iterdir()] == ["draws.nc.run"]
    assert not list(tmp_path.rglob("*.partial"))
    most_bytes(resource.RLIM_INFINITY)
    resumed = sampled(output=target, **long, resume=True)
    assert_identical(st.load(target), sampled(**long))
    assert resumed.posterior.sizes["draw"] == 400


def test_a_full_disk_in_the_midst_of_a_run_keeps_what_was_there(tmp_path, most_bytes):
    folder = tmp_path / "run"
    sampled(checkpoint=folder, checkpoint_every=10)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    most_bytes(20_000)
    more = {"checkpoint": folder, "checkpoint_every": 500, "draws": 300, "resume": True}
    with pytest.raises(NoRoomError, match=r"is kept in .*run up to round 40: make room, and go on"):
        sampled(**more)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    most_bytes(resource.RLIM_INFINITY)
    assert_identical(sampled(**more), sampled(draws=300))


def test_a_result_that_cannot_be_saved_leaves_nothing(tmp_path, most_bytes):
    result = sampled()
    most_bytes(5_000)
    with pytest.raises(NoRoomError, match=r"draws\.nc could not be written.* still in memory"):
        result.save(tmp_path / "draws.nc")
    assert not list(tmp_path.iterdir())


PROGRAM = """
import resource, sys
import numpy as np, starlings as st
random = np.random.default_rng(0)
X = random.normal(size=(90, 8))
y = X.sum(axis=1) + random.normal(size=90)
problem = st.models.linear_regression(X, y, np.arange(90) % 3, noise_std=1.0)
network, sampler = st.Network.ring(3), st.DADMMS(5.0)
for name, draws in (("warm.nc", 20_000), ("long.nc", int(sys.argv[1]))):
    st.sample(problem, network, sampler, draws=draws, output=name, progress=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_draws(tmp_path):
    """What 130,000 draws more of 4 chains, 3 agents and 8 entries take is 100 MB."""
    command = [sys.executable, "-c", PROGRAM, "150000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    before, after = (1024 * int(line) for line in done.stdout.split())
    extra = 130_000 * 4 * 3 * 8 * 8
    assert after - before < extra / 2
