"""The benchmark of masks, at a small size."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app


@pytest.mark.slow
def test_both_ways_are_timed():
    outcome = CliRunner().invoke(app, ["masks", "--quick", "--repeats", "1"])
    assert outcome.exit_code == 0, outcome.output
    assert "3 sites, 5 parameters, 300 rows; medians of 1" in outcome.output
    for name in ("weights", "hmc", "D-ADMMS", "D-SGLD", "extra, at one site"):
        assert name in outcome.output
