"""Two versions of the library timed in turns; here this version against itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.versions import run as versions
from benchmarks.versions.worker import cases

CLONE = Path(__file__).parents[2]


def test_what_is_no_clone_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no clone of starlings"):
        versions.run(tmp_path)


def test_ratios_are_medians_of_neighbours_in_time():
    laps = [(1e-6, 2e-6), (1e-6, 3e-6), (4e-6, 4e-6)]
    assert versions._cells(laps) == ["1.0", "3.0", "2.00"]


@pytest.mark.slow
def test_a_version_is_about_as_fast_as_itself(monkeypatch, capsys):
    monkeypatch.setattr(versions, "LONG_SECONDS", 0.05)
    name = next(iter(cases()))
    grid = versions.run(CLONE, cases=name, turns=1, progress=False)
    assert float(grid.rows[0][-1]) > 0
