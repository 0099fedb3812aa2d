"""Ready-made regressions: rows with a label of their site in, a `Problem` out.

Every model has coefficients beta ~ N(0, prior_std^2 I) on the columns of X and, per row x with
outcome y and eta = x'beta,

    linear      y ~ N(eta, noise_std^2)                        quadratic if noise_std is known  (1)
    logistic    y ~ Bernoulli(1 / (1 + exp(-eta)))                                              (2)
    Poisson     y ~ Poisson(exp(eta))                                                           (3)
    Student-t   (y - eta) / scale ~ t(degrees_of_freedom)                                       (4)

An unknown noise_std or scale is positive with a half-normal prior. A column of ones is put before
those of X, so that the first coefficient is an intercept with the prior of all coefficients; with
`intercept=False` there is none. Studies do the same (see `study`). Priors and outcomes are
densities that can also be drawn from: see `simulate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from starlings.errors import check_positive, refusing_old_names
from starlings.models.design import Design
from starlings.models.outcomes import Bernoulli, Normal, NormalPrior, Poisson, StudentT
from starlings.problem import Problem
from starlings.problem.columns import RowError
from starlings.problem.parameters import Parameter
from starlings.problem.shards import divide_by_site

DEFAULT_PRIOR_STD = 10**0.5
"""Standard deviation of the prior N(0, 10) of a coefficient, in units of the coefficient."""


@refusing_old_names
def linear_regression(
    X: Any,
    y: Any,
    sites: Sequence[Any],
    *,
    noise_std: float | None = None,
    prior_std: float = DEFAULT_PRIOR_STD,
    noise_prior_std: float = 10.0,
    intercept: bool = True,
) -> Problem:
    """Linear regression, eq. (1), with known noise or, if `noise_std` is None, unknown `sigma`.

    >>> X, y, sites = [[1.0], [2.0], [4.0]], [1.1, 1.9, 4.2], ["north", "north", "south"]
    >>> linear_regression(X, y, sites, noise_std=1.0).parameters.labels()
    ['beta[intercept]', 'beta[x0]']
    >>> linear_regression(X, y, sites, noise_std=1.0, intercept=False).parameters.labels()
    ['beta[0]']
    """
    design = Design.of(X, y, sites, intercept)
    if noise_std is None:
        check_positive(prior_std=prior_std, noise_prior_std=noise_prior_std)
        return _regression(design, Normal(), NormalPrior(prior_std, "sigma", noise_prior_std))
    check_positive(prior_std=prior_std, noise_std=noise_std)
    return _regression(design, Normal(noise_std), NormalPrior(prior_std), quadratic=True)


@refusing_old_names
def logistic_regression(
    X: Any,
    y: Any,
    sites: Sequence[Any],
    *,
    prior_std: float = DEFAULT_PRIOR_STD,
    intercept: bool = True,
) -> Problem:
    """Logistic regression, eq. (2); outcomes are 0 or 1."""
    check_positive(prior_std=prior_std)
    design = Design.of(X, y, sites, intercept)
    _check_outcome(design.y, np.isin(design.y, (0, 1)), "0 or 1")
    return _regression(design, Bernoulli(), NormalPrior(prior_std))


@refusing_old_names
def poisson_regression(
    X: Any,
    y: Any,
    sites: Sequence[Any],
    *,
    prior_std: float = DEFAULT_PRIOR_STD,
    intercept: bool = True,
) -> Problem:
    """Poisson regression, eq. (3); outcomes are counts."""
    check_positive(prior_std=prior_std)
    design = Design.of(X, y, sites, intercept)
    _check_outcome(
        design.y, (design.y >= 0) & (design.y == np.round(design.y)), "a count (0, 1, 2, ...)"
    )
    return _regression(design, Poisson(), NormalPrior(prior_std))


@refusing_old_names
def student_t_regression(
    X: Any,
    y: Any,
    sites: Sequence[Any],
    *,
    degrees_of_freedom: float = 4.0,
    prior_std: float = DEFAULT_PRIOR_STD,
    noise_prior_std: float = 10.0,
    intercept: bool = True,
) -> Problem:
    """Robust regression, eq. (4), with unknown `scale`."""
    check_positive(
        degrees_of_freedom=degrees_of_freedom, prior_std=prior_std, noise_prior_std=noise_prior_std
    )
    design = Design.of(X, y, sites, intercept)
    prior = NormalPrior(prior_std, "scale", noise_prior_std)
    return _regression(design, StudentT(degrees_of_freedom), prior)


def _regression(
    design: Design, outcome: Any, prior: NormalPrior, quadratic: bool = False
) -> Problem:
    """The problem whose rows have these outcomes and whose coefficients have this prior."""
    parameters = {"beta": Parameter((design.x.shape[1],), labels=design.labels)}
    if prior.scale_name is not None:
        parameters[prior.scale_name] = Parameter((), "positive")
    shards = divide_by_site({"x": design.x, "y": design.y}, design.sites)
    problem = Problem(outcome, prior, parameters, shards, quadratic)
    kind = {"outcome": type(outcome).__name__, **asdict(outcome)}
    return problem.with_description(kind="regression", **kind, prior=asdict(prior))


def _check_outcome(y: np.ndarray, valid: np.ndarray, wanted: str) -> None:
    """Refuse outcomes of which some row is not `valid`, with what is `wanted` in words."""
    if not valid.all():
        row = int(np.argmin(valid))
        raise RowError(f"`y` must be {wanted}, got {y[row]:g}", row)
