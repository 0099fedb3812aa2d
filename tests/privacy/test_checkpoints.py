"""Checkpoints of masked runs: who can read them, what they hold, and masks after a restart."""

from __future__ import annotations

import stat

import numpy as np
import pytest

import starlings as st
from tests.privacy.test_private_runs import LENGTHS, RING, logistic

SAVED = {**LENGTHS, "checkpoint_every": 5}
IN_ROUNDS = {"sampler": st.DADMMS(rho=4.0), "burn_in": 5}
RUNS = {
    "rounds": IN_ROUNDS,
    "tuned": {"method": "coherent", "burn_in": 5},
    "hmc": {"method": "hmc"},
}


@pytest.mark.parametrize("how", RUNS.values(), ids=RUNS)
def test_nobody_else_can_read_a_checkpoint(how, tmp_path):
    st.sample(logistic(), RING, **SAVED, **how, privacy="totals", checkpoint=tmp_path / "run")
    files = list((tmp_path / "run").iterdir())
    assert len(files) >= 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def digests_of(problem, folder, privacy):
    st.sample(problem, RING, **SAVED, **IN_ROUNDS, privacy=privacy, checkpoint=folder)
    with np.load(max(folder.glob("state-*.npz")), allow_pickle=False) as arrays:
        return arrays["digests"]


def test_a_masked_checkpoint_has_hashes_in_place_of_potentials(tmp_path):
    """Neither potentials nor checksums that are linear in the rows."""
    problem = logistic()
    plain, masked = (digests_of(problem, tmp_path / p, p) for p in ("none", "totals"))
    points = np.random.default_rng(0).normal(scale=0.1, size=(2, problem.dim))
    potentials = np.column_stack([problem.potentials(point) for point in points])
    np.testing.assert_allclose(plain[:, 1:], potentials)
    assert not np.isclose(masked[:, None, :], plain[:, :, None]).any()
    assert ((masked == np.rint(masked)) & (masked > 2**20) & (masked < 2**48)).all()


def test_hashes_know_other_rows_and_other_models_and_not_rounding(tmp_path, monkeypatch):
    how = {**SAVED, **IN_ROUNDS, "privacy": "totals", "checkpoint": tmp_path / "run"}
    st.sample(logistic(), RING, **how)
    potentials = st.Problem.potentials
    monkeypatch.setattr(st.Problem, "potentials", lambda *a: potentials(*a) * (1 + 1e-15))
    st.sample(logistic(), RING, **how, resume=True)
    monkeypatch.setattr(st.Problem, "potentials", lambda *a: potentials(*a) * (1 + 1e-3))
    with pytest.raises(st.CheckpointError, match="the rows of site '0', or the model, are not"):
        st.sample(logistic(), RING, **how, resume=True)
    monkeypatch.undo()
    with pytest.raises(st.CheckpointError, match="the rows of site '0', or the model, are not"):
        st.sample(logistic(scale=1.1), RING, **how, resume=True)
