"""The benchmark of lossy links, at a small size."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.lossy import NETWORKS, _steps_waiting


@pytest.mark.slow
def test_both_ways_are_shown():
    outcome = CliRunner().invoke(app, ["lossy", "--quick"])
    assert outcome.exit_code == 0, outcome.output
    assert "ring of 5" in outcome.output
    assert "50 chains each" in outcome.output


def test_waiting_takes_one_interval_a_step_where_nothing_is_lost():
    assert _steps_waiting(NETWORKS["ring of 5"], 0.0, rounds=10) == 1.0


def test_two_agents_wait_for_the_slower_of_two_messages():
    """Both begin every second round together: E max of two tries is 8/3 where half are lost."""
    network = NETWORKS["star of 20"].path(2)
    assert 1 / (8 / 3) < _steps_waiting(network, 0.5) < 1 / 2
