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
    space: dict = {}
    exec(BLOCKS[0], space)
    mean, covariance = space["problem"].exact_posterior()
    sd = np.sqrt(np.diag(covariance))
    found = space["result"].posterior["beta"].mean(("chain", "draw")).values
    assert found.shape == (4, 3)  # an intercept and two slopes
    # 4000 draws with the exact autocorrelation time give the Monte Carlo error of a mean
    law = space["starlings"].theory.law(
        space["problem"], space["network"], space["starlings"].DADMMS(rho=8.0)
    )
    errors = sd * np.sqrt(law.autocorrelation_rounds() / 4000)
    bias = np.abs(law.stationary().mean - mean).max(axis=0)
    assert (np.abs(found - mean) < 5 * errors + bias).all()
    assert "[" in capsys.readouterr().out


@pytest.mark.slow
def test_the_second_example_runs(capsys):
    space: dict = {}
    exec(BLOCKS[1], space)
    assert "sigma" in capsys.readouterr().out
    assert dict(space["result"].posterior.sizes)["agent"] == 3
    assert (space["result"].posterior["sigma"] > 0).all()


@pytest.mark.parametrize("path", re.findall(r"\]\((?!http)([^)]+)\)", README.read_text()))
def test_links_lead_somewhere(path):
    assert (README.parent / path).exists()
