"""`starlings field`: all samplers on the posteriors of the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import starlings as st
from starlings.cli import app
from starlings.research.field import run
from starlings.research.field.cases import CASES, SIZES, chosen, logistic

PAGE = Path(__file__).parents[2] / "docs" / "the-field.md"
CASE = "linear-ring-5"


def test_a_case_becomes_a_table_a_figure_and_numbers(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    output = tmp_path / "field"
    arguments = ["field", CASE, "--output", str(output), "--samplers", "dsgld", "--quick", "-q"]
    outcome = CliRunner().invoke(app, arguments)
    assert outcome.exit_code == 0, outcome.output
    assert {path.name for path in output.iterdir()} == {
        f"{CASE}.{kind}" for kind in ("json", "inc", "png")
    }
    text = (output / f"{CASE}.inc").read_text()
    assert f"](field/{CASE}.png)" in text
    assert "| dsgld | published |" in text
    found = st.load_comparison(output / f"{CASE}.json")
    assert found.about["made_by"]["samplers"] == ["dsgld"]
    monkeypatch.setattr(run, "compare", None)  # it is finished, and not computed again
    assert CliRunner().invoke(app, arguments).exit_code == 0
    other = CliRunner().invoke(app, [*arguments, "--force"])
    assert other.exit_code == 1


@pytest.mark.slow
def test_samplers_with_a_hub_are_compared_once_for_all_graphs(tmp_path, monkeypatch):
    """They are in both tables, with the same numbers, and the others with those of the graph."""
    pytest.importorskip("matplotlib")
    asked = []

    def compare(problem, network, samplers, **how):
        asked.append(samplers)
        return st.compare(problem, network, samplers, **how)

    monkeypatch.setattr(run, "compare", compare)
    names, samplers = ["linear-ring-5", "linear-complete-5"], ["split-gibbs", "dsgld"]
    run.run(names, tmp_path, samplers=samplers, quick=True, progress=False)
    assert asked == [["split-gibbs"], ["dsgld"], ["dsgld"]]
    ring, full = (st.load_comparison(tmp_path / f"{name}.json") for name in names)
    assert ring.table["sampler"].tolist() == ["dsgld", "dsgld", "split-gibbs"]
    costs = [each.table.set_index(["sampler", "setting"])["messages"] for each in (ring, full)]
    assert costs[0]["split-gibbs", "best"] == costs[1]["split-gibbs", "best"] > 0
    assert costs[0]["dsgld", "best"] != costs[1]["dsgld", "best"]
    assert (full.about["edges"], len(full.candidates)) == (10, len(ring.candidates))


def test_divisions_have_the_same_rows():
    (one, _), (other, _) = logistic("random"), logistic("sorted")
    for problem in (one, other):
        assert tuple(problem.num_rows) == SIZES
    point = np.array([0.3, -0.2, 0.5])
    assert one.potential(point) == pytest.approx(other.potential(point))
    assert not np.allclose(one.potentials(point), other.potentials(point))


def test_an_unknown_case_has_a_hint():
    with pytest.raises(ValueError, match="Did you mean 'logistic-sorted'"):
        chosen(["logistic-sort"])


def test_the_page_has_every_case():
    text = PAGE.read_text(encoding="utf-8")
    for case in CASES:
        assert f"field/{case.name}.inc" in text
        folder = PAGE.parent / "field"
        assert (folder / f"{case.name}.inc").is_file()
        assert (folder / f"{case.name}.png").stat().st_size < 300_000
