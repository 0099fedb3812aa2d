"""The benchmark of comparisons, at a small size."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app


@pytest.mark.slow
def test_all_settings_are_timed():
    outcome = CliRunner().invoke(app, ["field", "--quick"])
    assert outcome.exit_code == 0, outcome.output
    line = next(line for line in outcome.output.splitlines() if "ring 5" in line)
    numbers = [cell.strip() for cell in line.replace("┃", "│").split("│") if cell.strip()]
    graph, compared, candidates, *seconds = numbers
    assert (graph, compared) == ("ring 5", "5")  # published and best, and D-ADMMS tuned
    assert int(candidates) == 2 * 41 + 2 + 1
    assert all(float(each) > 0 for each in seconds)
    assert "the target is 120 s" in outcome.output
