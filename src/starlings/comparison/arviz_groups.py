"""The groups that ArviZ's own plots and checks read, from a result and the rows that are here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from starlings.comparison.models import OUTCOME
from starlings.comparison.site_likelihood import (
    flat_vectors,
    log_likelihood_blocks,
    site_draws,
)
from starlings.problem import Problem
from starlings.problem.shards import count_rows
from starlings.results.answers.model import COEFFICIENTS
from starlings.results.answers.prediction import Predictor
from starlings.results.result import Result, as_arviz

PREDICTORS = "x"
"""The column of a regression with the covariates of a row."""


def arviz_groups(problem: Problem, result: Result, seed: int = 0) -> Any:
    """Return draws and rows in the groups that ArviZ expects, so that its plots and `loo` work.

    The groups are `posterior`, with the dimension `agent` as in the result; `sample_stats`;
    `log_likelihood`, one number for each (chain, draw, row) at the draws of the site's own agent;
    `observed_data`, the outcomes; `constant_data`, the other columns, and the site of every row;
    and, for a regression, `posterior_predictive`, one simulated outcome for each (chain, draw,
    row), whole times where some were censored. Rows are those of the sites in `problem`: of one
    site at that site, of all where they are together. Runs of more than 4000 draws are thinned.

    All of it is in memory at once, and it has the rows themselves: it is not to be sent anywhere.

    Args:
        problem: the model and the rows of every site, or of some.
        result: draws of this problem.
        seed: the same seed gives the same simulated outcomes.
    """
    sites = [site for site, rows in problem.shards.items() if count_rows(rows) > 0]
    draws = {site: site_draws(result, site) for site in sites}
    own = next(iter(draws.values()))
    coordinates = {dim: own[dim].values for dim in ("chain", "draw")}
    at_rows = {"site": ("row", np.repeat(sites, [count_rows(problem.shards[s]) for s in sites]))}
    likelihood = [_log_likelihood(problem, site, draws[site]) for site in sites]
    groups = {
        "posterior": result.posterior.sel(coordinates),
        "sample_stats": result.sample_stats.sel(coordinates),
        "log_likelihood": _by_row(likelihood, coordinates, at_rows),
        **_data(problem, sites, result, at_rows),
    }
    predicted = _predicted(problem, draws, result, seed)
    if predicted:
        groups["posterior_predictive"] = _by_row(predicted, coordinates, at_rows)
    return as_arviz(xr.DataTree.from_dict(groups), "`arviz_groups`")


def _log_likelihood(problem: Problem, site: str, draws: xr.Dataset) -> np.ndarray:
    """The log-likelihood of a site's rows, (chain, draw, row)."""
    vectors = flat_vectors(problem, draws)
    rows = np.concatenate(list(log_likelihood_blocks(problem, site, vectors)))
    return np.moveaxis(rows.reshape(-1, *vectors.shape[:2]), 0, -1)


def _predicted(
    problem: Problem, draws: Mapping[str, xr.Dataset], result: Result, seed: int
) -> list[np.ndarray]:
    """One outcome of every row for every draw, (chain, draw, row); none without a regression."""
    if problem.description.get("kind") != "regression" or COEFFICIENTS not in result.posterior:
        return []
    found = []
    for number, (site, own) in enumerate(draws.items()):
        predictor = Predictor.of(result.attrs, own.expand_dims(agent=[site], axis=2), site)
        rng = np.random.default_rng([seed, number])
        outcomes = predictor.outcomes_at(problem.shards[site], rng)
        found.append(outcomes.reshape(own.sizes["chain"], own.sizes["draw"], -1))
    return found


def _data(
    problem: Problem, sites: list[str], result: Result, at_rows: Mapping[str, Any]
) -> dict[str, xr.Dataset]:
    """The columns of the rows: outcomes, and everything else."""
    shards = [problem.shards[site] for site in sites]
    columns = {name: np.concatenate([rows[name] for rows in shards]) for name in shards[0]}
    observed = {name: columns.pop(name) for name in (OUTCOME,) if name in columns}
    coordinates = dict(at_rows)
    if problem.labels_of(COEFFICIENTS) is not None and PREDICTORS in columns:
        coordinates["x_dim_0"] = list(problem.labels_of(COEFFICIENTS) or ())
    found = {"constant_data": _columns(columns, coordinates)}
    return {"observed_data": _columns(observed, at_rows), **found} if observed else found


def _columns(columns: Mapping[str, np.ndarray], coordinates: Mapping[str, Any]) -> xr.Dataset:
    """Columns along the rows; those of vectors have further dimensions."""
    variables = {
        name: (["row", *(f"{name}_dim_{axis}" for axis in range(values.ndim - 1))], values)
        for name, values in columns.items()
    }
    return xr.Dataset(variables, coordinates)


def _by_row(
    parts: list[np.ndarray], coordinates: Mapping[str, Any], at_rows: Mapping[str, Any]
) -> xr.Dataset:
    """Numbers of every chain, draw and row, as the variable of the outcome."""
    values = np.concatenate(parts, axis=-1)
    own = {OUTCOME: (["chain", "draw", "row"], values)}
    return xr.Dataset(own, {**coordinates, **at_rows})
