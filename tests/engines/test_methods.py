"""All methods on sums have the draws of one process, behind a hub that adds masked integers."""

from __future__ import annotations

import pytest

from tests.engines.studies import STUDY, Programs, check_draws, study

HMC = STUDY.replace("draws = 60\nchains = 2", 'method = "hmc"\ndraws = 5\nchains = 16')
"""A short run: leapfrogs make differences by rounding larger, until a long one has other draws."""
METROPOLIS = STUDY + 'method = "weights-metropolis"\n'
FORMULA = STUDY.replace(
    'kind = "logistic_regression"\noutcome = "readmitted"\ncovariates = ["age", "stay"]\n'
    "prior_std = 2.5",
    'formula = "readmitted ~ scale(age) + poly(stay, 2)"\nfamily = "logistic"',
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [METROPOLIS, HMC, FORMULA], ids=["weights-metropolis", "hmc", "formula"]
)
def test_draws_are_those_of_one_process(tmp_path, text):
    path = study(tmp_path, text=text)
    programs = Programs.of_study(path, tmp_path / "results")
    check_draws(path, programs.run(), privacy="totals")
    assert not programs.errors


@pytest.mark.slow
def test_without_masks_too(tmp_path):
    path = study(tmp_path, 'privacy = "none"\n')
    check_draws(path, Programs.of_study(path, tmp_path / "results").run())
