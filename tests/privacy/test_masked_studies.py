"""Studies of several processes, without MPI: what process 0 tells others before a masked run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import starlings as st
from starlings.errors import PrivacyError
from starlings.network.partition import divide
from starlings.study.run import run_on
from starlings.study.study import Study

SIZES = (31, 40, 53, 67)
"""Rows of the four sites."""


class Told:
    """A cluster of one process, which keeps what it would tell others."""

    is_first, size, where = True, 1, ""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def broadcast(self, value):
        self.told.append(value)
        return value

    def merged(self, own):
        self.told.append(own)
        return own

    def partition(self, network, rows=None):
        return self.broadcast(divide(network, 2, rows))

    def place(self, network, partition):
        return network


@pytest.fixture
def study(tmp_path):
    def written(standardise: bool) -> Study:
        rng = np.random.default_rng(0)
        sites = np.repeat(["a", "b", "c", "d"], SIZES)
        x = rng.normal(size=len(sites))
        y = (rng.logistic(size=len(x)) < x).astype(int)
        pd.DataFrame({"site": sites, "x": x, "y": y}).to_csv(tmp_path / "rows.csv", index=False)
        (tmp_path / "study.toml").write_text(
            '[data]\nfile = "rows.csv"\nsite = "site"\n'
            '[model]\nkind = "logistic_regression"\noutcome = "y"\ncovariates = ["x"]\n'
            f"standardise = {str(standardise).lower()}\n"
            '[network]\ngraph = "ring"\n[sampler]\n[run]\ndraws = 10\n'
        )
        return Study.read(tmp_path / "study.toml")

    return written


@pytest.mark.parametrize("privacy", ["none", "totals"])
def test_a_masked_study_tells_nobody_how_many_rows_a_site_has(study, privacy):
    cluster = Told()
    settings = {"method": "weights", "draws": 10, "check": False, "privacy": privacy}
    result = run_on(cluster, study(standardise=False), settings, quiet=True)
    assert isinstance(result, st.Result)
    sites, partition = cluster.told[:2]
    assert sites == ["a", "b", "c", "d"]
    assert partition.rows.tolist() == (list(SIZES) if privacy == "none" else [1, 1, 1, 1])
    shown = repr(cluster.told)
    assert all(str(size) in shown for size in SIZES) == (privacy == "none")


def test_standardised_covariates_of_a_masked_study_are_refused_before_anything_is_told(study):
    cluster = Told()
    with pytest.raises(PrivacyError, match="`standardise` tells all processes the sums of each"):
        run_on(cluster, study(standardise=True), {"privacy": "totals"}, quiet=True)
    assert cluster.told == []
