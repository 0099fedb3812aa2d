"""The benchmark of masks, at a small size."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

import starlings as st
from benchmarks import masks
from benchmarks.__main__ import app
from starlings.privacy.masks import Masks


def test_the_time_of_one_site_is_that_of_masks(monkeypatch):
    """It grows by what masks take longer, once for each of the sums."""
    problem, network = masks.problem_of(3, 2, 60), st.Network.ring(3).matched_to(["0", "1", "2"])
    how = {"method": "weights", "draws": 10, "chains": 4}
    plain, made, slow = Masks.masked, [], 0.02

    def slower(own: Masks, parts):
        if len(parts) == 1:  # one site alone
            made.append(parts.shape[1])
            began = masks.time.process_time()
            while masks.time.process_time() < began + slow:
                pass
        return plain(own, parts)

    before = masks.seconds_at_one_site(problem, network, how)
    monkeypatch.setattr(Masks, "masked", slower)
    after = masks.seconds_at_one_site(problem, network, how)
    assert len(made) >= 3  # of derivatives, and of candidates
    assert after - before > 0.8 * slow * len(made)


def test_a_run_without_masks_is_not_timed_as_a_masked_one(monkeypatch):
    plain = st.sample
    monkeypatch.setattr(st, "sample", lambda *a, **k: plain(*a, **{**k, "privacy": "none"}))
    problem, network = masks.problem_of(3, 2, 60), st.Network.ring(3)
    with pytest.raises(RuntimeError, match="made no masks"):
        masks.seconds_at_one_site(problem, network, {"method": "weights", "draws": 10})


@pytest.mark.slow
def test_both_ways_are_timed():
    outcome = CliRunner().invoke(app, ["masks", "--quick", "--repeats", "1"])
    assert outcome.exit_code == 0, outcome.output
    assert "3 sites, 5 parameters, 300 rows; medians of 1" in outcome.output
    for name in ("weights", "hmc", "D-ADMMS", "D-SGLD", "extra, at one site"):
        assert name in outcome.output
