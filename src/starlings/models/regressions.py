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

from starlings.errors import check_positive, refusing_old_names
from starlings.models.design import Design
from starlings.models.families.binary import Logistic
from starlings.models.families.continuous import Gaussian, StudentT
from starlings.models.families.counts import Poisson
from starlings.models.families.family import Family
from starlings.models.priors.normal import NormalPrior
from starlings.problem import Problem
from starlings.problem.parameters import Parameter
from starlings.problem.shards import divide_by_site

DEFAULT_PRIOR_STD = 10**0.5
"""Standard deviation of the prior N(0, 10) of a coefficient, in units of the coefficient."""
OUTCOMES = {
    "gaussian": "Normal",
    "logistic": "Bernoulli",
    "poisson": "Poisson",
    "student_t": "StudentT",
}
"""The distribution of the outcomes as result files name it, by the name of the family."""


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
        return _regression(design, Gaussian(), NormalPrior(prior_std, "sigma", noise_prior_std))
    check_positive(prior_std=prior_std, noise_std=noise_std)
    return _regression(design, Gaussian(noise_std), NormalPrior(prior_std), quadratic=True)


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
    return _regression(design, Logistic(), NormalPrior(prior_std))


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
    design: Design, family: Family, prior: NormalPrior, quadratic: bool = False
) -> Problem:
    """The problem whose rows are of this family and whose coefficients have this prior."""
    family.check({"y": design.y})
    parameters = {"beta": Parameter((design.x.shape[1],), labels=design.labels)}
    if prior.scale_name is not None:
        parameters[prior.scale_name] = Parameter((), "positive")
    shards = divide_by_site({"x": design.x, "y": design.y}, design.sites)
    problem = Problem(family, prior, parameters, shards, quadratic)
    kind = {"outcome": OUTCOMES[family.name], **family.settings}
    return problem.with_description(kind="regression", **kind, prior=asdict(prior))
