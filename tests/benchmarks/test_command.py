"""The command line of the benchmarks: every wrong option ends in one line that says what to do."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app

BENCHMARKS = [
    "speed",
    "rows",
    "masks",
    "sites",
    "lossy",
    "cluster",
    "posteriors",
    "ladder",
    "versions",
    "flare",
    "field",
]


@pytest.fixture
def fails(tmp_path, monkeypatch):
    """A function that runs a command which has to end in one line that matches a pattern."""
    monkeypatch.chdir(tmp_path)
    for name in ("NPROC", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")

    def run(arguments, message):
        outcome = CliRunner().invoke(app, list(arguments))
        assert outcome.exit_code == 1
        assert len(outcome.stderr.splitlines()) == 1
        assert re.search(message, outcome.stderr)

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("speed", "--parts", "nonsense"), "`parts` must be one of .* got 'nonsense'"),
        (("speed", "--parts", "device"), "`parts` must be one of .* got 'device'"),
        (("speed", "--device", "tpu"), "`device` must be one of .* got 'tpu'"),
        (("rows", "--parts", "nonsense"), "`parts` must be one of .* got 'nonsense'"),
        (("sites", "--parts", "nonsense"), "`parts` must be one of .* got 'nonsense'"),
        (("posteriors", "no-such-folder"), "no folder of posteriors at no-such-folder"),
        (("posteriors", ".", "--cases", "sblri,nobody"), "`cases` must be one of .* got 'nobody'"),
        (("posteriors", ".", "--methods", "magic"), "`methods` must be one of .* got 'magic'"),
        (("posteriors", ".", "--cases", "sblri"), "no file sblri.json in the folder"),
        (("ladder", "--cases", "skew"), "`cases` must be one of .* Did you mean 'skewed'"),
    ],
)
def test_a_wrong_option_ends_in_one_line(fails, arguments, message):
    fails(arguments, message)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("speed",), "bench"),
        (("posteriors", "."), "bench"),
        (("cluster",), "mpi"),
        (("sites",), "peers"),
        (("ladder",), "arviz"),
        (("flare",), "flare"),
    ],
)
def test_a_missing_extra_is_named(fails, monkeypatch, arguments, extra):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    fails(arguments, rf"install .*\[{extra}\]")


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_short_help_that_fits(name):
    """Every benchmark that prints progress has an option against it; some of them print none."""
    long, short = (
        CliRunner(env={"COLUMNS": "80"}).invoke(app, [name, option]) for option in ("--help", "-h")
    )
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert max(map(len, short.stdout.splitlines())) <= 80
    assert "…" not in short.stdout
    without = ("ladder", "masks", "sites", "lossy", "field")
    assert ("--quiet" in short.stdout) == (name not in without)
    assert f"Example: python -m benchmarks {name}" in short.stdout


def test_the_benchmarks_are_those_tried_here():
    assert [each.callback.__name__ for each in app.registered_commands] == BENCHMARKS


def test_it_runs_in_a_clone():
    help_ = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert all(name in help_ for name in BENCHMARKS)
