"""The README's examples run as pasted and say what the text says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.S)


def test_the_short_example_is_short():
    lines = [line for line in BLOCKS[0].splitlines() if line.strip()]
    assert len(lines) <= 12


def test_the_short_example_matches_the_pooled_posterior(capsys):
    """Means are within five Monte Carlo errors of as many independent draws as it asks for."""
    space: dict = {}
    exec(BLOCKS[0], space)
    mean, covariance = space["problem"].exact_posterior()
    sd = np.sqrt(np.diag(covariance))
    found = space["result"].posterior["beta"].mean(("chain", "draw")).values
    assert found.shape == (4, 3)  # an intercept and two slopes
    assert (np.abs(found - mean) < 5 * sd / np.sqrt(4000)).all()
    printed = capsys.readouterr().out
    assert "[" in printed
    rounds = printed.splitlines()[-1]
    assert rounds.endswith(" network rounds")
    assert f"It took {rounds}." in README.read_text()


@pytest.mark.slow
def test_the_example_of_a_table_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").symlink_to(README.parent / "examples")
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[1], {})
    assert "odds ratio" in capsys.readouterr().out
    assert "readmitted" in Path("readmitted.html").read_text("utf-8")


@pytest.mark.slow
def test_the_example_of_a_model_runs(capsys):
    space: dict = {}
    exec(BLOCKS[2], space)
    assert "sigma" in capsys.readouterr().out
    assert dict(space["result"].posterior.sizes)["agent"] == 3
    assert (space["result"].posterior["sigma"] > 0).all()


@pytest.mark.parametrize("path", re.findall(r"\]\((?!http)([^)]+)\)", README.read_text()))
def test_links_lead_somewhere(path):
    assert (README.parent / path).exists()
