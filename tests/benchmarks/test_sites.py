"""Sites as processes that are killed, as many in a row as a test has time for."""

from __future__ import annotations

import pytest

from benchmarks.sites import kills

KILLS = 4
"""Moments of kills in each run."""


@pytest.mark.slow
def test_processes_that_are_killed_find_the_bits_of_a_calm_run():
    """Sites and a relay, with journals and TLS, at seeded random moments and within writes."""
    calm = [kills.run(0, seed) for seed in range(2)][-1]
    assert calm.results is not None
    assert len(set(calm.results)) == 3  # each site computes something else
    killed = []
    for seed in range(3):
        outcome = kills.run(KILLS, seed, calm.seconds)
        assert outcome.results == calm.results
        killed += outcome.killed
    assert len(killed) >= 6
