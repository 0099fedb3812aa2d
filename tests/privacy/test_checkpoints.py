"""Masked runs that are saved, killed and resumed, or that lack a site or a key."""

from __future__ import annotations

import dataclasses
import stat

import numpy as np
import pytest

import starlings as st
from starlings.errors import MaskError
from starlings.privacy import masks, secrecy
from tests.privacy.test_private_runs import LENGTHS, RING, logistic
from tests.quick import quick_cases

SAVED = {**LENGTHS, "checkpoint_every": 5}
IN_ROUNDS = {"sampler": st.DADMMS(rho=4.0), "burn_in": 5}
RUNS = {
    "rounds": IN_ROUNDS,
    "tuned": {"method": "coherent", "burn_in": 5},
    "hmc": {"method": "hmc"},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", quick_cases(RUNS, ["rounds"]))
def test_nobody_else_can_read_a_checkpoint(name, tmp_path):
    how = {**SAVED, **RUNS[name]}
    st.sample(logistic(), RING, **how, privacy="totals", checkpoint=tmp_path / "run")
    files = list((tmp_path / "run").iterdir())
    assert len(files) >= 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def digests_of(problem, folder, privacy):
    st.sample(problem, RING, **SAVED, **IN_ROUNDS, privacy=privacy, checkpoint=folder)
    with np.load(max(folder.glob("state-*.npz")), allow_pickle=False) as arrays:
        return arrays["digests"]


@pytest.mark.slow
def test_a_masked_checkpoint_has_hashes_in_place_of_potentials(tmp_path):
    """Neither potentials nor checksums that are linear in the rows."""
    problem = logistic()
    plain, masked = (digests_of(problem, tmp_path / p, p) for p in ("none", "totals"))
    points = np.random.default_rng(0).normal(scale=0.1, size=(2, problem.dim))
    potentials = np.column_stack([problem.potentials(point) for point in points])
    np.testing.assert_allclose(plain[:, 1:], potentials)
    assert not np.isclose(masked[:, None, :], plain[:, :, None]).any()
    assert ((masked == np.rint(masked)) & (masked > 2**20) & (masked < 2**48)).all()


@pytest.mark.slow
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


class Killed(BaseException):
    """What ends a process at once, without a word to the run."""


@pytest.fixture
def streams(monkeypatch):
    """The addresses of all streams that are made, (key, number of the sum)."""
    made: list[tuple[bytes, int]] = []
    original = masks._stream

    def noted(key, number, count):
        made.append((key, number))
        if len(made) == noted.last:
            raise Killed
        return original(key, number, count)

    noted.last = None
    monkeypatch.setattr(masks, "_stream", noted)
    return made, noted


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_no_mask_is_used_twice_where_a_run_is_killed_and_resumed(share, tmp_path, streams):
    """A resumed run makes some of its sums again, and masks them anew."""
    made, noted = streams
    how = {**LENGTHS, "method": "hmc", "chains": 16, "privacy": "totals"}
    whole = st.sample(logistic(), RING, **how)
    number = len(made)
    noted.last = number + int(share * number)
    how |= {"checkpoint": tmp_path / "run", "checkpoint_every": 40}
    with pytest.raises(Killed):
        st.sample(logistic(), RING, **how)
    noted.last = None
    again = st.sample(logistic(), RING, **how, resume=True)
    np.testing.assert_array_equal(again.posterior["beta"], whole.posterior["beta"])
    assert len(made) > 2 * number
    assert len(set(made)) == len(made)


@pytest.mark.slow
def test_no_mask_is_used_twice_where_rounds_are_resumed(tmp_path, streams):
    made, _ = streams
    how = {**SAVED, **IN_ROUNDS, "privacy": "totals"}
    whole = st.sample(logistic(), RING, **how)
    saved = {**how, "checkpoint": tmp_path / "run"}
    st.sample(logistic(), RING, **{**saved, "draws": 10})
    again = st.sample(logistic(), RING, **saved, resume=True)
    np.testing.assert_array_equal(again.posterior["beta"], whole.posterior["beta"])
    assert len(set(made)) == len(made)


@pytest.mark.slow
def test_a_missing_site_ends_a_run(monkeypatch):
    masked = masks.Masks.masked

    def without_last(self, parts):
        sent = masked(self, parts)
        sent[-1] = 0.0
        return sent

    monkeypatch.setattr(masks.Masks, "masked", without_last)
    for how in ({"method": "weights"}, IN_ROUNDS):
        with pytest.raises(MaskError, match=r"do not cancel.*a site is missing.*anew\.$"):
            st.sample(logistic(), RING, **LENGTHS, **how, privacy="totals")


@pytest.mark.slow
def test_a_wrong_public_key_ends_a_run(monkeypatch):
    """As where somebody put another key in place of a site's own; 0 and 2 are neighbours of 1."""
    agreed = secrecy.agreed_keys

    def with_a_stranger(sites, local, communicator):
        keys = agreed(sites, local, communicator)
        stranger = agreed(sites, local, communicator)[sites[2]].public[sites[2]]
        public = {**keys[sites[0]].public, sites[2]: stranger}
        return {**keys, sites[0]: dataclasses.replace(keys[sites[0]], public=public)}

    monkeypatch.setattr(secrecy, "agreed_keys", with_a_stranger)
    for how in ({"method": "weights"}, {"method": "hmc", "chains": 16}, {**IN_ROUNDS, "seed": 1}):
        with pytest.raises(MaskError, match="each other's public key"):
            st.sample(logistic(), RING, **{**LENGTHS, **how}, privacy="totals")
