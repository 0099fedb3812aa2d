"""Draws do not change: every case of `cases` against the draws kept in `draws.npz`.

The file was written by version 0.1.0, but for the tuned runs on potentials that are not quadratic.
In these, version 0.2.0 makes a last step of Newton's method to the mode, which moves the draws by a
millionth of their standard deviation. A change of the numbers is a change of what users get for a
seed: write the file anew (see `cases`) only where that is intended, and say so in the changelog.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.golden import cases
from tests.mpi import mpi, needs_mpi
from tests.quick import quick_cases

GOLDEN = np.load(Path(__file__).with_name("draws.npz"))
TOLERANCE = {"float64": 1e-12, "float32": 1e-5}


QUICK_SAMPLERS = ("dadmms", "dadmms paper", "cadmm", "midpoint", "dsghmc", "dula decay")
QUICK_SAMPLERS += ("dsgld coherent batch", "metropolis sum", "metropolis vote")
QUICK = [c for c in cases.CASES if c[:2] == ("linear", "irregular") and c[2] in QUICK_SAMPLERS]
"""Cases that the quick suite runs: every algorithm, on the potentials that compile fastest."""


def assert_as_kept(found: np.ndarray, key: str, precision: str = "float64") -> None:
    """Equal to the kept draws, in units of their largest entry."""
    wanted = GOLDEN[key]
    assert found.shape == wanted.shape
    limit = TOLERANCE[precision] * np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=limit)


@pytest.mark.quick(4)
@pytest.mark.parametrize(
    "case", quick_cases(cases.CASES, QUICK), ids=lambda case: cases.name_of(*case)
)
def test_draws_are_those_that_were_kept(case):
    found = cases.drawn(cases.PROBLEMS[case[0]](), cases.NETWORKS[case[1]](), case)
    assert_as_kept(found, cases.name_of(*case), precision=case[-1])


@pytest.mark.parametrize(
    "case", quick_cases(cases.TUNED, cases.TUNED[:1]), ids=lambda case: cases.name_of(*case)
)
def test_draws_of_tuned_runs_are_those_that_were_kept(case):
    assert_as_kept(cases.tuned(*case), cases.name_of("tuned", *case))


@pytest.mark.slow
def test_draws_of_a_resumed_run_are_those_that_were_kept(tmp_path):
    assert_as_kept(cases.resumed(tmp_path), "resumed")


@needs_mpi
@pytest.mark.slow
@pytest.mark.parametrize("case", cases.CLUSTER, ids=lambda case: cases.name_of(*case))
def test_draws_of_two_processes_are_those_that_were_kept(tmp_path, case):
    key, target = cases.name_of("mpi", *case), tmp_path / "draws.npz"
    done = mpi(2, "-m", "tests.golden.cases", target, "mpi", key)
    assert done.returncode == 0, done.stderr
    found = np.load(target)
    assert found.files == [key]
    assert_as_kept(found[key], key)


def test_every_kept_case_is_compared():
    names = [cases.name_of(*case) for case in cases.CASES]
    names += [cases.name_of("tuned", *case) for case in cases.TUNED]
    names += [cases.name_of("mpi", *case) for case in cases.CLUSTER]
    assert sorted(GOLDEN.files) == sorted([*names, "resumed"])
