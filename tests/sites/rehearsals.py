"""Trials of three sites, whose rows are made up, provisioned in a folder."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import starlings as st
from starlings.errors import PosteriorWarning
from starlings.sites.rehearsal import Rehearsal

SITES = ["Ashby", "Brook", "Cliff"]
ROWS = 60
TRIAL = """
[model]
kind = "logistic_regression"
outcome = "ill"
covariates = ["age", "dose"]

[network]
graph = "complete"

[run]
{run}

[relay]
urls = ["wss://relay.invalid"]

[sites.Ashby]
[sites.Brook]
[sites.Cliff]
"""


def rows_of(site: str) -> pd.DataFrame:
    """The rows of one site."""
    random = np.random.default_rng(SITES.index(site))
    X = random.normal(size=(ROWS, 2))
    ill = (random.logistic(size=ROWS) < X @ [1.0, -0.5]).astype(float)
    return pd.DataFrame({"age": X[:, 0], "dose": X[:, 1], "ill": ill})


def provisioned(folder: Path, run: str = "draws = 20\nchains = 2") -> Rehearsal:
    """A trial whose sites have kits and have approved them."""
    trial = folder / "trial.toml"
    trial.write_text(TRIAL.format(run=run))
    data = {site: folder / f"{site}.csv" for site in SITES}
    for site, file in data.items():
        rows_of(site).to_csv(file, index=False)
    rehearsal = Rehearsal(trial, data, folder, delay=0.0)
    rehearsal.provision()
    return rehearsal


def in_one_process(**how: object) -> st.Result:
    """The draws of all rows in one process."""
    every = pd.concat([rows_of(site) for site in SITES])
    problem = st.models.logistic_regression(
        every[["age", "dose"]], every["ill"], [site for site in SITES for _ in range(ROWS)]
    )
    network = st.Network.complete(3).matched_to(SITES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)  # the runs are short
        return st.sample(problem, network, progress=False, **how)  # checked, as sites do
