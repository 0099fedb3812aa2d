"""What each site would find alone, from its own rows with the whole prior, for comparison."""

from __future__ import annotations

import warnings
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from starlings.diagnostics.draws import shared, without_derived
from starlings.errors import (
    CandidateError,
    DivergenceError,
    PosteriorWarning,
    SubposteriorError,
    TuningError,
)
from starlings.network import Network
from starlings.problem import Problem
from starlings.problem.shards import count_rows
from starlings.results.parameter_table import pooled_table
from starlings.results.result import Result
from starlings.sampling.sampling import sample

FAILURES = (CandidateError, DivergenceError, SubposteriorError, TuningError)
"""What a run ends with whose rows and prior do not determine an answer."""
QUANTILES = {"2.5%": 0.025, "5%": 0.05, "50%": 0.5, "95%": 0.95, "97.5%": 0.975}
"""The quantiles of the table, by the name of their column."""


def alone(problem: Problem, draws: int = 500, seed: int = 0) -> pd.DataFrame:
    """Estimate the parameters at every site from its own rows only, as if there was no network.

    The table has a row for each site and entry of a parameter, with the columns `site`, `entry`,
    `mean`, `sd` and the quantiles `2.5%`, `5%`, `50%`, `95%` and `97.5%`. Where a site's rows and
    the prior do not suffice for an answer, its numbers are NaN.

    It computes where the rows are, and sends nothing. `result.with_tables(alone=...)` keeps the
    table for the report of a result, and then it is wherever that result goes: it says much more of
    a single site than the posterior of all rows.

    Args:
        problem: the model and the rows of every site, or of some.
        draws: as in `sample`.
        seed: the same seed gives the same draws.
    """
    sites = [site for site, rows in problem.shards.items() if count_rows(rows) > 0]
    return pd.concat([_of_site(problem, s, draws, seed) for s in sites], ignore_index=True)


def _of_site(problem: Problem, site: str, draws: int, seed: int) -> pd.DataFrame:
    """The rows of the table of one site."""
    own = problem.of_site(site)
    graph: nx.Graph = nx.empty_graph([site])
    how: dict[str, Any] = {"draws": draws, "seed": seed, "progress": False, "check": False}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PosteriorWarning)
            result = sample(own, Network(graph), **how)
    except FAILURES as error:
        warnings.warn(f"site {site!r} alone has no estimates: {error}", stacklevel=3)
        return pd.DataFrame({"site": [site], "entry": [""]}).assign(**_unknown())
    table = _summary(result)
    return table.rename_axis("entry").reset_index().assign(site=site)[["site", "entry", *table]]


def _summary(result: Result) -> pd.DataFrame:
    return pooled_table(shared(without_derived(result.posterior, ("beta",))), QUANTILES)


def _unknown() -> dict[str, float]:
    return dict.fromkeys(("mean", "sd", *QUANTILES), np.nan)
