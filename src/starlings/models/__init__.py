"""Ready-made models: regressions on rows with a site label, and Gaussian targets."""

from starlings.models.gaussian import gaussian
from starlings.models.regressions import (
    linear_regression,
    logistic_regression,
    poisson_regression,
    student_t_regression,
)
from starlings.models.simulation import simulate

__all__ = [
    "gaussian",
    "linear_regression",
    "logistic_regression",
    "poisson_regression",
    "simulate",
    "student_t_regression",
]
