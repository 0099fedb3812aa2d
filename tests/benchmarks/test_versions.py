"""Two versions of the library timed in turns; here this version against itself."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

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


class Stub(versions.Version):
    """A version without a process: 0.5 s for every run, and 2 ms a round, or 1 ms in this clone."""

    closed: ClassVar[list[Path]] = []

    def __init__(self, sources):
        self.sources = sources

    def seconds(self, case, rounds):
        return 0.5 + rounds * (1e-3 if self.sources == versions.HERE else 2e-3)

    def close(self):
        self.closed.append(self.sources)


def test_a_round_and_the_ratio_are_those_of_the_versions(monkeypatch, tmp_path, capsys):
    other = tmp_path / "src"
    (other / "starlings").mkdir(parents=True)
    monkeypatch.setattr(versions, "Version", Stub)
    monkeypatch.setattr(Stub, "closed", [])
    name = next(iter(cases()))
    grid = versions.run(tmp_path, cases=name, turns=3, progress=False)
    assert grid.rows == [[name, "2000.0", "1000.0", "0.50"]]
    assert Stub.closed == [other, versions.HERE]


@pytest.mark.slow
def test_processes_of_two_versions_answer_with_positive_times(monkeypatch, capsys):
    monkeypatch.setattr(versions, "LONG_SECONDS", 0.05)
    name = next(iter(cases()))
    grid = versions.run(CLONE, cases=name, turns=1, progress=False)
    (found, *numbers), *more = grid.rows
    other, this, ratio = map(float, numbers)
    assert (found, more) == (name, [])
    assert min(other, this) > 0
    assert ratio == pytest.approx(this / other, abs=0.006, rel=0.1 / min(other, this))  # rounded
