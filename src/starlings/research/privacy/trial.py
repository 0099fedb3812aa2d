"""The small studies that are attacked: logistic regression at a few sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from starlings.models import logistic_regression
from starlings.problem import Problem

COVARIATES = 5
"""Covariates of a row beside the intercept, where nothing else is said; all are N(0, 1)."""
OTHER_ROWS = 30
"""Rows of every site that is not attacked."""


class Rows(NamedTuple):
    """Rows as the owner knows them."""

    covariates: np.ndarray
    """(row, dim), the first of which is 1."""
    labels: np.ndarray
    """0 or 1, (row,)."""


class Study(NamedTuple):
    """A logistic regression of simulated rows; its sites are named 0, 1, ..."""

    sizes: Sequence[int]
    """Rows of every site."""
    covariates: int = COVARIATES
    """Covariates of a row beside the intercept."""
    seed: int = 0

    def problem(self) -> Problem:
        """The model with its rows."""
        rng = np.random.default_rng(self.seed)
        sites = np.repeat(np.arange(len(self.sizes)), self.sizes).tolist()
        X = rng.standard_normal((len(sites), self.covariates))
        beta = rng.standard_normal(self.covariates + 1)
        y = (rng.logistic(size=len(X)) < beta[0] + X @ beta[1:]).astype(float)
        return logistic_regression(X, y, sites)


def rows_of(problem: Problem, *sites: int) -> Rows:
    """The rows of some sites, one after the other."""
    shards = [problem.shards[problem.sites[site]] for site in sites]
    return Rows(*(np.concatenate([shard[column] for shard in shards]) for column in ("x", "y")))


class PriorPart(NamedTuple):
    """What the prior adds to a site's numbers at points (point, dim), which all sites know."""

    value: Any
    gradient: Any
    hessian: Any


def prior_part(problem: Problem, points: Any) -> PriorPart:
    """-(1/N) log p and its derivatives at points (point, dim), as NumPy arrays."""
    with jax.enable_x64(True):
        found = prior_derivatives(problem, jnp.asarray(points))
        return PriorPart(*(np.asarray(part) for part in found))


def prior_derivatives(problem: Problem, points: Any) -> PriorPart:
    """The same inside compiled code."""

    def own(x: jax.Array) -> jax.Array:
        return -problem.log_prior(x) / problem.num_agents

    return PriorPart(*(jax.vmap(f)(points) for f in (own, jax.grad(own), jax.hessian(own))))
