"""`starlings compare`: samplers on the problem and the network of a study."""

from __future__ import annotations

import json

import pandas as pd
import pytest

import starlings as st
from tests.cli.test_methods import rows, starlings, study  # noqa: F401

QUICK = ("--rounds", "200", "--chains", "0", "--quiet")


@pytest.fixture
def file(tmp_path, rows):  # noqa: F811
    return study(tmp_path, "line", '"a", "b"')


def test_samplers_by_name_are_compared(file, tmp_path):
    output = tmp_path / "found.csv"
    named = ("compare", file, "--samplers", "dsgld, gextra", "--output", output, *QUICK)
    outcome = starlings(*named)
    assert outcome.exit_code == 0, outcome.stderr
    assert "dsgld, best" in outcome.stdout
    assert list(pd.read_csv(output)["sampler"]) == ["dsgld", "dsgld", "gextra"]
    assert "exists; add `--overwrite`" in starlings(*named).stderr
    assert starlings(*named, "--overwrite").exit_code == 0


def test_json_is_what_can_be_loaded(file, tmp_path):
    outcome = starlings("compare", file, "--samplers", "dsgld", "--json", *QUICK)
    path = tmp_path / "found.json"
    path.write_text(outcome.stdout)
    assert list(st.load_comparison(path).table["setting"]) == ["published", "best"]
    assert json.loads(outcome.stdout)["about"]["agents"] == 4


def test_a_figure_is_drawn(file, tmp_path):
    pytest.importorskip("matplotlib")
    output = tmp_path / "found.png"
    starlings("compare", file, "--samplers", "dsgld", "--output", output, *QUICK)
    assert output.stat().st_size > 1000


def test_a_sampler_beside_the_study_can_be_named(file, tmp_path):
    (tmp_path / "mine_to_compare.py").write_text(
        "import starlings as st\nclass Mine(st.DSGLD):\n    pass\n"
    )
    outcome = starlings("compare", file, "--samplers", "mine_to_compare:Mine", *QUICK)
    assert outcome.exit_code == 0, outcome.stderr
    assert "no exact law is known" in outcome.stdout


@pytest.mark.slow
def test_all_samplers_and_that_of_the_study(file, tmp_path):
    file.write_text(file.read_text() + '[sampler]\nname = "dsgld"\nstep_size = 0.01\n')
    outcome = starlings("compare", file, *QUICK)
    assert outcome.exit_code == 0, outcome.stderr
    assert "dsgld of the study, given" in outcome.stdout
    assert "dadmms, tuned" in outcome.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--samplers", "dsdld"), "no sampler is called 'dsdld'"),
        (("--output", "found.txt"), "--output must end in one of"),
        (("--target", "-1"), "`target` must be positive"),
    ],
)
def test_bad_options_are_one_line(file, options, message):
    outcome = starlings("compare", file, *QUICK, *options)
    assert outcome.exit_code == 1
    assert message in outcome.stderr
    assert len(outcome.stderr.strip().splitlines()) == 1
