"""Ready-made models: regressions with their families and priors, and Gaussian targets."""

from starlings.models.families import family_of
from starlings.models.gaussian import gaussian
from starlings.models.priors import Prior, priors_of
from starlings.models.regressions import (
    linear_regression,
    logistic_regression,
    poisson_regression,
    student_t_regression,
)
from starlings.models.simulation import simulate

__all__ = [
    "Prior",
    "family_of",
    "gaussian",
    "linear_regression",
    "logistic_regression",
    "poisson_regression",
    "priors_of",
    "simulate",
    "student_t_regression",
]
