"""Where a run writes: what it refuses to replace, two runs at one place, how much is too much."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import starlings as st
from starlings.cli import app
from starlings.errors import InterruptedWarning
from starlings.results import outputs
from starlings.results.outputs import DrawBytes, RunFiles
from starlings.runtime import chunks, loop
from starlings.runtime.divergence import MOST_ROUNDS, NEVER, REASONS
from starlings.system.files import check_replaceable
from starlings.system.locks import locked
from tests.problems import unequal_linear_problem

NETWORK, SAMPLER = st.Network.ring(6), st.DADMMS(rho=2.0)
LENGTHS = {"draws": 40, "burn_in": 5, "chains": 2, "progress": False, "check": False}
STUDY = """
[model]
kind = "linear_regression"
outcome = "y"
covariates = ["x"]
noise_std = 1.0
[data]
DATA
[network]
graph = "path"
[sampler]
name = "dadmms"
rho = 5.0
[run]
draws = 40
chains = 2
burn_in = 3
"""


def sampled(**options) -> st.Result:
    return st.sample(unequal_linear_problem(), NETWORK, SAMPLER, **{**LENGTHS, **options})


def starlings(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def study(tmp_path, monkeypatch) -> Path:
    """A study whose rows are in one file, which is also three files in a folder."""
    monkeypatch.chdir(tmp_path)
    rows = {town: f"{town},{k},{2 * k + 1}\n" for k, town in enumerate("abc")}
    Path("rows.csv").write_text("town,x,y\n" + "".join(rows.values()))
    Path("towns").mkdir()
    for town, row in rows.items():
        (Path("towns") / f"{town}.csv").write_text("town,x,y\n" + row)
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("DATA", 'file = "rows.csv"\nsite = "town"'))
    return path


@pytest.fixture
def never(monkeypatch):
    """No round is made."""

    def advance(*_, **__):
        raise AssertionError("the run began")

    monkeypatch.setattr(loop, "advance", advance)


def interrupt_after(monkeypatch, most: int) -> None:
    """Ctrl-C after so many chunks of a few rounds."""
    advance, done = loop.advance, []

    def interrupted(*arguments, **options):
        done.append(1)
        if len(done) > most:
            raise KeyboardInterrupt
        return advance(*arguments, **options)

    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr(loop, "advance", interrupted)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.with_name("other.nc").write_text("kept")
    path.symlink_to("other.nc")


def listening(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the name of a socket has to be short
    with socket.socket(socket.AF_UNIX) as stream:
        stream.bind(path.name)
    os.chdir(here)


SPECIAL = {
    "folder": (Path.mkdir, "is a folder"),
    "pipe": (pipe, "is a pipe"),
    "socket": (listening, "is a socket"),
    "link": (link, "is a symbolic link"),
    "link to nothing": (lambda path: path.symlink_to("none.nc"), "is a symbolic link"),
}


@pytest.mark.parametrize(("make", "text"), SPECIAL.values(), ids=SPECIAL)
def test_what_is_no_plain_file_is_never_replaced(tmp_path, never, make, text):
    target = tmp_path / "draws.nc"
    make(target)
    kind = target.lstat().st_mode
    with pytest.raises(OSError, match=f"draws.nc {text}; name a file"):
        sampled(output=target, overwrite=True)
    with pytest.raises(OSError, match=text):
        st.Result(None).save(target, overwrite=True)
    assert target.lstat().st_mode == kind
    assert not list(tmp_path.glob("*.lock"))


def test_a_device_is_never_replaced(never):
    with pytest.raises(FileExistsError, match="/dev/null is a device"):
        sampled(output="/dev/null", overwrite=True)


@pytest.mark.slow
def test_a_file_is_replaced_only_with_overwrite(tmp_path):
    target = tmp_path / "draws.nc"
    first = sampled(output=target, seed=1).posterior["beta"].values
    for refused in (lambda: sampled(output=target), lambda: sampled().save(target)):
        with pytest.raises(FileExistsError, match=r"exists; add `--overwrite` \(in Python"):
            refused()
    np.testing.assert_array_equal(st.load(target).posterior["beta"], first)
    sampled(output=target, seed=2, overwrite=True)
    assert st.load(target).attrs["seed"] == 2
    sampled(seed=3).save(target, overwrite=True)
    assert st.load(target).attrs["seed"] == 3
    assert [file.name for file in tmp_path.iterdir()] == ["draws.nc"]


@pytest.mark.slow
def test_the_same_command_twice_says_what_to_add(study, tmp_path):
    assert starlings("sample", study, "--quiet").exit_code == 0
    again = starlings("sample", study, "--quiet")
    assert again.exit_code == 1
    assert "output path study.nc exists; add `--overwrite`" in again.stderr
    assert starlings("sample", study, "--quiet", "--resume").exit_code == 1
    assert starlings("sample", study, "--quiet", "--overwrite").exit_code == 0


OF_A_FILE, OF_A_FOLDER = 'file = "rows.csv"\nsite = "town"', 'folder = "towns"'


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (OF_A_FILE, "study.toml"),
        (OF_A_FILE, "rows.csv"),
        (OF_A_FILE, "hard.csv"),
        (OF_A_FOLDER, "study.toml"),
        (OF_A_FOLDER, "towns/b.csv"),
        (OF_A_FOLDER, "hard.csv"),
    ],
)
def test_no_input_of_a_study_is_replaced(study, never, data, name):
    study.write_text(STUDY.replace("DATA", data))
    os.link("rows.csv" if data == OF_A_FILE else "towns/b.csv", "hard.csv")
    before = Path(name).read_bytes()
    done = starlings("sample", study, "--overwrite", "--output", name)
    assert done.exit_code == 1
    assert "is an input of this run" in done.stderr
    assert Path(name).read_bytes() == before


def test_nothing_is_written_into_the_checkpoint(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(FileExistsError, match="is an input of this run"):
        sampled(output=tmp_path / "run" / "draws.nc", checkpoint=tmp_path / "run", overwrite=True)


def test_a_file_that_appears_during_the_run_is_not_replaced(tmp_path, monkeypatch):
    target, run = tmp_path / "draws.nc", loop.run

    def meanwhile(*arguments, **options):
        target.write_text("somebody else's")
        return run(*arguments, **options)

    monkeypatch.setattr(loop, "run", meanwhile)
    with pytest.raises(FileExistsError, match=r"exists.* All draws so far are saved in .*draws.nc"):
        sampled(output=target)
    assert target.read_text() == "somebody else's"
    monkeypatch.setattr(loop, "run", run)
    target.unlink()
    found = sampled(output=target, resume=True)
    np.testing.assert_array_equal(found.posterior["beta"], sampled().posterior["beta"])


@pytest.mark.slow
@pytest.mark.filterwarnings("default::UserWarning")
def test_an_interrupted_run_says_so_and_goes_on(study, tmp_path, monkeypatch):
    target, options = tmp_path / "draws.nc", ("--quiet", "--checkpoint-every", 4)
    with monkeypatch.context() as during:
        interrupt_after(during, 7)
        done = starlings("sample", study, "--output", target, *options)
    assert done.exit_code == 130
    assert "interrupted after" in done.stderr
    short = st.load(target)
    count = short.posterior.sizes["draw"]
    assert 0 < count < 40
    assert short.attrs["interrupted"] == short.interrupted == f"after {count} of 40 draws"
    assert f"interrupted after {count} of 40 draws" in repr(short)
    assert f"Incomplete: the run was interrupted after {count} of 40" in str(short.check())
    done = starlings("sample", study, "--output", target, *options)
    assert "add `--overwrite`" in done.stderr
    done = starlings("sample", study, "--output", target, *options, "--resume")
    assert done.exit_code == 0, done.output
    whole = starlings("sample", study, "--output", tmp_path / "whole.nc", *options)
    assert whole.exit_code == 0
    found, wanted = st.load(target), st.load(tmp_path / "whole.nc")
    for group in ("posterior", "sample_stats"):
        assert found.tree[group].to_dataset().identical(wanted.tree[group].to_dataset())


def test_only_the_short_file_of_this_very_run_is_replaced(tmp_path, monkeypatch):
    mine, others = tmp_path / "mine.nc", tmp_path / "others.nc"
    for target in (mine, others):
        with monkeypatch.context() as during:
            interrupt_after(during, 5)
            with pytest.warns(InterruptedWarning, match="`resume=True` continues it"):
                sampled(output=target, checkpoint_every=4)
    others.replace(mine)  # not written over in place: results may still be read from there
    with pytest.raises(FileExistsError, match="add `--overwrite`"):
        sampled(output=mine, checkpoint_every=4, resume=True)


def test_a_second_run_at_one_place_is_refused(tmp_path, never):
    for place in ("draws.nc", "draws.nc.run"):
        with locked(tmp_path / place), pytest.raises(BlockingIOError, match="another run is writ"):
            sampled(output=tmp_path / "draws.nc")
    with locked(tmp_path / "run"), pytest.raises(BlockingIOError, match=f"process {os.getpid()} "):
        sampled(checkpoint=tmp_path / "run")
    assert not list(tmp_path.glob("*.lock"))


def test_a_killed_run_locks_nobody_out(tmp_path):
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom starlings.system.locks import locked\n"
        "with locked(Path(sys.argv[1])):\n print('held', flush=True)\n time.sleep(60)\n"
    )
    target = tmp_path / "draws.nc"
    command = [sys.executable, "-c", program, str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BlockingIOError, match=f"process {holder.pid} on"), locked(target):
            pass
        holder.send_signal(signal.SIGKILL)
    assert (tmp_path / "draws.nc.lock").exists()
    with locked(target):
        pass
    assert not (tmp_path / "draws.nc.lock").exists()


def test_draws_that_cannot_fit_are_refused(tmp_path, never, monkeypatch):
    many = {**LENGTHS, "draws": 10**8, "thin": 1}
    with pytest.raises(ValueError, match=r"take \d.* of memory, and this machine has .*`output`"):
        sampled(**many)
    with pytest.raises(ValueError, match=r"a run can have 536,870,910 at most"):
        sampled(draws=10**12)
    free = shutil.disk_usage(tmp_path)._replace(free=10**6)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: free)
    with pytest.raises(ValueError, match=r"take 4\.88 MB of disk.* and 1 MB are free in"):
        sampled(draws=5000, output=tmp_path / "draws.nc")
    with pytest.raises(ValueError, match=r"take 1\.92 MB of disk"):
        sampled(draws=5000, checkpoint=tmp_path / "run")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", ["auto", "weights"])
def test_candidates_that_cannot_fit_are_refused(tmp_path, method, monkeypatch):
    """They are all in memory, also where draws go to a file: 7 numbers, twice for each draw."""
    monkeypatch.setattr(outputs, "_physical_memory", lambda: 10**6)
    how = {"method": method, "output": tmp_path / "draws.nc", "progress": False}
    words = r"with the candidates that they are taken from, take 1\.03 MB of memory"
    with pytest.raises(ValueError, match=words):
        st.sample(unequal_linear_problem(), NETWORK, draws=2300, **how)


def test_candidates_count_in_memory_and_in_the_checkpoint():
    problem = unequal_linear_problem()
    plain, weighed = (DrawBytes.estimate(problem, 40, 2, "float64", n) for n in (0, 1000))
    assert (plain.candidates, weighed.candidates) == (0, 1000 * (3 + 4) * 8)
    assert (plain.result, plain.recorded) == (weighed.result, weighed.recorded)


def test_the_size_of_draws_is_that_of_the_result(tmp_path):
    result = sampled()
    size = DrawBytes.estimate(unequal_linear_problem(), 40, 2, "float64")
    groups = [result.tree[name].to_dataset() for name in ("posterior", "sample_stats")]
    assert size.result == sum(v.nbytes for g in groups for v in g.data_vars.values())
    RunFiles(tmp_path / "draws.nc", checkpoint=tmp_path / "run").check_space(size)


def test_the_last_round_that_can_be_counted():
    """A reason at it is still below `NEVER`, and none above it is."""
    assert REASONS * MOST_ROUNDS + REASONS - 1 < NEVER <= REASONS * (MOST_ROUNDS + 1) + REASONS - 1


def test_resume_needs_something_to_resume(never):
    with pytest.raises(ValueError, match="`resume=True` needs `output` or `checkpoint`"):
        sampled(resume=True)


def test_resuming_without_a_checkpoint_is_reported(tmp_path, capsys):
    sampled(output=tmp_path / "draws.nc", resume=True, progress=True)
    folder = tmp_path / "draws.nc.run"
    assert f"no checkpoint in {folder}: a new run begins" in capsys.readouterr().err


def test_a_name_in_another_folder_is_not_an_input(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("")
    inputs = [tmp_path / "data" / "a.csv"]
    assert check_replaceable(tmp_path / "data" / "b.csv", False, inputs)


def test_a_table_is_no_name_for_a_result(study):
    done = starlings("sample", study, "--output", "towns/new.csv")
    assert done.exit_code == 1
    assert "`output` is a netCDF file, whose name must end in .nc, got " in done.stderr


HEARS_SIGNALS = """
import signal
from starlings.cli import run
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a parent may have ignored
run()
"""


def interrupted_process(study, moment: str, pause: float, *more: str):
    """The command as a process that gets a real SIGINT when its log says where it is."""
    options = ["sample", str(study), "--output", "cut.nc", *more]
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(
        [sys.executable, "-c", HEARS_SIGNALS, *options], text=True, **pipes
    ) as run:
        assert run.stderr is not None
        lines = []
        watchdog = threading.Timer(100, run.kill)
        watchdog.start()
        for line in run.stderr:
            lines.append(line)
            if line.startswith(moment):
                time.sleep(pause)
                run.send_signal(signal.SIGINT)
                break
        _, rest = run.communicate()
        watchdog.cancel()
    return run.returncode, "".join(lines) + rest


@pytest.mark.slow
def test_a_real_interrupt_ends_with_its_exit_status_and_the_draws_so_far(study):
    code, said = interrupted_process(study, "sampling:", 3.0, "--draws", "100000", "--thin", "2000")
    assert code == 130, said
    assert "interrupted after" in said
    assert st.load("cut.nc").interrupted is not None
    again = starlings("sample", study, "--output", "cut.nc")
    assert "was interrupted; add `--resume`" in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["tuning: mode", "tuning, pilot"])
def test_a_real_interrupt_while_tuning_leaves_no_file(study, moment):
    """Counts, not a linear regression, whose exact law makes pilot runs unnecessary."""
    before, _, rest = study.read_text().partition("[sampler]")
    counts = before.replace("linear_regression", "poisson_regression").replace(
        "noise_std = 1.0", ""
    )
    study.write_text(counts + rest[rest.index("[run]") :])
    code, said = interrupted_process(study, moment, 0.0)
    assert code == 130, said
    assert "Interrupted before the first draw" in said
    assert not Path("cut.nc").exists()
