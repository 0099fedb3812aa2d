"""Priors of regressions: texts such as "normal(0, 1)", and defaults on the scale of the data."""

from starlings.models.priors.defaults import DataScale, default_texts, regression_prior
from starlings.models.priors.joint import Average, RegressionPrior
from starlings.models.priors.prior import Prior, PriorVector
from starlings.models.priors.table import priors_of

__all__ = [
    "Average",
    "DataScale",
    "Prior",
    "PriorVector",
    "RegressionPrior",
    "default_texts",
    "priors_of",
    "regression_prior",
]
