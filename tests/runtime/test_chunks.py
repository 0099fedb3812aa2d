"""How long chunks become: half a second, learnt from the clock."""

from __future__ import annotations

import time

import pytest

from starlings.runtime.chunks import CHUNK_SECONDS, FIRST_CHUNK_ROUNDS, Pace


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still but for what `spend` spends."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def spend(seconds):
        now[0] += seconds
        return seconds

    return spend


def test_the_first_chunk_compiles_and_says_nothing_of_the_pace(clock):
    pace = Pace()
    assert pace.timed(pace.rounds, clock, 60.0) == 60.0
    assert pace.rounds == FIRST_CHUNK_ROUNDS


@pytest.mark.parametrize(
    ("rounds", "seconds", "following"),
    [
        (8, 0.25, 16),
        (8, 2.0, 2),
        (8, 1000.0, 1),
        (8, 0.001, 80),
        (8, 0.0, 80),
        (3, 0.25, 6),
    ],
    ids=["longer", "shorter", "one at least", "ten times at most", "no time", "by what was run"],
)
def test_a_chunk_as_long_as_makes_half_a_second(clock, rounds, seconds, following):
    pace = Pace()
    pace.timed(8, clock, 60.0)
    pace.timed(rounds, clock, seconds)
    assert CHUNK_SECONDS == 0.5
    assert pace.rounds == following
