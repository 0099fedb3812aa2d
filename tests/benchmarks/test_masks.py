"""The benchmark of masks, at a small size."""

from __future__ import annotations

from typer.testing import CliRunner

from benchmarks.__main__ import app


def test_both_ways_are_timed():
    outcome = CliRunner().invoke(app, ["masks", "--quick", "--repeats", "1"])
    assert outcome.exit_code == 0, outcome.output
    assert "3 sites, 5 parameters, 300 rows; medians of 1" in outcome.output
    assert "weights" in outcome.output
    assert "hmc" in outcome.output
